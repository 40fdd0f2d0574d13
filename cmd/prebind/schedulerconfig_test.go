package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prebind/prebind/internal/registration"
)

// runSchedulerConfig runs the command, wants an exit code, and returns what it
// printed. Nothing may stand on standard output unless the code is 0.
func runSchedulerConfig(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(t.Context(), append([]string{"scheduler-config"}, args...), &out, &errs); got != code {
		t.Fatalf("prebind scheduler-config %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, errs.String())
	}
	if code != exitOK && out.Len() > 0 {
		t.Errorf("failed, but printed:\n%s", out.String())
	}
	return out.String(), errs.String()
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSchedulerConfigExample(t *testing.T) {
	want, err := os.ReadFile("../../examples/scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := runSchedulerConfig(t, exitOK, "--mode", "bind", "--url", "http://127.0.0.1:8888")
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("examples/scheduler-config.yaml (-it +what is printed):\n%s", diff)
	}
}

// TestSchedulerConfigOutput holds the whole output against testdata. After a
// change that is meant, write it anew: prebind scheduler-config ARGS > FILE.
func TestSchedulerConfigOutput(t *testing.T) {
	tls := []string{
		"--url", "https://10.96.0.77:8443", "--server-name", "prebind.kube-system.svc", "--ca-file", "/etc/kubernetes/prebind/ca.crt",
		"--cert-file", "/etc/kubernetes/prebind/tls.crt", "--key-file", "/etc/kubernetes/prebind/tls.key",
	}
	tests := map[string][]string{
		"bind-https.yaml":   append([]string{"--scheduler-name", "default-scheduler", "--scheduler-name", "batch", "--http-timeout", "31m"}, tls...),
		"full-https.yaml":   append([]string{"--mode", "full", "--for", "rke2"}, tls...),
		"stock-http.yaml":   {"--mode=stock", "--url", "http://127.0.0.1:8888/v1", "--for", "k3s", "--scheduler-name", "second", "--kubeconfig-path", ""},
		"patched-full.yaml": append([]string{"--mode", "full", "--patch", "testdata/theirs.yaml"}, tls...),
		"theirs.yaml":       {"--mode", "none", "--patch", "testdata/patched-full.yaml"},
	}
	for file, args := range tests {
		t.Run(file, func(t *testing.T) {
			got, stderr := runSchedulerConfig(t, exitOK, args...)
			if diff := cmp.Diff(testdata(t, file), got); diff != "" {
				t.Errorf("prebind scheduler-config %s\n(-testdata/%s +printed):\n%s", strings.Join(args, " "), file, diff)
			}
			for _, word := range []string{"fault:", "advice:"} {
				if strings.Contains(stderr, word) {
					t.Errorf("something is wrong with what was printed:\n%s", stderr)
				}
			}
		})
	}
}

func TestSchedulerConfigRefuses(t *testing.T) {
	const url = "--url=http://127.0.0.1:8888"
	broken := write(t, "broken.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofile: []\nextender: []\n")
	tests := map[string]struct {
		args []string
		want []string
	}{
		"nothing":                     {nil, []string{"prebind: where is prebind? Give --url or --from-service", "See 'prebind scheduler-config --help'."}},
		"two places":                  {[]string{url, "--from-service=a/b"}, []string{"--url and --from-service exclude each other"}},
		"an unknown mode":             {[]string{url, "--mode=half"}, []string{`unknown mode "half", known ones: bind, full, stock`}},
		"an unknown distribution":     {[]string{url, "--for=eks"}, []string{`unknown --for "eks", known ones: kubeadm, k3s, rke2, kind`}},
		"none without a file":         {[]string{"--mode=none"}, []string{"where is prebind?"}},
		"none with a URL":             {[]string{"--mode=none", url}, []string{"--mode none takes prebind out of a file, and needs --patch FILE"}},
		"none with both":              {[]string{"--mode=none", url, "--patch=x"}, []string{"goes without --url and --from-service"}},
		"names and a file":            {[]string{"--patch=x", "--scheduler-name=a"}, []string{"--scheduler-name goes without --patch"}},
		"a kubeconfig for nobody":     {[]string{url, "--kubeconfig=x"}, []string{"--kubeconfig goes with --from-service only; the scheduler's own kubeconfig is --kubeconfig-path"}},
		"no CA to embed":              {[]string{"--url=https://a:1", "--embed-ca"}, []string{"--embed-ca needs --ca-file, or --from-service"}},
		"a CA that is not here":       {[]string{"--url=https://a:1", "--embed-ca", "--ca-file=/no/such"}, []string{"reading --ca-file (with --embed-ca it is a file of this machine): open /no/such"}},
		"no CA at all":                {[]string{"--url=https://a:1"}, []string{"an https URL needs a CA"}},
		"a CA with http":              {[]string{url, "--ca-file=x"}, []string{"go with an https URL"}},
		"a key alone":                 {[]string{"--url=https://a:1", "--ca-file=x", "--key-file=x"}, []string{"go together, one of them is missing"}},
		"a zero time-out":             {[]string{url, "--http-timeout=0"}, []string{"--http-timeout must be above zero, it is 0s; kube-scheduler would take 0 for 5s"}},
		"a Service without namespace": {[]string{"--from-service=prebind"}, []string{`--from-service "prebind": must be NAMESPACE/NAME, such as kube-system/prebind`}},
		"no such file":                {[]string{url, "--patch=/no/such"}, []string{"reading the file to patch: open /no/such"}},
		"a broken file": {[]string{url, "--patch", broken}, []string{
			broken + ": line 4: extender: unknown field\n", broken + ": line 3: profile: unknown field\n",
		}},
		"an argument": {[]string{url, "file.yaml"}, []string{`unknown command "file.yaml"`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, stderr := runSchedulerConfig(t, exitUsage, tc.args...)
			wantParts(t, "stderr", stderr, tc.want)
		})
	}
}

// TestSchedulerConfigWarns asks for what is unsafe.
func TestSchedulerConfigWarns(t *testing.T) {
	out, stderr := runSchedulerConfig(t, exitOK, "--url", "http://10.96.0.77:8888", "--http-timeout", "30s")
	wantParts(t, "stdout", out, []string{"httpTimeout: 30s\n"})
	wantParts(t, "stderr", stderr, []string{
		"fault: extenders[0].httpTimeout: httpTimeout is 30s; prebind's bindTimeout is 10m0s.\n  Why: ", "\n  Mend: Set httpTimeout: 11m",
		"fault: extenders[0].urlPrefix: Calls go over the network in plain HTTP",
	})
}

// cluster answers like an API server that has a Service and, if it is not empty,
// a Secret with a CA; it refuses the Secret otherwise.
func cluster(t *testing.T, service, ca string) (kubeconfig string) {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/api/v1/namespaces/infra/services/pb" && service != "":
			_, _ = fmt.Fprintf(w, `{"kind":"Service","apiVersion":"v1","metadata":{"namespace":"infra","name":"pb"},"spec":%s}`, service)
		case r.URL.Path == "/api/v1/namespaces/infra/secrets/pb-client" && ca != "":
			_, _ = fmt.Fprintf(w, `{"kind":"Secret","apiVersion":"v1","metadata":{"namespace":"infra","name":"pb-client"},"data":{"ca.crt":%q}}`, base64.StdEncoding.EncodeToString([]byte(ca)))
		case strings.Contains(r.URL.Path, "/secrets/"):
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"secrets are secret","code":403}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"services \"pb\" not found","code":404}`)
		}
	}))
	t.Cleanup(api.Close)
	return write(t, "kubeconfig", fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, api.URL))
}

const httpsService = `{"clusterIP":"10.96.0.77","ports":[{"name":"metrics","port":1},{"name":"https","port":8443}]}`

// testCA is a certificate that is valid for long.
const testCA = `-----BEGIN CERTIFICATE-----
MIIBRTCB7aADAgECAgEBMAoGCCqGSM49BAMCMBIxEDAOBgNVBAMTB3Rlc3QgQ0Ew
IBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBIxEDAOBgNVBAMTB3Rl
c3QgQ0EwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATzAgIPBxFTk8QSeLNqJ7P1
VELbKEtaui/QdxYUWh4Q02ZgKG6KP0Q0INKdDHBR/N/05SWEZnNdVcxGC/0KlzVS
ozIwMDAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBSn8y9ClX8uOonqFbt80JJj
xpajKzAKBggqhkjOPQQDAgNHADBEAiBrtNaYRYELvb+Auf/pOu1c8dHTdk07f3xA
Mh6Ozh/DMQIgcpIeMrC3BHKmd9FfkI2AYD+FIAFeSghs+5M8vCewHQw=
-----END CERTIFICATE-----
`

func TestSchedulerConfigFromService(t *testing.T) {
	tests := map[string]struct {
		service, ca string
		args        []string
		want        *registration.Found
		stderr      []string
	}{
		"everything": {
			service: httpsService, ca: testCA, args: []string{"--for=k3s"},
			want: &registration.Found{
				URL: "https://10.96.0.77:8443/v1", HTTPS: true, ServerName: "pb.infra.svc", CAData: []byte(testCA),
				CertFile: "/etc/rancher/k3s/prebind/tls.crt", KeyFile: "/etc/rancher/k3s/prebind/tls.key",
				Kubeconfig: "/var/lib/rancher/k3s/server/cred/scheduler.kubeconfig",
			},
			stderr: []string{"kubectl -n infra get secret pb-client"},
		},
		"no Secret": {
			service: httpsService,
			want: &registration.Found{
				URL: "https://10.96.0.77:8443/v1", HTTPS: true, ServerName: "pb.infra.svc", CAFile: "/etc/kubernetes/prebind/ca.crt",
				CertFile: "/etc/kubernetes/prebind/tls.crt", KeyFile: "/etc/kubernetes/prebind/tls.key", Kubeconfig: "/etc/kubernetes/scheduler.conf",
			},
			stderr: []string{"note: the Secret infra/pb-client was not read (secrets are secret); the CA is expected in /etc/kubernetes/prebind/ca.crt."},
		},
		"files by flags": {
			service: httpsService, ca: testCA, args: []string{"--ca-file=/a", "--cert-file=/b", "--key-file=/c", "--server-name=d"},
			want: &registration.Found{
				URL: "https://10.96.0.77:8443/v1", HTTPS: true, ServerName: "d", CAFile: "/a", CertFile: "/b", KeyFile: "/c",
				Kubeconfig: "/etc/kubernetes/scheduler.conf",
			},
		},
		"IPv6": {
			service: strings.Replace(httpsService, "10.96.0.77", "fd00::77", 1), ca: testCA,
			want: &registration.Found{
				URL: "https://[fd00::77]:8443/v1", HTTPS: true, ServerName: "pb.infra.svc", CAData: []byte(testCA),
				CertFile: "/etc/kubernetes/prebind/tls.crt", KeyFile: "/etc/kubernetes/prebind/tls.key", Kubeconfig: "/etc/kubernetes/scheduler.conf",
			},
		},
		"without TLS": {
			service: strings.Replace(httpsService, "https", "http", 1),
			want:    &registration.Found{URL: "http://10.96.0.77:8443/v1", Kubeconfig: "/etc/kubernetes/scheduler.conf"},
			stderr:  []string{"fault: extenders[0].urlPrefix: Calls go over the network in plain HTTP"},
		},
		"a file that has its own certificates": {
			service: strings.Replace(httpsService, "77", "99", 1), args: []string{"--patch=testdata/bind-https.yaml"},
			want: &registration.Found{
				URL: "https://10.96.0.99:8443/v1", HTTPS: true, ServerName: "pb.infra.svc", CAFile: "/etc/kubernetes/prebind/ca.crt",
				CertFile: "/etc/kubernetes/prebind/tls.crt", KeyFile: "/etc/kubernetes/prebind/tls.key", Kubeconfig: "/etc/kubernetes/scheduler.conf",
			},
			stderr: []string{"note: extenders[0] called https://10.96.0.77:8443/v1 and was taken for an earlier entry of prebind; it now calls https://10.96.0.99:8443/v1.\n"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			kubeconfig := cluster(t, tc.service, tc.ca)
			out, stderr := runSchedulerConfig(t, exitOK, append(tc.args, "--from-service=infra/pb", "--kubeconfig", kubeconfig)...)
			_, got, err := registration.Check([]byte(out), registration.CheckOptions{})
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Mode, tc.want.Path, tc.want.SchedulerNames = registration.ModeBind, "extenders[0]", got.SchedulerNames
			tc.want.HTTPTimeout = got.HTTPTimeout
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("found in the output (-want +got):\n%s\n%s", diff, out)
			}
			wantParts(t, "stderr", stderr, append(tc.stderr, ""))
		})
	}
}

func TestSchedulerConfigFromServiceRefuses(t *testing.T) {
	tests := map[string]struct {
		service string
		args    []string
		want    string
	}{
		"absent":            {"", nil, `reading the Service infra/pb: services "pb" not found`},
		"headless":          {strings.Replace(httpsService, "10.96.0.77", "None", 1), nil, "the Service infra/pb is headless: kube-scheduler needs one address that stays"},
		"no address":        {strings.Replace(httpsService, "10.96.0.77", "", 1), nil, "the Service infra/pb has no ClusterIP yet"},
		"external":          {`{"type":"ExternalName","externalName":"a.b"}`, nil, "the Service infra/pb is of type ExternalName"},
		"other ports":       {strings.Replace(httpsService, "https", "web", 1), nil, "the Service infra/pb has no port named https or http, only metrics (1), web (8443)"},
		"no CA to write in": {httpsService, []string{"--embed-ca"}, "reading the CA from the Secret infra/pb-client: secrets are secret"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			kubeconfig := cluster(t, tc.service, "")
			_, stderr := runSchedulerConfig(t, exitFailure, append(tc.args, "--from-service=infra/pb", "--kubeconfig", kubeconfig)...)
			wantParts(t, "stderr", stderr, []string{"prebind: " + tc.want})
		})
	}
}
