package registration

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	configv1 "k8s.io/kube-scheduler/config/v1"
)

// basePath is where prebind serves its verbs.
const basePath = "/v1"

// prefix completes what a user gives for prebind's address to a urlPrefix:
// scheme and host, and "/v1" if there is no path.
func prefix(given string) (string, error) {
	u, err := parse(given)
	if err != nil {
		return "", err
	}
	switch path := strings.TrimRight(u.Path, "/"); {
	case path == "" || path == basePath:
	case strings.HasPrefix(path, basePath+"/"):
		return "", fmt.Errorf("the URL %s has a verb in its path; kube-scheduler adds the verb, so that the URL ends with %s", given, basePath)
	default:
		return "", fmt.Errorf("the URL %s has the path %s; prebind serves under %s", given, u.Path, basePath)
	}
	return u.Scheme + "://" + u.Host + basePath, nil
}

// parse takes an http or https URL with a host and nothing behind its path.
func parse(given string) (*url.URL, error) {
	u, err := url.Parse(given)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the URL %q does not begin with http:// or https://", given)
	case u.Hostname() == "":
		return nil, fmt.Errorf("the URL %s has no host", given)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, errors.New("the URL must be only scheme, host, port and path: " + u.Redacted())
	}
	return u, nil
}

// looksLikePrebind tells prebind's entries from those of other extenders: by
// the path, which is /v1 for prebind, by the name, or by the address, which is
// that of another entry or URL known to be prebind's.
func looksLikePrebind(urlPrefix string, tls *configv1.ExtenderTLSConfig, known string) bool {
	u, err := url.Parse(urlPrefix)
	if err != nil {
		return false
	}
	if tls != nil && strings.Contains(tls.ServerName, "prebind") || strings.Contains(u.Hostname(), "prebind") {
		return true
	}
	if other, err := url.Parse(known); err == nil && known != "" {
		return other.Host == u.Host
	}
	path := strings.TrimRight(u.Path, "/")
	return path == basePath || strings.HasPrefix(path, basePath+"/")
}

// loopback tells whether the host can be reached from its own machine only.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// serviceName tells whether only the cluster's DNS knows the host.
func serviceName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return net.ParseIP(host) == nil && !loopback(host) &&
		(strings.HasSuffix(host, ".svc") || strings.Contains(host, ".svc.") || !strings.Contains(host, "."))
}
