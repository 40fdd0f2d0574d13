package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prebind/prebind/internal/fault"
)

// callers are the connections of a listener that wants client certificates. Each
// request is checked, not only each connection, which outlives what was true at
// its start: authorities are replaced and certificates expire.
type callers struct {
	// names are those accepted; empty: any.
	names     []string
	authority func() *authority

	mu   sync.Mutex
	open map[net.Conn]*caller
}

// caller is who is at the other end of a connection.
type caller struct {
	certs    []*x509.Certificate // as sent, the leaf first; may be empty
	accepted time.Time

	mu sync.Mutex
	// checked is against what the certificate was last found good, and until
	// when it stays so.
	checked *authority
	until   time.Time
	idle    bool
}

type callerKey struct{}

func newCallers(names []string, authority func() *authority) *callers {
	return &callers{names: names, authority: authority, open: map[net.Conn]*caller{}}
}

// connContext is http.Server.ConnContext.
func (c *callers) connContext(ctx context.Context, conn net.Conn) context.Context {
	who := &caller{accepted: time.Now()}
	if secure, ok := conn.(*tls.Conn); ok { // always, and its handshake is done
		who.certs = secure.ConnectionState().PeerCertificates
	}
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
	if state == http.StateClosed || state == http.StateHijacked {
		delete(c.open, conn)
		return
	}
	who.mu.Lock()
	defer who.mu.Unlock()
	who.idle = state == http.StateIdle
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
			go func() { _ = conn.Close() }() // it may write, and it comes back by connState
		}
		who.mu.Unlock()
	}
}

// check returns why a request must not be served, with its reason, or nil. end
// tells that the connection has to end with the answer.
func (c *callers) check(who *caller) (reason string, end bool, refused error) {
	now, current := time.Now(), c.authority()
	who.mu.Lock()
	defer who.mu.Unlock()
	if err := who.verify(now, current); err != nil {
		if now.Before(who.until) && now.Sub(current.since) < revocationGrace {
			return "", true, nil
		}
		return verifyReason(err), true, fault.New(fault.ClientRefused, "%s is not accepted by prebind: %w", who.describe(), err)
	}
	if len(c.names) > 0 && !slices.ContainsFunc(namesOf(who.certs[0]), func(name string) bool { return slices.Contains(c.names, name) }) {
		return reasonName, true, fault.New(fault.ClientRefused, "%s is not among server.tls.allowedClientNames of prebind", who.describe())
	}
	return "", who.accepted.Before(current.since) || now.Sub(who.accepted) > maxCallerAge, nil
}

// errNoCertificate tells what to do, because it ends in the pod's event.
var errNoCertificate = errors.New("set tlsConfig.certFile and keyFile in the scheduler's extender entry")

// verify checks the certificate as the handshake did, unless it is known to be
// good. who.mu must be held.
func (who *caller) verify(now time.Time, current *authority) error {
	if len(who.certs) == 0 {
		return errNoCertificate
	}
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
	if len(who.certs) == 0 {
		return "a call without a client certificate"
	}
	const most = 5
	leaf := who.certs[0]
	names := namesOf(leaf)
	text := strings.Trim(fmt.Sprintf("%q", names[:min(most, len(names))]), "[]")
	switch {
	case len(names) == 0:
		text = "nobody"
	case len(names) > most:
		text += " ..."
	}
	return fmt.Sprintf("the client certificate of %s, issued by %q,", text, leaf.Issuer.CommonName)
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
