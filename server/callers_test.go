package server_test

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/server"
)

// TestCallerOverTime: what is true of a connection changes while it is open.
func TestCallerOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newCA(t, "first"), newCA(t, "second")
		cert := testkit.NewCertificate(t, &x509.Certificate{
			DNSNames: []string{"scheduler"}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}, first.Certificate).X509
		c := server.NewTestCaller([]string{"scheduler"}, cert)
		want := func(when, reason string, end bool) {
			t.Helper()
			if gotReason, gotEnd := c.Check(); gotReason != reason || gotEnd != end {
				t.Errorf("%s: reason %q, end %t, want %q, %t", when, gotReason, gotEnd, reason, end)
			}
		}
		c.Trust(first.X509)
		want("new", "", false)
		time.Sleep(server.MaxCallerAge)
		want("at the age limit", "", false)
		time.Sleep(time.Nanosecond)
		want("over the age limit", "", true)

		c = server.NewTestCaller([]string{"scheduler"}, cert)
		c.Trust(first.X509)
		time.Sleep(time.Nanosecond)
		want("checked against the first CA", "", false)
		c.Trust(first.X509, second.X509)
		want("both CAs: it may have a better certificate", "", true)
		c.Trust(second.X509)
		want("its CA is gone", "", true)
		time.Sleep(server.RevocationGrace - 1)
		want("within the grace", "", true)
		time.Sleep(time.Nanosecond)
		want("after the grace", "unknown-authority", true)
		c.Trust(second.X509)
		want("replaced once more: no second grace", "", true)

		never := server.NewTestCaller(nil, cert)
		never.Trust(second.X509)
		if reason, _ := never.Check(); reason != "unknown-authority" {
			t.Errorf("a certificate that was never good has no grace: reason %q", reason)
		}

		c = server.NewTestCaller([]string{"scheduler"}, cert)
		c.Trust(first.X509)
		want("an hour is not over", "", false)
		time.Sleep(time.Until(cert.NotAfter) + time.Second)
		want("it has expired on the open connection", "expired", true)

		c = server.NewTestCaller([]string{"somebody"}, cert)
		c.Trust(first.X509)
		want("expired, and no name that is allowed: the certificate counts first", "expired", true)
	})
}

// TestRefusalLog: a line a client and reason a minute, with what was left out,
// and no more clients remembered than is bounded.
func TestRefusalLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		refuse := server.NewRefusals(zap.New(core))
		cause := errors.New("because")
		lines := func() []string {
			var texts []string
			for _, entry := range logs.TakeAll() {
				f := entry.ContextMap()
				texts = append(texts, fmt.Sprint(f["remote"], " ", f["reason"], " ", f["error"], " ", f["leftOut"], " ", f["leftOutOfOthers"]))
			}
			return texts
		}
		want := func(texts ...string) {
			t.Helper()
			if got := lines(); !slices.Equal(got, texts) {
				t.Errorf("logged %q, want %q", got, texts)
			}
		}
		for port := range 5 {
			refuse("expired", fmt.Sprintf("10.0.0.1:%d", port), cause)
		}
		refuse("no-certificate", "10.0.0.1:9", cause)
		refuse("expired", "[fd00::1]:9", cause)
		want("10.0.0.1:0 expired because <nil> <nil>", "10.0.0.1:9 no-certificate because <nil> <nil>", "[fd00::1]:9 expired because <nil> <nil>")
		time.Sleep(server.RefusalPause)
		refuse("expired", "10.0.0.1:7", cause)
		want("10.0.0.1:7 expired because 4 <nil>")

		for n := range server.MaxRefused { // of which the two that are old make room
			refuse("expired", fmt.Sprintf("host-%d:1", n), cause)
		}
		if got := len(lines()); got != server.MaxRefused-1 {
			t.Errorf("%d lines for %d clients with room for %d", got, server.MaxRefused, server.MaxRefused-1)
		}
		time.Sleep(server.RefusalPause)
		refuse("expired", "late:1", cause)
		want("late:1 expired because <nil> 1")
	})
}

func TestExposure(t *testing.T) {
	loopback, all := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv6unspecified}
	const plain = "plain HTTP off loopback (server.insecure): whoever reaches this address can bind pods"
	const anybody = "callers are not authenticated (no server.tls.clientCAFile): whoever reaches this address can bind pods"
	for name, tc := range map[string]struct {
		address      net.Addr
		tls, callers bool
		want         string
	}{
		"plain on loopback":   {address: loopback},
		"TLS on loopback":     {address: loopback, tls: true},
		"plain everywhere":    {address: all, want: plain},
		"TLS everywhere":      {address: all, tls: true, want: anybody},
		"callers are checked": {address: all, tls: true, callers: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := server.Exposure(tc.address, tc.tls, tc.callers); got != tc.want {
				t.Errorf("warning %q, want %q", got, tc.want)
			}
		})
	}
	for address, probes := range map[string]bool{"127.0.0.1:1": false, "[::1]:1": false, "localhost:1": false, ":1": true, "10.0.0.1:1": true} {
		if got := server.VerbsKeepAlive(address) >= 0; got != probes {
			t.Errorf("%s: TCP probes %t, want %t", address, got, probes)
		}
	}
}
