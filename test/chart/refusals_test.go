package chart_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// checkRefusals calls prebind in every way that must not work.
func checkRefusals(t *testing.T, r *release, prebind *container) {
	t.Helper()
	theirs := r.secret("prebind-ca")
	release := authorityOf(t, theirs["ca.crt"], theirs["ca.key"])
	for _, tc := range []struct {
		name, scheme string
		client       map[string][]byte
		reason       string
	}{
		{"no certificate", "https", nil, "no-certificate"},
		{"a certificate of another CA", "https", newAuthority(t).issue(t, "prebind-scheduler-client"), "unknown-authority"},
		{"another name of the same CA", "https", release.issue(t, "somebody"), "name-not-allowed"},
		{"prebind's own certificate", "https", r.secret("prebind-tls"), "name-not-allowed"},
		{"plain HTTP", "http", nil, "plain-http"},
	} {
		before := refusalsCounted(t, prebind, tc.reason)
		if answer, err := r.call(t, tc.scheme, tc.client); err == nil && !strings.HasPrefix(answer, "ClientRefused: ") {
			t.Errorf("%s: the call is answered %q, want a refusal", tc.name, answer)
		}
		eventually(t, tc.name+" is counted as "+tc.reason, func(context.Context) error {
			if after := refusalsCounted(t, prebind, tc.reason); after <= before {
				return fmt.Errorf("%v refusals, as before", after)
			}
			return nil
		})
	}
	answer, err := r.call(t, "https", r.secret("prebind-client"))
	if err != nil || !strings.HasPrefix(answer, "InvalidRequest: ") {
		t.Errorf("the scheduler's certificate: the empty call is answered %q, %v, want InvalidRequest", answer, err)
	}
}

// call sends an empty bind call, as a client with the certificate of secret,
// and returns the answer's Error.
func (r *release) call(t *testing.T, scheme string, secret map[string][]byte) (string, error) {
	t.Helper()
	config := &tls.Config{ServerName: "prebind." + r.namespace + ".svc", RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(r.secret("prebind-ca")["ca.crt"])
	if secret != nil {
		pair, err := tls.X509KeyPair(secret["tls.crt"], secret["tls.key"])
		must(t, err)
		// Sent even if the server names other authorities.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: patience}
	url := fmt.Sprintf("%s://%s:8443/v1/bind", scheme, r.ip())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewBufferString("{}"))
	must(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return "", err
	}
	var result extenderv1.ExtenderBindingResult
	if err := json.Unmarshal(text, &result); err != nil {
		return "", fmt.Errorf("status %s: %s", response.Status, text)
	}
	return result.Error, nil
}

// refusalsCounted reads prebind's metric.
func refusalsCounted(t *testing.T, prebind *container, reason string) float64 {
	t.Helper()
	text, err := fetch(t.Context(), http.DefaultClient, "http://"+prebind.ip+":8889/metrics")
	must(t, err)
	match := regexp.MustCompile(`(?m)^prebind_tls_client_refusals_total\{reason="` + reason + `"\} (\S+)$`).FindStringSubmatch(text)
	if match == nil {
		return 0
	}
	count, err := strconv.ParseFloat(match[1], 64)
	must(t, err)
	return count
}

// serves waits until prebind presents the certificate that its Secret has now.
func serves(t *testing.T, r *release) {
	t.Helper()
	want := r.certificates().server.SerialNumber
	eventually(t, "prebind presents its new certificate", func(ctx context.Context) error {
		dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // it is the serial number that counts
		connection, err := dialer.DialContext(ctx, "tcp", r.ip()+":8443")
		if err != nil {
			return err
		}
		defer func() { _ = connection.Close() }()
		if got := connection.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber; got.Cmp(want) != 0 {
			return fmt.Errorf("it presents %s, the Secret has %s", got, want)
		}
		return nil
	})
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	pair tls.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "another"}, key)
	must(t, err)
	return &authority{cert: ca, pair: tls.Certificate{PrivateKey: key}}
}

// authorityOf is the authority whose certificate and key a Secret has.
func authorityOf(t *testing.T, certPEM, keyPEM []byte) *authority {
	t.Helper()
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	must(t, err)
	return &authority{cert: pair.Leaf, pair: pair}
}

// issue signs a certificate for clients and servers, in the form of a Secret.
func (a *authority) issue(t *testing.T, name string, dnsNames ...string) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: dnsNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.pair.PrivateKey)
	must(t, err)
	signed, err := x509.ParseCertificate(der)
	must(t, err)
	certPEM, err := cert.EncodeCertificates(signed)
	must(t, err)
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	must(t, err)
	caPEM, err := cert.EncodeCertificates(a.cert)
	must(t, err)
	return map[string][]byte{"tls.crt": certPEM, "tls.key": keyPEM, "ca.crt": caPEM}
}
