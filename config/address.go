package config

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateAddresses(at *field.Path, s Server) field.ErrorList {
	address, mistakes := parseAddress(at.Child("address"), s.Address)
	opsAddress, more := parseAddress(at.Child("opsAddress"), s.OpsAddress)
	mistakes = append(mistakes, more...)
	if address != nil && !address.loopback() && s.TLS == nil && !s.Insecure {
		mistakes = append(mistakes, field.Forbidden(at.Child("address"),
			"plain HTTP on "+s.Address+", where whoever reaches it can bind pods: set server.tls, use loopback such as 127.0.0.1:8888, or accept the risk with server.insecure: true"))
	}
	if address != nil && opsAddress != nil && address.clashes(opsAddress) {
		mistakes = append(mistakes, field.Invalid(at.Child("opsAddress"), s.OpsAddress, "must differ from server.address"))
	}
	return mistakes
}

// address is a listen address taken apart.
type address struct {
	host string
	port int
	// ip is the host as an IP address; invalid for a DNS name. An empty host
	// counts as the unspecified address, localhost as 127.0.0.1.
	ip netip.Addr
}

// parseAddress checks the form host:port. The address is nil when it has a
// mistake.
func parseAddress(at *field.Path, text string) (*address, field.ErrorList) {
	host, portText, err := net.SplitHostPort(text)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(at, text, "must be host:port, such as 127.0.0.1:8888 or [::1]:8888")}
	}
	var mistakes field.ErrorList
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		mistakes = append(mistakes, field.Invalid(at, text, "port must be a number from 0 to 65535"))
	}
	parsed := &address{host: host, port: int(port)}
	switch ip, err := netip.ParseAddr(host); {
	case err == nil:
		parsed.ip = ip.Unmap()
	case host == "":
		parsed.ip = netip.IPv6Unspecified()
	case strings.EqualFold(host, "localhost"):
		parsed.ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case len(validation.IsDNS1123Subdomain(strings.ToLower(host))) > 0:
		mistakes = append(mistakes, field.Invalid(at, text, "host must be an IP address or a DNS name"))
	}
	if len(mistakes) > 0 {
		return nil, mistakes
	}
	return parsed, nil
}

// loopback tells whether only this machine can reach the address. A DNS name
// may change its meaning, so it never counts, but for localhost.
func (a *address) loopback() bool { return a.ip.IsLoopback() }

// clashes tells whether both addresses cannot be listened on at once.
func (a *address) clashes(b *address) bool {
	switch {
	case a.port != b.port || a.port == 0:
		return false
	case a.ip.IsValid() && b.ip.IsValid():
		return a.ip == b.ip || a.ip.IsUnspecified() || b.ip.IsUnspecified()
	default:
		return strings.EqualFold(a.host, b.host) || a.ip.IsUnspecified() || b.ip.IsUnspecified()
	}
}
