package registration

import (
	"net"
	"net/url"
	"strings"

	configv1 "k8s.io/kube-scheduler/config/v1"
)

// checkTransport checks how an entry of prebind is reached. What the bind entry
// says is also noted as found.
func (c *checker) checkTransport(i int, e configv1.Extender, binds bool) {
	at := extenderPath(i)
	tls := configv1.ExtenderTLSConfig{}
	if e.TLSConfig != nil {
		tls = *e.TLSConfig
	}
	if binds {
		c.found.URL = strings.TrimRight(e.URLPrefix, "/")
		c.found.ServerName = tls.ServerName
		c.found.CAFile, c.found.CertFile, c.found.KeyFile = tls.CAFile, tls.CertFile, tls.KeyFile
		c.found.CAData, c.found.CertData, c.found.KeyData = tls.CAData, tls.CertData, tls.KeyData
	}
	u, err := parse(e.URLPrefix)
	if err != nil {
		c.fault("url", at+".urlPrefix", "urlPrefix cannot be called: "+err.Error()+".",
			"Every call fails, and no pod is bound.", "Write it as https://HOST:PORT/v1, or http://127.0.0.1:8888/v1.")
		return
	}
	https := u.Scheme == "https"
	if binds {
		c.found.HTTPS = https
	}
	c.checkPath(at, u)
	c.checkScheme(at, u, e.EnableHTTPS)
	if host := u.Hostname(); serviceName(host) && c.hasDefaultScheduler() {
		c.advise("service-name", at+".urlPrefix", "The host "+host+" is a name that only the cluster's DNS knows.",
			"A kube-scheduler on the host network (kubeadm, kind, k3s, RKE2) asks the host's DNS, which does not know it: every call fails.",
			"Use the Service's ClusterIP in urlPrefix (kubectl get service; prebind scheduler-config --from-service finds it), and the name in tlsConfig.serverName. Inside a pod with the cluster's DNS the name is fine.")
	}
	if https {
		c.checkTLS(at+".tlsConfig", u.Hostname(), tls, binds)
	}
}

func (c *checker) checkPath(at string, u *url.URL) {
	switch path := strings.TrimRight(u.Path, "/"); {
	case path == basePath:
	case strings.HasPrefix(path, basePath+"/"):
		c.fault("url-verb", at+".urlPrefix", "urlPrefix ends with a verb: "+u.Path+".",
			"kube-scheduler adds the verb itself and calls "+path+"/"+bindVerb+", for which prebind answers 404: no pod is bound.",
			"End urlPrefix with /v1: "+u.Scheme+"://"+u.Host+basePath+".")
	default:
		c.fault("url-path", at+".urlPrefix", "urlPrefix does not end with /v1: "+u.String()+".",
			"prebind serves its verbs under /v1 and answers 404 to all others: no pod is bound. (If this entry is another extender's, then that one binds, and prebind is not registered.)",
			"End urlPrefix with /v1: "+u.Scheme+"://"+u.Host+basePath+".")
	}
}

func (c *checker) checkScheme(at string, u *url.URL, enabled bool) {
	switch {
	case u.Scheme == "http" && enabled:
		c.fault("scheme", at+".enableHTTPS", "enableHTTPS is true, but urlPrefix begins with http://.",
			"The URL decides: calls go out in plain text, without the certificates of tlsConfig, and a prebind that serves TLS refuses them.",
			"Write https:// in urlPrefix.")
	case u.Scheme == "https" && !enabled:
		c.fault("scheme", at+".enableHTTPS", "urlPrefix begins with https://, but enableHTTPS is not true.",
			"The two are meant to agree, and what kube-scheduler makes of the certificates when they do not is left to chance.",
			"Set enableHTTPS: true.")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		c.fault("plain-http", at+".urlPrefix", "Calls go over the network in plain HTTP, to "+u.Host+".",
			"Nothing proves to the scheduler that it talks to prebind, nor to prebind that the scheduler calls: whoever reaches that port can bind pods, and whoever is in between can pretend that they are bound. prebind refuses to listen like this unless server.insecure is set.",
			"Serve TLS (server.tls in prebind's configuration; the Helm chart does it by itself), and write https:// here.")
	}
}

// checkTLS checks the certificates, as far as they can be read.
func (c *checker) checkTLS(at, host string, tls configv1.ExtenderTLSConfig, binds bool) {
	hasCA := tls.CAFile != "" || len(tls.CAData) > 0
	switch {
	case tls.Insecure && hasCA:
		c.fault("insecure-with-ca", at+".insecure", "insecure is true, and a CA is set.",
			"kube-scheduler takes only one of them and does not start.", "Remove insecure.")
	case tls.Insecure:
		c.fault("unverified", at+".insecure", "insecure is true: the server's certificate is not verified.",
			"Whoever can answer at that address is taken for prebind, and can make the scheduler believe that pods are bound.",
			"Remove insecure, and set caFile or caData.")
	case !hasCA:
		c.fault("unverified", at, "No CA is set (caFile or caData).",
			"Without one kube-scheduler does not verify the server's certificate at all (it does not use the system's CAs): whoever can answer at that address is taken for prebind.",
			"Set caFile to the CA that signed prebind's certificate (Helm chart: ca.crt in the Secret that ends with -client), or write it into caData.")
	}
	if net.ParseIP(host) != nil && !loopback(host) && tls.ServerName == "" && !tls.Insecure && hasCA {
		c.advise("server-name", at+".serverName", "urlPrefix has the address "+host+", and serverName is not set.",
			"The server's certificate must then have that address in it. It seldom has a Service's ClusterIP; without it every call fails.",
			"Set serverName to a name that is in the certificate, such as prebind.kube-system.svc.")
	}
	if hasCA {
		c.checkCA(at, tls, binds)
	}
	c.checkClientCertificate(at, tls, binds)
}
