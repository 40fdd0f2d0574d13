package server

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
)

// TLS says how the verbs are served over HTTPS, and to whom. The files are PEM
// and are read again when they change; a new content that cannot be used leaves
// the old one in place.
type TLS struct {
	// CertFile is the serving certificate, its intermediates behind it, and
	// KeyFile its key. Required.
	CertFile, KeyFile string
	// ClientCAFile holds the authorities whose client certificates are
	// accepted; without one a caller is refused. Empty: callers are not
	// authenticated.
	ClientCAFile string
	// AllowedClientNames are the callers accepted among those: common name, or
	// DNS name, e-mail address or URI. Empty: any.
	AllowedClientNames []string
	// RecheckInterval is how often the files are read even if nothing told of a
	// change, and connections at rest are looked at again. 0 means
	// DefaultRecheckInterval.
	RecheckInterval time.Duration
}

// DefaultRecheckInterval is the default of TLS.RecheckInterval.
const DefaultRecheckInterval = 10 * time.Second

// Limits of TLS that nobody needs to tune.
const (
	// handshakeTimeout bounds how long a client may take for its handshake.
	handshakeTimeout = 10 * time.Second
	// maxCallerAge is the age at which a connection is ended, after an answer,
	// so that the caller makes a new one, with the certificate that it has by
	// then: kube-scheduler reads a renewed one only when it connects.
	maxCallerAge = 5 * time.Minute
	// revocationGrace is for how long a connection is still served, and told to
	// end, once its authority is no longer accepted. The caller then turns to a
	// connection with its new certificate without losing a call.
	revocationGrace = 10 * time.Second
	// expiryWarning is how long before its end a certificate is warned about.
	expiryWarning = 30 * 24 * time.Hour
)

func (t *TLS) withDefaults() (*TLS, error) {
	if t == nil {
		return nil, nil
	}
	if t.CertFile == "" || t.KeyFile == "" {
		return nil, errors.New("server.Config.TLS lacks CertFile or KeyFile")
	}
	c := *t
	if c.RecheckInterval == 0 {
		c.RecheckInterval = DefaultRecheckInterval
	}
	return &c, nil
}

// base is what all handshakes have in common; certificates are added to it.
func (t *TLS) base() *tls.Config {
	base := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		// Of TLS 1.2 only what is as good as 1.3: forward secrecy and AEAD.
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
		// A resumed session would go on with a certificate that was checked
		// against older authorities. Callers connect seldom.
		SessionTicketsDisabled: true,
	}
	if t.ClientCAFile != "" {
		// Asked for here, and checked before each request, see callers: under
		// TLS 1.3 a client believes its handshake done before the server has
		// seen the certificate, and what kube-scheduler then says of a refusal
		// is at best "remote error: tls: bad certificate".
		base.ClientAuth = tls.RequestClientCert
	}
	return base
}

// setUpTLS loads the certificates and what goes with them.
func (s *Server) setUpTLS() error {
	logger := s.cfg.Logger.Named("tls")
	s.refusals = newRefusals(s.metrics.clientRefusals, logger)
	recheck := func() {}
	if s.cfg.TLS.ClientCAFile != "" {
		s.callers = newCallers(s.cfg.TLS.AllowedClientNames, func() *authority { return s.certs.authority.Load() })
		recheck = s.callers.closeIdle
	}
	var err error
	s.certs, err = newCertificates(s.cfg.TLS, logger, s.metrics.certificateExpiry, recheck)
	return err
}

// secure puts TLS before a listener.
func (s *Server) secure(l *listener) {
	config := s.certs.config()
	l.secure = newTLSListener(l.Listener, config, s.refuseHandshake)
	l.Listener = l.secure
	l.http.TLSConfig = config.Clone() // which net/http looks at to see that HTTP/2 is wanted
	// A call waits for minutes. kube-scheduler opens another connection whenever
	// all streams of the others are taken, and every call of that moment makes
	// a handshake of its own: with the default of 250 four times as often. A
	// call costs the same memory either way.
	l.http.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1000}
	if s.callers != nil {
		l.http.ConnContext, l.http.ConnState = s.callers.connContext, s.callers.connState
		l.http.Handler = s.authorize(l.http.Handler)
	}
}

// warnOfExposure says at start who can bind pods without being asked who it is.
func (s *Server) warnOfExposure() {
	if text := exposure(s.Addr(), s.certs != nil, s.callers != nil); text != "" {
		s.cfg.Logger.Warn(text, zap.Stringer("address", s.Addr()))
	}
}

// exposure is the warning for an address that is served, or "".
func exposure(address net.Addr, overTLS, authenticated bool) string {
	tcp, ok := address.(*net.TCPAddr)
	switch {
	case ok && tcp.IP.IsLoopback():
		return ""
	case !overTLS:
		return "plain HTTP off loopback (server.insecure): whoever reaches this address can bind pods"
	case !authenticated:
		return "callers are not authenticated (no server.tls.clientCAFile): whoever reaches this address can bind pods"
	}
	return ""
}
