package registration

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	configv1 "k8s.io/kube-scheduler/config/v1"
)

// How long before its end a certificate is worth a word. The CA is read once,
// at the scheduler's start, so that a new one needs more time.
const (
	caNotice          = 60 * 24 * time.Hour
	certificateNotice = 14 * 24 * time.Hour
)

// source is PEM text and the key of tlsConfig that it came by.
type source struct {
	key, name string // "caFile", "caFile (/etc/ca.crt)"
	data      []byte
	read      bool // data is what there is; otherwise nobody may look
}

// load returns the data, or reads the file. A file that cannot be read is a
// fault.
func (c *checker) load(at, key string, data []byte, path string) (source, bool) {
	if len(data) > 0 {
		return source{key: key + "Data", name: key + "Data", data: data, read: true}, true
	}
	from := source{key: key + "File", name: fmt.Sprintf("%sFile (%s)", key, path)}
	if path == "" || c.options.ReadFile == nil {
		return from, true
	}
	text, err := c.options.ReadFile(path)
	if err != nil {
		c.fault("file-unreadable", at+"."+from.key, fmt.Sprintf("The file of %s cannot be read: %v.", from.name, err),
			"kube-scheduler reads it when it starts, and does not start without it. In a static pod it must also be mounted into the container, at this path.",
			"Put the file there, or name the right one. If this is not the scheduler's own machine, run the check there.")
		return from, false
	}
	from.data, from.read = text, true
	return from, true
}

func (c *checker) checkCA(at string, t configv1.ExtenderTLSConfig, binds bool) {
	ca, ok := c.load(at, "ca", t.CAData, t.CAFile)
	if !ok || !ca.read {
		return
	}
	if binds {
		c.found.CAData = ca.data
	}
	certificates, err := parsePEM(ca.data)
	if err != nil {
		c.fault("ca-unreadable", at+"."+ca.key, fmt.Sprintf("%s holds no CA certificate: %v.", ca.name, err),
			"kube-scheduler does not start, or trusts nobody.", "Put the PEM text of prebind's CA there (-----BEGIN CERTIFICATE-----). In caData it is encoded once more, in base64.")
		return
	}
	// Those that still count; an old one beside a new one does no harm.
	last := slices.MaxFunc(certificates, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	const why = "Calls to prebind fail once it has expired, and no pod is bound. The scheduler reads the CA once, when it starts."
	const mend = "Put the new CA beside the old one into the file, restart the scheduler, and then renew prebind's certificate."
	c.checkDates("ca", at+"."+ca.key, "The CA of "+ca.name, last, caNotice, why, mend)
}

func (c *checker) checkClientCertificate(at string, t configv1.ExtenderTLSConfig, binds bool) {
	hasCert, hasKey := t.CertFile != "" || len(t.CertData) > 0, t.KeyFile != "" || len(t.KeyData) > 0
	switch {
	case !hasCert && !hasKey:
		c.advise("no-client-certificate", at, "The scheduler shows no client certificate (certFile and keyFile).",
			"A certificate is the only way in which kube-scheduler can prove who it is. A prebind with server.tls.clientCAFile refuses calls without one, so that no pod is bound; a prebind without it lets everybody bind pods.",
			"Set certFile and keyFile (Helm chart: tls.crt and tls.key in the Secret that ends with -client).")
		return
	case hasCert != hasKey:
		there, missing := "certFile", "keyFile"
		if hasKey {
			there, missing = missing, there
		}
		c.fault("half-client-certificate", at+"."+there, fmt.Sprintf("%s (or its Data) is set, but not %s.", there, missing),
			"One is of no use without the other: kube-scheduler shows no certificate, and prebind refuses it.",
			fmt.Sprintf("Set %s as well.", missing))
		return
	}
	cert, okCert := c.load(at, "cert", t.CertData, t.CertFile)
	key, okKey := c.load(at, "key", t.KeyData, t.KeyFile)
	if binds {
		c.found.CertData, c.found.KeyData = cert.data, key.data
	}
	if !okCert || !okKey || !cert.read {
		return
	}
	certificates, err := parsePEM(cert.data)
	if err != nil {
		c.fault("client-certificate-unreadable", at+"."+cert.key, fmt.Sprintf("%s holds no certificate: %v.", cert.name, err),
			"kube-scheduler does not start, or shows no certificate.", "Put the PEM text of the client certificate there.")
		return
	}
	c.checkPair(at, cert, key)
	c.checkLeaf(at+"."+cert.key, cert, certificates[0])
}

// checkPair holds the key against the certificate.
func (c *checker) checkPair(at string, cert, key source) {
	if !key.read {
		return
	}
	if _, err := tls.X509KeyPair(cert.data, key.data); err != nil {
		c.fault("key-mismatch", at+"."+key.key, fmt.Sprintf("%s and %s do not belong together: %v.", cert.name, key.name, err),
			"kube-scheduler cannot use them: it does not start, or every call fails.", "Take both from the same Secret, at the same time.")
	}
}

func (c *checker) checkLeaf(at string, cert source, leaf *x509.Certificate) {
	what := "The client certificate of " + cert.name
	mend := "Renew it, and replace certificate and key on every control-plane node. Files are read again by themselves, within minutes."
	if cert.key == "certData" {
		mend = "Renew it, write it into the file (or better: name certFile and keyFile, which are read again by themselves), and restart the scheduler."
	}
	c.checkDates("client-certificate", at, what, leaf, certificateNotice, "prebind refuses the scheduler once it has expired, and no pod is bound.", mend)
	usages := leaf.ExtKeyUsage
	if len(usages)+len(leaf.UnknownExtKeyUsage) > 0 && !slices.Contains(usages, x509.ExtKeyUsageClientAuth) && !slices.Contains(usages, x509.ExtKeyUsageAny) {
		c.fault("client-certificate-usage", at, what+" is not made for clients (no clientAuth in its extended key usage).",
			"prebind refuses it, and no pod is bound.", "Use the client's certificate, not the server's, or issue one with the usage \"client auth\".")
	}
}

// checkDates reports a certificate that is not valid now, or not for long.
func (c *checker) checkDates(id, at, what string, cert *x509.Certificate, notice time.Duration, why, mend string) {
	now, day := c.options.Now, time.DateOnly
	switch {
	case now.After(cert.NotAfter):
		c.fault(id+"-expired", at, fmt.Sprintf("%s expired on %s.", what, cert.NotAfter.UTC().Format(day)), why, mend)
	case now.Before(cert.NotBefore):
		c.fault(id+"-not-yet-valid", at, fmt.Sprintf("%s is valid from %s on only.", what, cert.NotBefore.UTC().Format(time.RFC3339)),
			"Until then it is refused. Is the clock of this machine right?", "Set the clock, or wait.")
	case now.Add(notice).After(cert.NotAfter):
		c.advise(id+"-expiring", at, fmt.Sprintf("%s expires on %s.", what, cert.NotAfter.UTC().Format(day)), why, mend)
	}
}

// parsePEM returns the certificates in PEM text; at least one without an error.
func parsePEM(text []byte) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parsing a certificate: %w", err)
		}
		found = append(found, certificate)
	}
	if len(found) == 0 {
		return nil, errors.New("no block -----BEGIN CERTIFICATE----- in it")
	}
	return found, nil
}
