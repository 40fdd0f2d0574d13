package server

import (
	"crypto/x509"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Break makes the verbs listener fail.
func (s *Server) Break() { _ = s.verbs.Close() }

// Timings of TLS.
const (
	MaxCallerAge    = maxCallerAge
	RevocationGrace = revocationGrace
	RefusalPause    = refusalPause
	MaxRefused      = maxRefused
)

// TestCaller is a connection that is made now, with these certificates.
type TestCaller struct {
	callers *callers
	who     *caller
	current *authority
}

// NewTestCaller makes one; Trust must be called before Check.
func NewTestCaller(names []string, certs ...*x509.Certificate) *TestCaller {
	c := &TestCaller{who: &caller{certs: certs, accepted: time.Now()}}
	c.callers = newCallers(names, func() *authority { return c.current })
	return c
}

// Trust replaces the client CA.
func (c *TestCaller) Trust(cas ...*x509.Certificate) {
	pool := x509.NewCertPool()
	for _, ca := range cas {
		pool.AddCert(ca)
	}
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	c.current = &authority{x509.VerifyOptions{Roots: pool, KeyUsages: usages}, time.Now()}
}

// Check judges a request that comes now.
func (c *TestCaller) Check() (reason string, end bool) {
	reason, end, _ = c.callers.check(c.who)
	return reason, end
}

// NewRefusals returns what counts and logs a refusal.
func NewRefusals(logger *zap.Logger) func(reason, remote string, err error) {
	r := newRefusals(prometheus.NewCounterVec(prometheus.CounterOpts{Name: "refusals"}, []string{"reason"}), logger)
	return func(reason, remote string, err error) { r.add(reason, remote, err) }
}

// Exposure is the warning about an address.
func Exposure(address net.Addr, overTLS, authenticated bool) string {
	return exposure(address, overTLS, authenticated)
}

// VerbsKeepAlive is the pause between TCP's probes; negative is none.
func VerbsKeepAlive(address string) time.Duration { return verbsKeepAlive(address) }
