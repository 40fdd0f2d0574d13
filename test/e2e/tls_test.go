package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/prebind/prebind/test/controlplane"
)

const clientName = "prebind-scheduler-client"

// overTLS is a prebind that wants client certificates, and the scheduler's
// certificates, each in a Secret's folder.
type overTLS struct {
	*scheduled
	prebind            *controlplane.Prebind
	serverCA, clientCA *controlplane.Authority
	server, client     *controlplane.Secret
	serverPair         controlplane.KeyPair
}

func newOverTLS(t *testing.T) *overTLS {
	t.Helper()
	f := &overTLS{scheduled: newScheduled(t, controlplane.ModeBind, 2)}
	f.serverCA, f.clientCA = f.authority("server-ca"), f.authority("client-ca")
	f.serverPair = f.issue(f.serverCA, "prebind")
	f.server = f.secret(f.serverPair, f.clientCA.PEM())
	f.client = f.secret(f.issue(f.clientCA, clientName), f.serverCA.PEM())
	f.prebind = shared.startPrebind(t, controlplane.PrebindOptions{
		Name: "prebind-tls",
		TLS: &controlplane.ServerTLS{
			CertFile: f.server.Cert(), KeyFile: f.server.Key(), ClientCAFile: f.server.CA(),
			AllowedClientNames: []string{clientName},
		},
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("prebind's log:\n%s", f.prebind.Tail(30))
		}
	})
	return f
}

func (f *overTLS) authority(name string) *controlplane.Authority {
	f.t.Helper()
	ca, err := controlplane.NewAuthority(f.t.TempDir(), name)
	f.must(err)
	return ca
}

func (f *overTLS) issue(ca *controlplane.Authority, name string) controlplane.KeyPair {
	f.t.Helper()
	pair, err := ca.Issue(name)
	f.must(err)
	return pair
}

func (f *overTLS) secret(pair controlplane.KeyPair, ca []byte) *controlplane.Secret {
	f.t.Helper()
	s, err := controlplane.NewSecret(f.t.TempDir(), pair, ca)
	f.must(err)
	return s
}

// schedule starts the scheduler with these certificates.
func (f *overTLS) schedule(url string, tls *controlplane.ExtenderTLS) {
	f.t.Helper()
	f.must(shared.cp.StartScheduler(f.ctx, controlplane.SchedulerOptions{
		Mode: controlplane.ModeBind, URL: url, TLS: tls,
		PodInitialBackoffSeconds: 1, PodMaxBackoffSeconds: 1,
	}))
	f.cleanup(shared.cp.StopScheduler)
}

// trusted is the scheduler's side as it should be.
func (f *overTLS) trusted() *controlplane.ExtenderTLS {
	return &controlplane.ExtenderTLS{CAFile: f.client.CA(), CertFile: f.client.Cert(), KeyFile: f.client.Key(), ServerName: "localhost"}
}

// podWithVolume makes a pod with a claim and a volume for it.
func (f *overTLS) podWithVolume(name string) {
	f.t.Helper()
	f.volume(newVolume(name, f.local, f.nodes[0]))
	f.claim(newClaim(name, f.local))
	f.pod(newPod(name, "", name))
}

// metric returns the value of the line that begins so.
func (f *overTLS) metric(series string) string {
	f.t.Helper()
	_, text, err := send(f.ctx, http.MethodGet, f.prebind.OpsURL()+"/metrics", nil)
	f.must(err)
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, series+" "); found {
			return strings.TrimSpace(value)
		}
	}
	f.t.Fatalf("no metric %s", series)
	return ""
}

// TestTLSRefusals: a scheduler that is not the right one binds nothing, is
// counted, and the pod's event says what to mend; when it is mended the same pod
// is bound.
func TestTLSRefusals(t *testing.T) {
	f := newOverTLS(t)
	other := f.authority("other-ca")
	stranger, renamed := f.secret(f.issue(other, clientName), f.serverCA.PEM()), f.secret(f.issue(f.clientCA, "somebody"), f.serverCA.PEM())
	distrust := f.secret(f.issue(f.clientCA, clientName), other.PEM())
	with := func(change func(*controlplane.ExtenderTLS)) *controlplane.ExtenderTLS {
		tls := f.trusted()
		change(tls)
		return tls
	}
	const scheme = "https://"
	for _, tc := range []struct {
		name   string
		url    string // empty: prebind's
		tls    *controlplane.ExtenderTLS
		reason string
		event  []string
	}{
		{
			"no certificate", "", with(func(c *controlplane.ExtenderTLS) { c.CertFile, c.KeyFile = "", "" }), "no-certificate",
			[]string{"ClientRefused: a call without a client certificate", "set tlsConfig.certFile and keyFile"},
		},
		{
			"another authority", "", with(func(c *controlplane.ExtenderTLS) { c.CertFile, c.KeyFile = stranger.Cert(), stranger.Key() }), "unknown-authority",
			[]string{`ClientRefused: the client certificate of "` + clientName + `"`, `issued by "other-ca"`, "certificate signed by unknown authority"},
		},
		{
			"another name", "", with(func(c *controlplane.ExtenderTLS) { c.CertFile, c.KeyFile = renamed.Cert(), renamed.Key() }), "name-not-allowed",
			[]string{`ClientRefused: the client certificate of "somebody"`, "server.tls.allowedClientNames"},
		},
		{
			"plain HTTP", "http://" + strings.TrimPrefix(f.prebind.URL(), scheme), nil, "plain-http",
			[]string{"ClientRefused: plain HTTP was sent to prebind's HTTPS port", "urlPrefix to https://"},
		},
		{
			"prebind's own CA is not known", "", with(func(c *controlplane.ExtenderTLS) { c.CAFile = distrust.CA() }), "protocol",
			[]string{"tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &overTLS{scheduled: f.forTest(t), prebind: f.prebind, serverCA: f.serverCA, clientCA: f.clientCA, server: f.server, client: f.client}
			url := tc.url
			if url == "" {
				url = f.prebind.URL()
			}
			series := fmt.Sprintf("prebind_tls_client_refusals_total{reason=%q}", tc.reason)
			before := f.metric(series)
			f.schedule(url, tc.tls)
			f.podWithVolume("db")
			f.eventWith("db", tc.event...)
			texts, err := shared.cp.Events(f.ctx, f.ns, "db", "FailedScheduling")
			f.must(err)
			t.Logf("the pod's event: %s", texts[len(texts)-1])
			if after := f.metric(series); after == before {
				t.Errorf("%s is still %s", series, after)
			}
			f.untouched("db")
			f.schedule(f.prebind.URL(), f.trusted())
			f.bound("db")
		})
	}
}

// TestTLSRotation: the scheduler binds a stream of pods while every certificate,
// key and authority of both sides is replaced, and no call fails.
func TestTLSRotation(t *testing.T) {
	f := newOverTLS(t)
	server2, client2 := f.authority("server-ca-2"), f.authority("client-ca-2")
	// kube-scheduler reads the authority of its extender once, so it gets both.
	bothServers := append(f.serverCA.PEM(), server2.PEM()...)
	clientPair := f.issue(f.clientCA, clientName)
	f.must(f.client.Update(clientPair, bothServers))
	f.schedule(f.prebind.URL(), f.trusted())

	pods := 0
	load := func(n int) {
		t.Helper()
		var names []string
		for range n {
			name := fmt.Sprintf("db-%d", pods)
			pods++
			f.podWithVolume(name)
			names = append(names, name)
		}
		f.bound(names...)
	}
	load(10)

	steps := []struct {
		name string
		do   func()
		seen string // prebind's log line of the change
	}{
		{"a new certificate and key for prebind, of another CA", func() {
			f.serverPair = f.issue(server2, "prebind")
			f.must(f.server.Update(f.serverPair, f.clientCA.PEM()))
		}, "serving certificate loaded"},
		{"both client CAs", func() {
			f.must(f.server.Update(f.serverPair, append(f.clientCA.PEM(), client2.PEM()...)))
		}, "client CA loaded"},
		{"a new certificate for the scheduler, of the new CA", func() {
			f.must(f.client.Update(f.issue(client2, clientName), bothServers))
		}, ""},
		{"the new client CA alone, and everything at once", func() {
			f.serverPair = f.issue(server2, "prebind")
			f.must(f.server.Update(f.serverPair, client2.PEM()))
		}, "client CA loaded"},
	}
	for _, step := range steps {
		before := f.logged(step.seen)
		load(3)
		step.do()
		load(10) // while prebind notices
		if step.seen != "" {
			f.eventually("prebind has noticed: "+step.name, func() bool { return f.logged(step.seen) > before })
		}
		load(5)
	}
	for i := range pods {
		texts, err := shared.cp.Events(f.ctx, f.ns, fmt.Sprintf("db-%d", i), "FailedScheduling")
		f.must(err)
		for _, text := range texts {
			// Not a failed call: the volume was not known to the scheduler yet.
			if strings.Contains(text, "extender") || strings.Contains(text, "Refused") || strings.Contains(text, "tls") {
				t.Errorf("pod db-%d: %s", i, text)
			}
		}
	}
	for _, reason := range []string{"no-certificate", "unknown-authority", "expired", "name-not-allowed", "protocol"} {
		if got := f.metric(fmt.Sprintf("prebind_tls_client_refusals_total{reason=%q}", reason)); got != "0" {
			t.Errorf("refusals with reason %s: %s", reason, got)
		}
	}
	t.Logf("%d pods bound", pods)

	// And it does revoke: the scheduler's former certificate is refused now.
	f.must(f.client.Update(clientPair, bothServers))
	f.schedule(f.prebind.URL(), f.trusted())
	f.podWithVolume("late")
	f.eventWith("late", "ClientRefused", `issued by "client-ca"`)
}

// logged counts prebind's log lines with a message.
func (f *overTLS) logged(message string) int {
	f.t.Helper()
	lines, err := f.prebind.Logs()
	f.must(err)
	n := 0
	for _, line := range lines {
		if line["msg"] == message {
			n++
		}
	}
	return n
}

// forTest gives a subtest a corner of its own.
func (f *overTLS) forTest(t *testing.T) *scheduled {
	t.Helper()
	return newScheduled(t, f.mode, 1)
}
