package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// checkEndpoint goes the way of a bind call, step by step: name, connection,
// TLS, HTTP. A step that cannot be done ends the way.
func (e *exam) checkEndpoint(ctx context.Context) outcome {
	target := e.Endpoint
	if target.URL == nil {
		if e.registered != nil && e.registered.URL != "" {
			return skipped("no --endpoint; where the scheduler runs, give --endpoint=%s", e.registered.URL)
		}
		return skipped("no --endpoint")
	}
	e.completeEndpoint(&target)
	way := &way{exam: e, target: target, host: target.URL.Hostname(), port: portOf(target.URL)}
	way.name = way.host
	if target.ServerName != "" {
		way.name = target.ServerName
	}
	steps := []func(context.Context) (done bool){way.resolve, way.connect, way.handshake, way.call}
	for _, step := range steps {
		if !step(ctx) {
			break
		}
	}
	for i := range way.findings {
		way.findings[i].Object = target.URL.String()
	}
	return outcome{summary: target.URL.String() + way.summary, findings: way.findings}
}

// completeEndpoint takes what was not given from the scheduler's file, if that
// calls the same place.
func (e *exam) completeEndpoint(target *Endpoint) {
	if e.registered == nil {
		return
	}
	entry, err := url.Parse(e.registered.URL)
	if err != nil || entry.Host != target.URL.Host {
		return
	}
	if len(target.CA) == 0 {
		target.CA = e.registered.CAData
	}
	if len(target.Cert) == 0 && len(target.Key) == 0 {
		target.Cert, target.Key = e.registered.CertData, e.registered.KeyData
	}
	if target.ServerName == "" {
		target.ServerName = e.registered.ServerName
	}
}

// way is the way to one endpoint, and what was found on it.
type way struct {
	exam             *exam
	target           Endpoint
	host, port, name string // name: expected in the certificate

	addresses []string // host:port, IP addresses
	pair      *tls.Certificate
	asked     *tls.CertificateRequestInfo // nil: the server wants no certificate

	summary  string
	findings []Finding
}

func (w *way) fault(what, why, mend string) {
	w.findings = append(w.findings, Finding{Severity: Fault, What: what, Why: why, Mend: mend})
}

// notBound is why most of this hurts.
const notBound = "Every bind call fails, and no pod is bound; the scheduler tries each again and again."

func (w *way) resolve(ctx context.Context) bool {
	if _, err := netip.ParseAddr(w.host); err == nil {
		w.addresses = []string{net.JoinHostPort(w.host, w.port)}
		return true
	}
	found, err := net.DefaultResolver.LookupHost(ctx, w.host)
	if err != nil {
		w.fault(fmt.Sprintf("the name %s cannot be resolved from here: %v", w.host, err),
			notBound+" A scheduler on the host network does not ask the cluster's DNS, so names of Services mean nothing to it.",
			"Use the Service's cluster IP (kubectl get service shows it) in urlPrefix and set tlsConfig.serverName to the name; or run doctor inside the cluster, if the scheduler runs as a normal pod.")
		return false
	}
	for _, address := range found {
		w.addresses = append(w.addresses, net.JoinHostPort(address, w.port))
	}
	return true
}

// connect keeps the first address that answers.
func (w *way) connect(ctx context.Context) bool {
	var failures []error
	for _, address := range w.addresses {
		conn, err := w.dial(ctx, address)
		if err == nil {
			_ = conn.Close()
			w.addresses = []string{address}
			return true
		}
		failures = append(failures, err)
	}
	err := errors.Join(failures...)
	what, mend := "no connection: "+err.Error(), "See that prebind runs and which address its log line \"serving\" names."
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		what = fmt.Sprintf("%s refuses the connection: nothing listens on that port", net.JoinHostPort(w.host, w.port))
		mend = "Start prebind, or correct host and port: its log line \"serving\" names the address. Behind a Service: kubectl get endpointslices shows whether a replica is ready."
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		what = fmt.Sprintf("%s does not answer: the connection timed out", net.JoinHostPort(w.host, w.port))
		mend = "A firewall or a NetworkPolicy drops the packets, or the address belongs to nobody. Let this machine reach the port; in prebind's chart see networkPolicy."
	}
	w.fault(what, notBound, mend)
	return false
}

func (w *way) dial(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: w.exam.StepTimeout / 3}
	return dialer.DialContext(ctx, "tcp", address)
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// handshake looks at the certificates of both sides. It does not stop at a
// certificate that is not trusted: the answer to a call may tell more.
func (w *way) handshake(ctx context.Context) bool {
	if w.target.URL.Scheme != "https" {
		if len(w.target.CA)+len(w.target.Cert) > 0 {
			w.findings = append(w.findings, Finding{
				Severity: Advice, What: "a CA or a client certificate is given for a URL that begins with http://",
				Why: "They are not used: everything goes over the wire in the clear.", Mend: "Say https://, if prebind has server.tls.",
			})
		}
		return true
	}
	if !w.loadPair() {
		return false
	}
	conn, err := w.dial(ctx, w.addresses[0])
	if err != nil {
		w.fault("the second connection failed: "+err.Error(), notBound, "See whether prebind is being restarted, and run doctor again.")
		return false
	}
	defer func() { _ = conn.Close() }()
	client := tls.Client(conn, w.tlsConfig())
	if err := client.HandshakeContext(ctx); err != nil {
		w.findings = append(w.findings, explainHandshake(err, w.pair != nil))
		return false
	}
	state := client.ConnectionState()
	roots, err := pool(w.target.CA)
	if err != nil {
		w.fault(err.Error(), "The scheduler could not check prebind's certificate either.", "Give the certificate of the authority that signed prebind's, PEM encoded.")
		return false
	}
	w.findings = append(w.findings, judgeServer(state.PeerCertificates, roots, w.name, w.exam.Now)...)
	w.findings = append(w.findings, judgeClient(w.asked, w.pair, w.exam.Now)...)
	w.summary += fmt.Sprintf(", %s, certificate until %s", tls.VersionName(state.Version), state.PeerCertificates[0].NotAfter.Format("2006-01-02"))
	return true
}

// tlsConfig trusts everybody: what is wrong is found by hand, all of it.
func (w *way) tlsConfig() *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, // see above; nothing secret is sent
		ServerName:         w.name, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetClientCertificate: func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			w.asked = asked
			if w.pair == nil {
				return &tls.Certificate{}, nil
			}
			return w.pair, nil
		},
	}
}

func (w *way) loadPair() bool {
	if len(w.target.Cert) == 0 && len(w.target.Key) == 0 {
		return true
	}
	pair, err := tls.X509KeyPair(w.target.Cert, w.target.Key)
	if err != nil {
		w.fault("the client certificate and its key cannot be used: "+err.Error(),
			"kube-scheduler could not use them either: it does not start, or every bind call fails.",
			"Give a certificate and the private key that belongs to it, both PEM encoded.")
		return false
	}
	w.pair = &pair
	return true
}

// pool makes a pool of PEM certificates; nil, which is the machine's own, of
// none.
func pool(pem []byte) (*x509.CertPool, error) {
	if len(pem) == 0 {
		return nil, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("the CA file holds no certificate")
	}
	return roots, nil
}

// explainHandshake tells why there is no TLS connection.
func explainHandshake(err error, shown bool) Finding {
	finding := Finding{Severity: Fault, What: "the TLS handshake fails: " + err.Error(), Why: notBound, Mend: "See prebind's log: it says why it refuses clients."}
	record, isRecord := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case isRecord && strings.HasPrefix(string(record.RecordHeader[:]), "HTTP"):
		finding.What = "this port speaks plain HTTP, not TLS"
		finding.Mend = "Give prebind server.tls; or, with prebind on the scheduler's own machine, say http:// and enableHTTPS: false."
	case isRecord:
		finding.What = "this port does not speak TLS"
		finding.Mend = "See which program listens there: it is not prebind, or prebind without server.tls."
	default:
		if refusal, ok := explainAlert(err, shown); ok {
			return refusal
		}
	}
	return finding
}

// explainAlert tells why a server ended the connection, if it said so.
func explainAlert(err error, shown bool) (Finding, bool) {
	_, alert, found := strings.Cut(err.Error(), "remote error: tls: ")
	if !found {
		return Finding{}, false
	}
	finding := Finding{Severity: Fault, Why: notBound}
	switch {
	case !shown:
		finding.What = "prebind wants a client certificate, and none was shown (" + alert + ")"
		finding.Mend = "Show the scheduler's: --cert-file and --key-file here, tlsConfig.certFile and keyFile in the scheduler's entry."
	case strings.Contains(alert, "unknown certificate authority"):
		finding.What = "prebind does not know the authority that signed the client certificate (" + alert + ")"
		finding.Mend = "Use a client certificate signed by the CA in prebind's server.tls.clientCAFile."
	case strings.Contains(alert, "expired"):
		finding.What = "prebind finds the client certificate expired (" + alert + ")"
		finding.Mend = "Renew the client certificate; kube-scheduler reads the new files by itself. If it is valid, compare the clocks."
	default:
		finding.What = "prebind refuses the client certificate (" + alert + ")"
		finding.Mend = "Its authority must be in server.tls.clientCAFile, its CN or a SAN in server.tls.allowedClientNames; prebind's log names the reason."
	}
	return finding, true
}
