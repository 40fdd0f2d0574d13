package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prebind/prebind/internal/fault"
)

// callers are the connections with a client certificate. A handshake checks it
// once, but a connection outlives what was true then: authorities are replaced
// and certificates expire. So each request is checked again.
type callers struct {
	// allowed are the names accepted; empty: any.
	allowed   []string
	authority func() *authority

	mu   sync.Mutex
	open map[net.Conn]*caller
}

// caller is who is at the other end of a connection.
type caller struct {
	certs    []*x509.Certificate // as sent, the leaf first
	remote   net.Addr
	accepted time.Time
	allowed  bool // its name is

	mu sync.Mutex
	// checked is against what the certificate was last found good, and until
	// when it stays so.
	checked *authority
	until   time.Time
	idle    bool
}

// refusal is why a caller is not served.
type refusal struct {
	reason string
	err    error // for the pod's event
}

type callerKey struct{}

func newCallers(allowed []string, authority func() *authority) *callers {
	return &callers{allowed: allowed, authority: authority, open: map[net.Conn]*caller{}}
}

// connContext is http.Server.ConnContext.
func (c *callers) connContext(ctx context.Context, conn net.Conn) context.Context {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return ctx
	}
	certs := secure.ConnectionState().PeerCertificates
	if len(certs) == 0 { // not asked for
		return ctx
	}
	who := &caller{certs: certs, remote: conn.RemoteAddr(), accepted: time.Now()}
	who.allowed = len(c.allowed) == 0 || slices.ContainsFunc(namesOf(certs[0]), func(name string) bool { return slices.Contains(c.allowed, name) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = who
	return context.WithValue(ctx, callerKey{}, who)
}

// connState is http.Server.ConnState.
func (c *callers) connState(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	who := c.open[conn]
	if who == nil {
		return
	}
	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	default:
		who.mu.Lock()
		defer who.mu.Unlock()
		who.idle = state == http.StateIdle
	}
}

// closeIdle ends connections at rest whose certificate is no longer good. Then
// their callers connect anew, perhaps with a better one, instead of losing a
// call to find out.
func (c *callers) closeIdle() {
	now, current := time.Now(), c.authority()
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn, who := range c.open {
		who.mu.Lock()
		if who.idle && who.verify(now, current) != nil {
			go func() { _ = conn.Close() }() // which may write, and comes back by connState
		}
		who.mu.Unlock()
	}
}

// check tells whether a request may be served, and whether the connection is
// to end with its answer.
func (c *callers) check(who *caller) (refused *refusal, end bool) {
	if !who.allowed {
		return &refusal{reasonName, fault.New(fault.ClientRefused,
			"%s is not among server.tls.allowedClientNames of prebind", who.describe())}, false
	}
	now, current := time.Now(), c.authority()
	end = who.accepted.Before(current.since) || now.Sub(who.accepted) > maxCallerAge
	who.mu.Lock()
	defer who.mu.Unlock()
	err := who.verify(now, current)
	if err == nil {
		return nil, end
	}
	if now.Before(who.until) && now.Sub(current.since) < revocationGrace {
		return nil, true
	}
	return &refusal{handshakeReason(err), fault.New(fault.ClientRefused,
		"%s is no longer accepted by prebind: %w", who.describe(), err)}, true
}

// verify checks the certificate as the handshake did, unless it is known to be
// good. who.mu must be held.
func (who *caller) verify(now time.Time, current *authority) error {
	if who.checked == current && now.Before(who.until) {
		return nil
	}
	options := current.VerifyOptions
	options.CurrentTime = now
	options.Intermediates = x509.NewCertPool()
	for _, intermediate := range who.certs[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	chains, err := who.certs[0].Verify(options)
	if err != nil {
		return err
	}
	until := chains[0][0].NotAfter
	for _, link := range chains[0] {
		if link.NotAfter.Before(until) {
			until = link.NotAfter
		}
	}
	who.checked, who.until = current, until
	return nil
}

// describe names the caller for people.
func (who *caller) describe() string {
	const most = 5
	names := namesOf(who.certs[0])
	if len(names) == 0 {
		return "the client certificate, which has no name,"
	}
	text := fmt.Sprintf("%q", names[:min(most, len(names))])
	text = strings.Trim(text, "[]")
	if len(names) > most {
		text += " ..."
	}
	return "the client certificate of " + text
}

// namesOf returns the names that a certificate can be allowed by.
func namesOf(leaf *x509.Certificate) []string {
	var names []string
	if leaf.Subject.CommonName != "" {
		names = append(names, leaf.Subject.CommonName)
	}
	names = append(names, leaf.DNSNames...)
	names = append(names, leaf.EmailAddresses...)
	for _, uri := range leaf.URIs {
		names = append(names, uri.String())
	}
	return names
}
