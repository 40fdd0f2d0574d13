package doctor

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/prebind/prebind/config"
	"github.com/prebind/prebind/internal/registration"
)

func TestJudgeAnswer(t *testing.T) {
	tests := map[string]struct {
		code   int
		header http.Header
		body   string
		want   []string
	}{
		"as it should be":   {code: 200, body: `{"Error":"InvalidRequest: the body is null, a JSON object is needed"}`},
		"not ready":         {code: 200, body: `{"Error":"NotReady: prebind is not ready: cache-pods: not synced yet"}`, want: []string{"fault:not ready|cache-pods"}},
		"shutting down":     {code: 200, body: `{"Error":"ShuttingDown: this replica"}`, want: []string{"fault:shutting down"}},
		"a wrong client":    {code: 200, body: `{"Error":"ClientRefused: \"x\" is not among server.tls.allowedClientNames"}`, want: []string{"fault:prebind refuses this caller: \"x\" is not among"}},
		"success":           {code: 200, body: `{"Error":""}`, want: []string{"fault:answered with success"}},
		"nothing":           {code: 200, body: `{}`, want: []string{"fault:answered with success"}},
		"null":              {code: 200, body: `null`, want: []string{"fault:answered with success"}},
		"another error":     {code: 200, body: `{"Error":"Internal: panic"}`, want: []string{"fault:unexpected answer|Internal: panic"}},
		"a login page":      {code: 200, body: "<html>\n  please log in</html>", want: []string{"fault:not what prebind answers: <html> please log in"}},
		"an empty body":     {code: 200, body: "", want: []string{"fault:an empty body"}},
		"plain HTTP on TLS": {code: 400, body: "Client sent an HTTP request to an HTTPS server.\n", want: []string{"fault:speaks TLS, but the URL begins with http://"}},
		"a wrong path":      {code: 404, body: `{"Error":"no such path; here is POST /v1/bind"}`, want: []string{"fault:prebind has no path http://x/v2/bind"}},
		"another program":   {code: 404, body: "404 page not found", want: []string{"fault:404|something other than prebind"}},
		"GET only":          {code: 405, want: []string{"fault:405"}},
		"a redirect":        {code: 302, header: http.Header{"Location": {"https://login"}}, want: []string{"fault:redirect to https://login"}},
		"no upstream":       {code: 503, body: "no healthy upstream", want: []string{"fault:503|proxy or service mesh|no healthy upstream"}},
		"a login":           {code: 401, body: "who?", want: []string{"fault:401|login"}},
		"anything else":     {code: 500, body: "oops", want: []string{"fault:500|oops"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			status := strconv.Itoa(tc.code) + " " + http.StatusText(tc.code)
			response := &http.Response{StatusCode: tc.code, Status: status, Header: tc.header}
			wantFindings(t, judgeAnswer("http://x/v2/bind", response, []byte(tc.body)), tc.want...)
		})
	}
}

func TestJudgeWired(t *testing.T) {
	minutes := func(n int) time.Time { return now.Add(-time.Duration(n) * time.Minute) }
	mine := []string{"mine"}
	tests := map[string]struct {
		w    wiring
		want []string
	}{
		"called just now":                        {w: wiring{readings: readings{last: now, started: minutes(60), calls: 5}}},
		"never called":                           {w: wiring{readings: readings{started: minutes(60)}}, want: []string{"advice:no scheduler has called prebind since it was started 1h0m0s ago"}},
		"called, by an older prebind":            {w: wiring{readings: readings{started: minutes(60), calls: 5}}},
		"one call runs":                          {w: wiring{readings: readings{started: minutes(60), inFlight: 1}}},
		"never called, pods are bound":           {w: wiring{readings: readings{started: minutes(60)}, schedulers: mine, bound: []boundPod{{"a/b", "mine", minutes(5)}}}, want: []string{"fault:a/b|mine has bound it|none since prebind was started"}},
		"the same, who should is unknown":        {w: wiring{readings: readings{started: minutes(60)}, bound: []boundPod{{"a/b", "mine", minutes(5)}}}, want: []string{"advice:a/b|mine has bound it"}},
		"bound by another scheduler":             {w: wiring{readings: readings{started: minutes(60), last: minutes(30)}, schedulers: mine, bound: []boundPod{{"a/b", "other", minutes(5)}}}},
		"no call since the last, pods are bound": {w: wiring{readings: readings{started: minutes(60), last: minutes(30)}, schedulers: mine, bound: []boundPod{{"a/b", "mine", minutes(5)}}}, want: []string{"fault:a/b|the last 30m0s ago"}},
		"created before the last call":           {w: wiring{readings: readings{started: minutes(60), last: minutes(3)}, schedulers: mine, bound: []boundPod{{"a/b", "mine", minutes(5)}}}},
		"created before the start":               {w: wiring{readings: readings{started: minutes(4), last: minutes(7)}, schedulers: mine, bound: []boundPod{{"a/b", "mine", minutes(5)}}}},
		"created within the clocks' skew":        {w: wiring{readings: readings{started: minutes(60), last: minutes(5)}, schedulers: mine, bound: []boundPod{{"a/b", "mine", minutes(5).Add(3 * time.Second)}}}},
		"pods nobody looks at":                   {w: wiring{readings: readings{started: minutes(60), last: minutes(30)}, schedulers: mine, untried: []waitingPod{{name: "a/b", scheduler: "mine", created: minutes(20)}}}, want: []string{"fault:a/b|1 pod is without a word|0 bind calls"}},
		"the same, who should is unknown, never": {w: wiring{readings: readings{started: minutes(60), last: minutes(30)}, untried: []waitingPod{{name: "a/b", scheduler: "x", created: minutes(20)}}}, want: []string{"advice:a/b|(x)"}},
		"pods of others that nobody looks at":    {w: wiring{readings: readings{started: minutes(60), last: minutes(30)}, schedulers: mine, untried: []waitingPod{{name: "a/b", scheduler: "x", created: minutes(20)}}}},
		"pods that prebind holds":                {w: wiring{readings: readings{started: minutes(60), last: minutes(20), inFlight: 1}, schedulers: mine, untried: []waitingPod{{name: "a/b", scheduler: "mine", created: minutes(20)}}}},
		"pods that have just come":               {w: wiring{readings: readings{started: minutes(60), last: minutes(20)}, schedulers: mine, untried: []waitingPod{{name: "a/b", scheduler: "mine", created: now.Add(-time.Second)}}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.w.now = now
			wantFindings(t, tc.w.judge(), tc.want...)
		})
	}
}

func TestJudgeClass(t *testing.T) {
	drivers := map[string]bool{"disk.csi.example.com": true, "ebs.csi.aws.com": true}
	tests := map[string]struct {
		provisioner string
		stock       stock
		want        []string
	}{
		"a CSI driver":                      {provisioner: "disk.csi.example.com"},
		"no such driver":                    {provisioner: "other.example.com", stock: stock{waiting: 2}, want: []string{"advice:no CSIDriver named other.example.com|2 claims are of the class without a volume now"}},
		"no CSI driver, but it works":       {provisioner: "rancher.io/local-path", stock: stock{provisioned: 1}},
		"in-tree, its driver is there":      {provisioner: "kubernetes.io/aws-ebs"},
		"in-tree, its driver is not there":  {provisioner: "kubernetes.io/gce-pd", want: []string{"advice:pd.csi.storage.gke.io, which is not installed"}},
		"in-tree, long gone":                {provisioner: "kubernetes.io/glusterfs", want: []string{"advice:no part of Kubernetes any more"}},
		"static, one volume is free":        {provisioner: "kubernetes.io/no-provisioner", stock: stock{volumes: 5, free: 1}},
		"static, none is free, one waits":   {provisioner: "kubernetes.io/no-provisioner", stock: stock{volumes: 5, waiting: 1}, want: []string{"advice:none of its 5 volumes is free; 1 claim is of the class without a volume now"}},
		"static, there is no volume at all": {provisioner: "kubernetes.io/no-provisioner", want: []string{"advice:none of its 0 volumes is free"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.stock.class = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Provisioner: tc.provisioner}
			wantFindings(t, judgeClass(tc.stock, drivers), tc.want...)
		})
	}
}

func TestJudgeVersions(t *testing.T) {
	version := utilversion.MustParseGeneric
	tests := map[string]struct {
		server, built string
		scheduler     string
		want          []string
	}{
		"all the same":          {server: "v1.37.2", built: "1.37", scheduler: "v1.37.0"},
		"the oldest":            {server: "v1.34.0", built: "1.37", scheduler: "v1.34.0"},
		"a distribution's":      {server: "v1.36.1-eks-1234", built: "1.37", scheduler: "v1.36.1"},
		"too old":               {server: "v1.33.9+k3s1", built: "1.37", want: []string{"fault:older than 1.34"}},
		"much newer":            {server: "v1.39.0", built: "1.37", want: []string{"advice:newer than the 1.37"}},
		"one newer":             {server: "v1.38.0", built: "1.37"},
		"built for who knows":   {server: "v1.39.0"},
		"a newer scheduler":     {server: "v1.36.0", built: "1.37", scheduler: "v1.37.0", want: []string{"fault:pod kube-system/s|1.37.0 is newer"}},
		"an older scheduler":    {server: "v1.36.0", built: "1.37", scheduler: "v1.35.0"},
		"a much older schedule": {server: "v1.36.0", built: "1.37", scheduler: "v1.34.0", want: []string{"advice:more than one minor version older"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var built *utilversion.Version
			if tc.built != "" {
				built = version(tc.built)
			}
			var schedulers []scheduler
			if tc.scheduler != "" {
				schedulers = []scheduler{{"kube-system/s", version(tc.scheduler)}}
			}
			wantFindings(t, judgeVersions(version(tc.server), built, schedulers), tc.want...)
		})
	}
}

func TestImageVersion(t *testing.T) {
	for image, want := range map[string]string{
		"registry.k8s.io/kube-scheduler:v1.37.2":                          "1.37.2",
		"registry.example:5000/kube-scheduler:v1.36.0@sha256:0123":        "1.36.0",
		"registry.example:5000/kube-scheduler":                            "",
		"registry.k8s.io/kube-scheduler@sha256:0123":                      "",
		"registry.k8s.io/coredns:v1.11.1":                                 "",
		"rancher/hardened-kubernetes/kube-scheduler:v1.35.4-rke2r1-build": "1.35.4",
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
		got := ""
		if v := imageVersion(pod); v != nil {
			got = v.String()
		}
		if got != want {
			t.Errorf("image %s: version %q, want %q", image, got, want)
		}
	}
}

func TestCompareFiles(t *testing.T) {
	mutual := &config.TLS{ClientCAFile: "ca.crt"}
	tests := map[string]struct {
		address string
		tls     *config.TLS
		found   registration.Found
		want    []string
	}{
		"beside the scheduler":       {address: "127.0.0.1:8888", found: registration.Found{URL: "http://127.0.0.1:8888/v1"}},
		"localhost":                  {address: "localhost:8888", found: registration.Found{URL: "http://[::1]:8888/v1"}},
		"a free port":                {address: "127.0.0.1:0", found: registration.Found{URL: "http://127.0.0.1:8888/v1"}},
		"behind a Service":           {address: "0.0.0.0:8443", tls: mutual, found: registration.Found{URL: "https://10.96.0.77:443/v1", HTTPS: true, CertFile: "tls.crt"}},
		"another port":               {address: "127.0.0.1:8888", found: registration.Found{URL: "http://127.0.0.1:9999/v1"}, want: []string{"fault:calls port 9999|listens on port 8888"}},
		"out of reach":               {address: "127.0.0.1:8888", found: registration.Found{URL: "http://10.0.0.5:8888/v1"}, want: []string{"fault:10.0.0.5:8888|127.0.0.1:8888"}},
		"TLS on neither of both":     {address: "127.0.0.1:8888", tls: mutual, found: registration.Found{URL: "http://127.0.0.1:8888/v1"}, want: []string{"fault:prebind serves TLS, but the scheduler speaks plain HTTP"}},
		"TLS only at the scheduler":  {address: "127.0.0.1:443", found: registration.Found{URL: "https://127.0.0.1/v1", HTTPS: true}, want: []string{"fault:speaks TLS, but prebind serves plain HTTP"}},
		"no client certificate":      {address: ":8443", tls: mutual, found: registration.Found{URL: "https://10.0.0.5:8443/v1", HTTPS: true}, want: []string{"fault:none to show"}},
		"no client certificate, yet": {address: ":8443", tls: &config.TLS{}, found: registration.Found{URL: "https://10.0.0.5:8443/v1", HTTPS: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			cfg.Server.Address, cfg.Server.TLS = tc.address, tc.tls
			wantFindings(t, compareFiles(cfg, &tc.found), tc.want...)
		})
	}
}

func TestUninstallFile(t *testing.T) {
	tests := map[string]struct {
		found registration.Found
		want  []string
	}{
		"restored":                 {found: registration.Found{Mode: registration.ModeNone}},
		"the entry is left":        {found: registration.Found{Mode: registration.ModeStock, Path: "extenders[0]", URL: "http://x"}, want: []string{"fault:still has prebind as its bind extender|extenders[0]"}},
		"all is left":              {found: registration.Found{Mode: registration.ModeBind, URL: "http://x"}, want: []string{"fault:still needs prebind (mode bind)"}},
		"only the lists are left":  {found: registration.Found{Mode: registration.ModeBind}, want: []string{"fault:still disabled, with nobody"}},
		"some of the lists remain": {found: registration.Found{Mode: registration.ModeMixed}, want: []string{"fault:still disabled"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { wantFindings(t, uninstallFile("f", &tc.found), tc.want...) })
	}
}

func TestUninstallCalls(t *testing.T) {
	tests := map[string]struct {
		replicas []replica
		want     []string
	}{
		"at rest":                {replicas: []replica{{name: "a"}, {name: "b"}}},
		"one of two waits":       {replicas: []replica{{name: "a"}, {name: "b", readings: readings{inFlight: 2}}}, want: []string{"fault:2 bind calls are in prebind"}},
		"one cannot be read":     {replicas: []replica{{name: "a"}, {name: "b", err: http.ErrServerClosed}}, want: []string{"fault:cannot be known: b: "}},
		"one waits, one is dark": {replicas: []replica{{name: "a", readings: readings{inFlight: 1}}, {name: "b", err: http.ErrServerClosed}}, want: []string{"fault:cannot be known: b: ", "fault:1 bind call is in prebind"}},
		"none was found":         {want: []string{"fault:cannot be known: nobody is there"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := &exam{replicas: tc.replicas, noReplicas: "nobody is there"}
			wantFindings(t, e.uninstallCalls(), tc.want...)
		})
	}
}
