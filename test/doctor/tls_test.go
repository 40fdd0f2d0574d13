package doctor_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/internal/doctor"
	"github.com/prebind/prebind/test/controlplane"
)

const (
	day = 24 * time.Hour
	// name is the only caller that prebind accepts.
	name = "prebind-scheduler-client"
)

// secure starts a prebind that wants a client certificate of the authority.
func (f *fixture) secure(own *authority, end time.Time, opts controlplane.PrebindOptions) *controlplane.Prebind {
	f.t.Helper()
	certFile, keyFile := own.issue("server", end)
	opts.TLS = &controlplane.ServerTLS{CertFile: certFile, KeyFile: keyFile, ClientCAFile: own.caFile, AllowedClientNames: []string{name}}
	return f.prebind(opts)
}

func TestAllIsWellWithTLS(t *testing.T) {
	f := newFixture(t)
	own := newAuthority(t, "prebind-ca")
	prebind := f.secure(own, time.Now().Add(300*day), controlplane.PrebindOptions{})
	certFile, keyFile := own.issue(name, time.Now().Add(300*day))
	config := f.scheduler(controlplane.SchedulerOptions{
		Mode: controlplane.ModeBind, URL: prebind.URL(),
		TLS: &controlplane.ExtenderTLS{CAFile: own.caFile, CertFile: certFile, KeyFile: keyFile, ServerName: "localhost"},
	})
	f.create(f.local())
	f.waitBound("web")
	// CA and certificates are those of the scheduler's file.
	got := f.doctor("--scheduler-config", config, "--config", f.configFile(), "--endpoint", prebind.URL(), "--metrics", prebind.OpsURL(), "--service-account", account)
	got.noFault()
	for _, check := range got.Checks {
		if check.Status != doctor.OK {
			t.Errorf("check %s is %s:\n%s", check.Name, check.Status, got.text)
		}
	}
}

func TestSchedulerTrustsAnotherCA(t *testing.T) {
	f := newFixture(t)
	own, other := newAuthority(t, "prebind-ca"), newAuthority(t, "last-years-ca")
	prebind := f.secure(own, time.Now().Add(300*day), controlplane.PrebindOptions{})
	certFile, keyFile := own.issue(name, time.Now().Add(300*day))
	config := f.scheduler(controlplane.SchedulerOptions{
		Mode: controlplane.ModeBind, URL: prebind.URL(),
		TLS: &controlplane.ExtenderTLS{CAFile: other.caFile, CertFile: certFile, KeyFile: keyFile, ServerName: "localhost"},
	})
	f.create(f.local())
	f.callFails("web")
	got := f.doctor("--scheduler-config", config, "--config", f.configFile(), "--endpoint", prebind.URL(), "--metrics", prebind.OpsURL(), "--service-account", account)
	got.onlyFaults("endpoint", "pods-waiting")
	got.finding("endpoint", doctor.Fault, `signed by "CN=prebind-ca", which is not the given CA`)
	got.finding("pods-waiting", doctor.Fault, f.ns+"/web", "x509")
	f.must(f.client.CoreV1().Pods(f.ns).Delete(f.ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
}

func TestEndpointWithTLS(t *testing.T) {
	f := newFixture(t)
	own, other := newAuthority(t, "own"), newAuthority(t, "other")
	good := time.Now().Add(100 * day)
	url := f.secure(own, good, controlplane.PrebindOptions{}).URL()
	show := func(a *authority, client string, end time.Time) []string {
		certFile, keyFile := a.issue(client, end)
		return []string{"--cert-file", certFile, "--key-file", keyFile}
	}
	trust := func(a *authority) []string { return []string{"--ca-file", a.caFile} }
	tests := map[string]struct {
		url   string
		args  [][]string
		want  []string // of the only fault
		warns []string // of the only advice
	}{
		"good":                  {args: [][]string{trust(own), show(own, name, good)}},
		"wrong CA":              {args: [][]string{trust(other), show(own, name, good)}, want: []string{"is not the given CA"}},
		"no CA":                 {args: [][]string{show(own, name, good)}, want: []string{"no CA was given"}},
		"wrong name":            {args: [][]string{trust(own), show(own, name, good), {"--server-name", "prebind.kube-system.svc"}}, want: []string{"not for prebind.kube-system.svc", "localhost"}},
		"client of another CA":  {args: [][]string{trust(own), show(other, name, good)}, want: []string{"the client certificate was signed by", "not among the authorities"}},
		"client of wrong name":  {args: [][]string{trust(own), show(own, "somebody-else", good)}, want: []string{"refuses", "somebody-else", "allowedClientNames"}},
		"client has expired":    {args: [][]string{trust(own), show(own, name, time.Now().Add(-time.Hour))}, want: []string{"the client certificate has expired"}},
		"client expires soon":   {args: [][]string{trust(own), show(own, name, time.Now().Add(3*day))}, warns: []string{"the client certificate expires"}},
		"no client certificate": {args: [][]string{trust(own)}, want: []string{"certFile"}},
		"plain HTTP":            {url: strings.Replace(url, "https://", "http://", 1), want: []string{"plain HTTP"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := &fixture{t: t, ctx: t.Context(), client: f.client, ns: f.ns}
			if tc.url == "" {
				tc.url = url
			}
			args := []string{"--service-account", account, "--endpoint", tc.url}
			for _, more := range tc.args {
				args = append(args, more...)
			}
			got := f.doctor(args...)
			switch {
			case tc.want != nil:
				got.onlyFaults("endpoint")
				got.finding("endpoint", doctor.Fault, tc.want...)
				if got.Faults != 1 {
					t.Errorf("%d faults, want one:\n%s", got.Faults, got.text)
				}
			case tc.warns != nil:
				got.noFault()
				got.finding("endpoint", doctor.Advice, tc.warns...)
			default:
				got.noFault()
				got.status("endpoint", doctor.OK)
			}
		})
	}
}

func TestServersCertificateHasExpired(t *testing.T) {
	f := newFixture(t)
	own := newAuthority(t, "own")
	url := f.secure(own, time.Now().Add(-time.Hour), controlplane.PrebindOptions{Unready: true}).URL()
	certFile, keyFile := own.issue(name, time.Now().Add(100*day))
	args := []string{"--service-account", account, "--endpoint", url, "--ca-file", own.caFile, "--cert-file", certFile, "--key-file", keyFile}
	f.eventually("prebind listens", func() bool {
		_, text, _ := f.run("prebind", append([]string{"doctor", "--kubeconfig", shared.cp.Kubeconfig()}, args...)...)
		return !strings.Contains(text, "refuses the connection")
	})
	got := f.doctor(args...)
	got.onlyFaults("endpoint")
	got.finding("endpoint", doctor.Fault, "prebind's certificate has expired")
}

func TestTLSOnAPlainPort(t *testing.T) {
	f := newFixture(t)
	prebind := f.prebind(controlplane.PrebindOptions{})
	own := newAuthority(t, "own")
	got := f.doctor("--service-account", account, "--endpoint", strings.Replace(prebind.URL(), "http://", "https://", 1), "--ca-file", own.caFile)
	got.onlyFaults("endpoint")
	got.finding("endpoint", doctor.Fault, "speaks plain HTTP, not TLS")
}
