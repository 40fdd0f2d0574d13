package doctor

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// soon is how long before its end a certificate is worth a word.
const soon = 14 * 24 * time.Hour

// day is how dates are printed.
const day = "2006-01-02 15:04 MST"

// judgeServer finds all that is wrong with a server's certificate, where
// crypto/tls tells only the first. nil roots are the machine's own.
func judgeServer(chain []*x509.Certificate, roots *x509.CertPool, name string, now time.Time) []Finding {
	leaf := chain[0]
	findings := judgeLife(leaf, "prebind's certificate", "The scheduler refuses to talk to prebind, and no pod is bound.",
		"Renew it; prebind reads the new files by itself. With the chart's own certificates: helm upgrade makes new ones.", now)
	if err := leaf.VerifyHostname(name); err != nil {
		findings = append(findings, Finding{
			Severity: Fault, What: fmt.Sprintf("the certificate is not for %s, but for %s", name, names(leaf)),
			Why:  notBound,
			Mend: "Set tlsConfig.serverName (--server-name here) to one of these names, or add the name to the certificate.",
		})
	}
	intermediates := x509.NewCertPool()
	for _, cert := range chain[1:] {
		intermediates.AddCert(cert)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: within(leaf, now), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		findings = append(findings, explainChain(err, leaf, roots == nil))
	}
	return findings
}

// within returns a time at which cert is valid, now if it can be, so that the
// chain can be judged apart from the leaf's life.
func within(cert *x509.Certificate, now time.Time) time.Time {
	switch {
	case now.After(cert.NotAfter):
		return cert.NotAfter
	case now.Before(cert.NotBefore):
		return cert.NotBefore
	}
	return now
}

func explainChain(err error, leaf *x509.Certificate, machine bool) Finding {
	finding := Finding{Severity: Fault, What: "the certificate cannot be verified: " + err.Error(), Why: notBound, Mend: "Give the certificate of the authority that signed prebind's."}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		switch invalid.Reason { // what is left has err's own words
		case x509.Expired:
			finding.What = fmt.Sprintf("the certificate of the authority %q has expired, or is not valid yet", invalid.Cert.Subject)
			finding.Mend = "Renew the authority, give its new certificate to the scheduler and restart that: it reads its CA once."
		case x509.IncompatibleUsage:
			finding.What = "the certificate is not for servers: its extended key usage lacks serverAuth"
			finding.Mend = "Issue it with the usages \"digital signature\" and \"server auth\"."
		}
		return finding
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok {
		return finding
	}
	if machine {
		finding.What = fmt.Sprintf("no CA was given, and this machine does not know the authority %q", leaf.Issuer)
		finding.Mend = "Give --ca-file here, and tlsConfig.caFile or caData in the scheduler's entry: without it kube-scheduler checks nothing."
		return finding
	}
	finding.What = fmt.Sprintf("the certificate was signed by %q, which is not the given CA", leaf.Issuer)
	finding.Mend = "Give the CA that signed it (in prebind's chart: ca.crt of the Secret with the suffix -tls) to --ca-file here and to tlsConfig in the scheduler's entry, and restart the scheduler: it reads its CA once."
	return finding
}

// judgeClient finds what is wrong with the client certificate that a server
// asked for. asked is nil if it did not, pair if there is none to show.
func judgeClient(asked *tls.CertificateRequestInfo, pair *tls.Certificate, now time.Time) []Finding {
	switch {
	case asked == nil && pair == nil:
		return []Finding{{
			Severity: Advice, What: "prebind does not ask for a client certificate",
			Why:  "Whoever reaches this port can have pods bound to any node.",
			Mend: "Set server.tls.clientCAFile and allowedClientNames in prebind's configuration, and give the scheduler a certificate.",
		}}
	case asked == nil:
		return []Finding{{
			Severity: Advice, What: "a client certificate is given, but prebind does not ask for one",
			Why:  "Whoever reaches this port can have pods bound to any node.",
			Mend: "Set server.tls.clientCAFile and allowedClientNames in prebind's configuration.",
		}}
	case pair == nil:
		return nil // the answer to the call tells whether it is needed
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil // X509KeyPair has parsed it
	}
	findings := judgeLife(leaf, "the client certificate", "prebind refuses the scheduler, and no pod is bound.",
		"Renew it; kube-scheduler reads the new files by itself.", now)
	if len(leaf.ExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		findings = append(findings, Finding{
			Severity: Fault, What: "the client certificate is not for clients: its extended key usage lacks clientAuth",
			Why:  notBound,
			Mend: "Issue it with the usages \"digital signature\" and \"client auth\".",
		})
	}
	if len(asked.AcceptableCAs) > 0 && !acceptable(asked.AcceptableCAs, pair) {
		findings = append(findings, Finding{
			Severity: Fault, What: fmt.Sprintf("the client certificate was signed by %q, which is not among the authorities that prebind accepts", leaf.Issuer),
			Why:  notBound,
			Mend: "Use a client certificate signed by the CA in prebind's server.tls.clientCAFile (in prebind's chart: the Secret with the suffix -client).",
		})
	}
	return findings
}

func acceptable(authorities [][]byte, pair *tls.Certificate) bool {
	for _, der := range pair.Certificate {
		cert, err := x509.ParseCertificate(der)
		if err == nil && slices.ContainsFunc(authorities, func(name []byte) bool { return bytes.Equal(name, cert.RawIssuer) }) {
			return true
		}
	}
	return false
}

// judgeLife finds a certificate that is not valid now, or soon no more.
func judgeLife(cert *x509.Certificate, what, why, mend string, now time.Time) []Finding {
	switch left := cert.NotAfter.Sub(now); {
	case left < 0:
		return []Finding{{Severity: Fault, What: fmt.Sprintf("%s has expired on %s", what, cert.NotAfter.Format(day)), Why: why, Mend: mend}}
	case now.Before(cert.NotBefore):
		return []Finding{{
			Severity: Fault, What: fmt.Sprintf("%s is not valid before %s", what, cert.NotBefore.Format(day)), Why: why,
			Mend: "Compare the clocks of this machine and of the one that issued it.",
		}}
	case left < soon:
		return []Finding{{Severity: Advice, What: fmt.Sprintf("%s expires on %s, in %s", what, cert.NotAfter.Format(day), days(left)), Why: "After that: " + lowerFirst(why), Mend: mend}}
	}
	return nil
}

func days(d time.Duration) string {
	if d < 48*time.Hour {
		return plural(int(d.Hours()), "hour")
	}
	return plural(int(d.Hours()/24), "day")
}

// names are those that a server's certificate is good for.
func names(cert *x509.Certificate) string {
	all := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		all = append(all, ip.String())
	}
	if len(all) == 0 {
		return "no name at all (a CN alone does not count)"
	}
	return strings.Join(all, ", ")
}

func lowerFirst(text string) string {
	if strings.HasPrefix(text, "The ") {
		return "the " + text[4:]
	}
	return text
}
