package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
)

// certificates are the files of TLS, followed as they change.
type certificates struct {
	cfg    *TLS
	logger *zap.Logger
	expiry prometheus.Gauge

	pair *dynamiccertificates.DynamicCertKeyPairContent
	// ca is nil when callers are not authenticated.
	ca         *dynamiccertificates.DynamicFileCAContent
	controller *dynamiccertificates.DynamicServingCertificateController

	serving   atomic.Pointer[x509.Certificate]
	authority atomic.Pointer[authority]
	// recheck is called when client authorities have changed, and at every
	// RecheckInterval.
	recheck func()
}

// authority is what client certificates are checked against.
type authority struct {
	x509.VerifyOptions
	since time.Time
}

// newCertificates loads the files. run must be called, or close.
func newCertificates(cfg *TLS, logger *zap.Logger, expiry prometheus.Gauge, recheck func()) (*certificates, error) {
	// dynamiccertificates does not name the file, and leaves goroutines behind.
	if _, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile); err != nil {
		return nil, fmt.Errorf("loading server.tls.certFile %s and server.tls.keyFile %s: %w", cfg.CertFile, cfg.KeyFile, err)
	}
	if cfg.ClientCAFile != "" {
		if _, err := cert.NewPool(cfg.ClientCAFile); err != nil {
			return nil, fmt.Errorf("loading server.tls.clientCAFile %s: %w", cfg.ClientCAFile, err)
		}
	}
	c := &certificates{cfg: cfg, logger: logger, expiry: expiry, recheck: recheck}
	var err error
	if c.pair, err = dynamiccertificates.NewDynamicServingContentFromFiles("serving", cfg.CertFile, cfg.KeyFile); err != nil {
		return nil, fmt.Errorf("loading the serving certificate: %w", err)
	}
	var ca dynamiccertificates.CAContentProvider // a nil interface when there is none
	if cfg.ClientCAFile != "" {
		if c.ca, err = dynamiccertificates.NewDynamicCAContentFromFile("client-ca", cfg.ClientCAFile); err != nil {
			return nil, fmt.Errorf("loading the client CA: %w", err)
		}
		ca = c.ca
	}
	c.controller = dynamiccertificates.NewDynamicServingCertificateController(cfg.base(), ca, c.pair, nil, nil)
	if err := c.controller.RunOnce(); err != nil {
		return nil, fmt.Errorf("loading certificates: %w", err)
	}
	c.pair.AddListener(c.controller)
	c.pair.AddListener(listenerFunc(c.servingChanged))
	c.servingChanged()
	if c.ca != nil {
		c.ca.AddListener(c.controller)
		c.ca.AddListener(listenerFunc(c.authorityChanged))
		c.loadAuthority()
	}
	return c, nil
}

// listenerFunc is a dynamiccertificates.Listener.
type listenerFunc func()

func (f listenerFunc) Enqueue() { f() }

// config is what a handshake starts from.
func (c *certificates) config() *tls.Config {
	config := c.cfg.base()
	config.GetConfigForClient = c.controller.GetConfigForClient
	return config
}

// run follows the files until ctx is done.
func (c *certificates) run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { c.pair.Run(ctx, 1) })
	running.Go(func() { c.controller.Run(1, ctx.Done()) })
	if c.ca != nil {
		running.Go(func() { c.ca.Run(ctx, 1) })
	}
	running.Go(func() { c.poll(ctx) })
	running.Wait()
}

// close ends what newCertificates started.
func (c *certificates) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.run(ctx)
}

// poll reads the files also when no event tells of a change: the folder that
// ..data pointed to may stay, and a watch that was lost is set up again only
// after a minute. It also says, once, why a new content is not used.
func (c *certificates) poll(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.RecheckInterval)
	defer ticker.Stop()
	files := []*followed{{what: "serving certificate", load: c.pair.RunOnce}}
	if c.ca != nil {
		files = append(files, &followed{what: "client CA", load: c.ca.RunOnce})
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for _, f := range files {
				f.reload(ctx, c.logger)
			}
			c.recheck()
		}
	}
}

// followed is a file, or a pair of files, that may be broken for a while.
type followed struct {
	what    string
	load    func(context.Context) error
	problem string // "" while all is well
}

func (f *followed) reload(ctx context.Context, logger *zap.Logger) {
	var problem string
	if err := f.load(ctx); err != nil {
		problem = err.Error()
	}
	switch {
	case problem == f.problem:
	case problem != "":
		logger.Error("the new "+f.what+" cannot be used, the old one is kept", zap.String("error", problem))
	default:
		logger.Info("the " + f.what + " can be read again")
	}
	f.problem = problem
}

func (c *certificates) servingChanged() {
	pem, _ := c.pair.CurrentCertKeyContent()
	chain, err := cert.ParseCertsPEM(pem)
	if err != nil { // the pair was checked when it was read
		c.logger.Error("reading the serving certificate", zap.Error(err))
		return
	}
	leaf := chain[0]
	c.serving.Store(leaf)
	c.expiry.Set(float64(leaf.NotAfter.Unix()))
	c.logger.Info("serving certificate loaded", zap.String("subject", leaf.Subject.String()), zap.Strings("dnsNames", leaf.DNSNames),
		zap.String("issuer", leaf.Issuer.String()), zap.Time("notBefore", leaf.NotBefore), zap.Time("notAfter", leaf.NotAfter))
	if left := time.Until(leaf.NotAfter); left < expiryWarning {
		c.logger.Warn("the serving certificate expires soon, or has expired", zap.Time("notAfter", leaf.NotAfter), zap.Duration("leftMs", left))
	}
}

func (c *certificates) authorityChanged() {
	c.loadAuthority()
	c.recheck()
}

func (c *certificates) loadAuthority() {
	options, _ := c.ca.VerifyOptions() // there is one: the first was loaded
	c.authority.Store(&authority{options, time.Now()})
	var subjects []string
	if certs, err := cert.ParseCertsPEM(c.ca.CurrentCABundleContent()); err == nil {
		for _, ca := range certs {
			subjects = append(subjects, ca.Subject.String())
		}
	}
	c.logger.Info("client CA loaded", zap.Strings("subjects", subjects))
}

// check is the readiness check of the serving certificate.
func (c *certificates) check() error {
	now, leaf := time.Now(), c.serving.Load()
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the serving certificate %s expired at %s", c.cfg.CertFile, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the serving certificate %s is not valid before %s", c.cfg.CertFile, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}
