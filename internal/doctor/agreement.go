package doctor

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"github.com/prebind/prebind/config"
	"github.com/prebind/prebind/internal/registration"
)

// compareFiles finds where the scheduler's bind entry and prebind's listener
// do not fit together. How long either waits is registration's to compare.
func compareFiles(cfg *config.PrebindConfiguration, found *registration.Found) []Finding {
	target, err := url.Parse(found.URL)
	if err != nil {
		return nil // registration has told
	}
	host, port, err := net.SplitHostPort(cfg.Server.Address)
	if err != nil {
		return nil // the configuration is valid, so this does not happen
	}
	listens, calls := isLoopback(host), isLoopback(target.Hostname())
	var findings []Finding
	if listens && !calls {
		findings = append(findings, Finding{
			Severity: Fault,
			What:     fmt.Sprintf("the scheduler calls %s, but prebind's server.address %s can be reached from its own machine only", target.Host, cfg.Server.Address),
			Why:      "Every bind call ends with \"connection refused\", and no pod is bound.",
			Mend:     "Give prebind server.tls and an address such as 0.0.0.0:8443, or run it beside the scheduler and let the entry's urlPrefix be http://127.0.0.1:" + port + "/v1.",
		})
	}
	if calls && port != "0" && portOf(target) != port {
		findings = append(findings, Finding{
			Severity: Fault,
			What:     fmt.Sprintf("the scheduler calls port %s of its own machine, but prebind listens on port %s", portOf(target), port),
			Why:      "Every bind call ends with \"connection refused\", or goes to somebody else.",
			Mend:     fmt.Sprintf("Make the port of the entry's urlPrefix and that of prebind's server.address (%s) the same.", cfg.Server.Address),
		})
	}
	return append(findings, compareTLS(cfg.Server.TLS, found)...)
}

// compareTLS finds where one side speaks TLS and the other does not, or wants
// to know a caller who has nothing to show.
func compareTLS(listens *config.TLS, found *registration.Found) []Finding {
	const entry = "enableHTTPS, https:// in urlPrefix and tlsConfig"
	switch {
	case listens == nil && found.HTTPS:
		return []Finding{{
			Severity: Fault, What: "the scheduler speaks TLS, but prebind serves plain HTTP",
			Why:  "Every bind call ends with \"server gave HTTP response to HTTPS client\", and no pod is bound.",
			Mend: "Give prebind server.tls; or, with prebind on the scheduler's own machine, take " + entry + " out.",
		}}
	case listens != nil && !found.HTTPS:
		return []Finding{{
			Severity: Fault, What: "prebind serves TLS, but the scheduler speaks plain HTTP",
			Why:  "Every bind call is answered with status 400, and no pod is bound.",
			Mend: "Add " + entry + " to the scheduler's entry.",
		}}
	case listens != nil && listens.ClientCAFile != "" && found.CertFile == "" && len(found.CertData) == 0:
		return []Finding{{
			Severity: Fault, What: "prebind wants a client certificate (server.tls.clientCAFile), but the scheduler has none to show",
			Why:  notBound,
			Mend: "Set tlsConfig.certFile and keyFile in the scheduler's entry to a certificate signed by that CA.",
		}}
	}
	return nil
}

// isLoopback tells whether host is this machine, whatever machine that is.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// portOf returns a URL's port, or the one that its scheme implies.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}
