package registration

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// mtls are options with everything that HTTPS has.
func mtls(mode Mode) Options {
	return Options{
		Mode: mode, URL: "https://10.96.0.77:8443", CAFile: "/etc/kubernetes/prebind/ca.crt", CertFile: "/etc/kubernetes/prebind/tls.crt",
		KeyFile: "/etc/kubernetes/prebind/tls.key", ServerName: "prebind.kube-system.svc", KubeconfigPath: "/etc/kubernetes/scheduler.conf",
	}
}

func TestGenerateExample(t *testing.T) {
	want, err := os.ReadFile("../../examples/scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Generate(Options{URL: "http://127.0.0.1:8888", KubeconfigPath: Kubeadm.Kubeconfig()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("examples/scheduler-config.yaml (-it +what Generate makes):\n%s", diff)
	}
}

func TestGeneratePassesCheck(t *testing.T) {
	ca := certificate(t, 0, 3650*24*time.Hour).cert
	tests := map[string]func(Mode) Options{
		"HTTP":            func(m Mode) Options { return Options{Mode: m, URL: "http://localhost:8888/v1/", KubeconfigPath: "/k"} },
		"HTTPS":           mtls,
		"a CA written in": func(m Mode) Options { o := mtls(m); o.CAFile, o.CAData = "", []byte(ca); return o },
		"three profiles": func(m Mode) Options {
			o := mtls(m)
			o.SchedulerNames = []string{"default-scheduler", "batch", "yes"}
			return o
		},
		"odd names":       func(m Mode) Options { o := mtls(m); o.CAFile, o.KubeconfigPath = "/a: b #c", "it's"; return o },
		"IPv6":            func(m Mode) Options { o := mtls(m); o.URL = "https://[fd00::1]:8443"; return o },
		"a long time-out": func(m Mode) Options { o := mtls(m); o.HTTPTimeout = 90*time.Minute + time.Second; return o },
		"in a pod": func(m Mode) Options {
			o := mtls(m)
			o.SchedulerNames, o.KubeconfigPath, o.URL = []string{"second"}, "", "https://prebind.kube-system.svc:8443"
			return o
		},
		"loopback and HTTPS": func(m Mode) Options { o := mtls(m); o.URL, o.ServerName = "https://127.0.0.1:8443", ""; return o },
	}
	for name, options := range tests {
		for _, mode := range []Mode{ModeBind, ModeFull, ModeStock} {
			t.Run(name+", "+string(mode), func(t *testing.T) {
				o := options(mode)
				text, err := Generate(o)
				if err != nil {
					t.Fatal(err)
				}
				problems, found, err := Check(text, CheckOptions{Now: now()})
				if err != nil || len(problems) > 0 {
					t.Fatalf("error %v, problems %+v, in:\n%s", err, problems, text)
				}
				want := &Found{
					Mode: mode, SchedulerNames: o.SchedulerNames, Kubeconfig: o.KubeconfigPath, Path: "extenders[0]",
					URL: strings.TrimSuffix(strings.TrimSuffix(o.URL, "/"), "/v1") + "/v1", HTTPS: strings.HasPrefix(o.URL, "https"),
					ServerName: o.ServerName, HTTPTimeout: o.HTTPTimeout,
					CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile, CAData: o.CAData,
				}
				if mode == ModeFull {
					want.Path = "extenders[1]"
				}
				if want.SchedulerNames == nil {
					want.SchedulerNames = []string{"default-scheduler"}
				}
				if want.HTTPTimeout == 0 {
					want.HTTPTimeout = 11 * time.Minute
				}
				if diff := cmp.Diff(want, found); diff != "" {
					t.Errorf("found (-want +got):\n%s\nin:\n%s", diff, text)
				}
			})
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	tests := map[string]struct {
		change func(*Options)
		want   string
	}{
		"no URL":              {func(o *Options) { *o = Options{} }, "the URL of prebind is missing"},
		"a CA without a URL":  {func(o *Options) { o.URL = "" }, "go with a URL, and none is given"},
		"no scheme":           {func(o *Options) { o.URL = "10.96.0.77:8443" }, `the URL "10.96.0.77:8443" does not begin with http:// or https://`},
		"no host":             {func(o *Options) { o.URL = "https://:8443" }, "has no host"},
		"a verb":              {func(o *Options) { o.URL += "/v1/bind" }, "has a verb in its path"},
		"another path":        {func(o *Options) { o.URL += "/api" }, "has the path /api; prebind serves under /v1"},
		"a query":             {func(o *Options) { o.URL += "/v1?a=b" }, "must be only scheme, host, port and path"},
		"unknown mode":        {func(o *Options) { o.Mode = "half" }, `unknown mode "half", known ones: bind, full, stock`},
		"mode none":           {func(o *Options) { o.Mode = ModeNone }, "nothing to generate"},
		"no CA":               {func(o *Options) { o.CAFile = "" }, "an https URL needs a CA"},
		"two CAs":             {func(o *Options) { o.CAData = []byte("x") }, "not both"},
		"CA no PEM":           {func(o *Options) { o.CAFile, o.CAData = "", []byte("x") }, "reading the CA: no block"},
		"no key":              {func(o *Options) { o.KeyFile = "" }, "one of them is missing"},
		"certificates, http":  {func(o *Options) { o.URL = "http://127.0.0.1:8888" }, "go with an https URL, this one is http://127.0.0.1:8888/v1"},
		"a negative time-out": {func(o *Options) { o.HTTPTimeout = -time.Second }, "must be above zero, it is -1s"},
		"a name twice":        {func(o *Options) { o.SchedulerNames = []string{"a", "a"} }, `the scheduler name "a" stands twice`},
		"an empty name":       {func(o *Options) { o.SchedulerNames = []string{""} }, "a scheduler name is empty"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := mtls(ModeBind)
			tc.change(&o)
			text, err := Generate(o)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q; output:\n%s", err, tc.want, text)
			}
		})
	}
}
