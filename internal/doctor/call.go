package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/prebind/prebind/internal/fault"
)

// emptyCall is a body that prebind must refuse. It is not {}, since that would
// reach the binder and count as a call of the scheduler's.
const emptyCall = "null"

// call sends a bind call that names no pod. It harms nobody.
func (w *way) call(ctx context.Context) bool {
	target := w.target.URL.JoinPath("bind")
	if strings.Trim(w.target.URL.Path, "/") == "" {
		target = w.target.URL.JoinPath("v1", "bind")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), strings.NewReader(emptyCall))
	if err != nil {
		w.fault(err.Error(), notBound, "Correct the URL.")
		return false
	}
	request.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{
		TLSClientConfig: w.tlsConfig(), ForceAttemptHTTP2: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dial(ctx, w.addresses[0]) },
	}
	client := &http.Client{
		Transport: transport, Timeout: w.exam.StepTimeout / 2,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	start := time.Now()
	response, err := client.Do(request)
	if err != nil {
		w.findings = append(w.findings, w.explainCall(err)...)
		return false
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		w.fault("the answer breaks off: "+err.Error(), notBound, "See prebind's log.")
		return false
	}
	findings := judgeAnswer(target.String(), response, body)
	if w.toldOfClient() {
		findings = slices.DeleteFunc(findings, func(f Finding) bool { return strings.HasPrefix(f.What, callerRefused) })
	}
	w.findings = append(w.findings, findings...)
	w.summary += fmt.Sprintf(", %s, %s in %d ms", response.Proto, response.Status, time.Since(start).Milliseconds())
	if len(findings) == 0 {
		w.summary += ", refuses an empty call as it should"
	}
	return true
}

// explainCall tells why there was no answer. What the certificates have told
// already is not told again.
func (w *way) explainCall(err error) []Finding {
	if refusal, ok := explainAlert(err, w.pair != nil); ok {
		if w.toldOfClient() {
			return nil
		}
		return []Finding{refusal}
	}
	finding := Finding{Severity: Fault, What: "no answer: " + err.Error(), Why: notBound, Mend: "See prebind's log; a program in between may have hung up."}
	if isTimeout(err) {
		finding.What = "there is a connection, but no answer in time"
		finding.Mend = "Another program listens on this port, or prebind's process is stopped; see its /livez."
	}
	return []Finding{finding}
}

// toldOfClient tells whether the client certificate is known to be bad.
func (w *way) toldOfClient() bool {
	return slices.ContainsFunc(w.findings, func(f Finding) bool {
		return f.Severity == Fault && strings.Contains(f.What, "client certificate")
	})
}

// callerRefused begins what is said of a caller whom prebind does not accept.
const callerRefused = "prebind refuses this caller: "

// judgeAnswer looks at the answer to a bind call that names no pod. target is
// where it was sent.
func judgeAnswer(target string, response *http.Response, body []byte) []Finding {
	finding := Finding{Severity: Fault, Why: "Only status 200 counts for kube-scheduler: " + lowerEvery(notBound)}
	text := brief(body)
	switch code := response.StatusCode; {
	case code == http.StatusOK:
		return judgeResult(body)
	case strings.Contains(text, "HTTP request to an HTTPS server"):
		finding.What = "this port speaks TLS, but the URL begins with http://"
		finding.Mend = "Say https:// in the URL and in urlPrefix, with enableHTTPS: true and tlsConfig."
	case code == http.StatusNotFound && strings.Contains(text, "no such path; here is"):
		finding.What = fmt.Sprintf("prebind has no path %s (it answers: %s)", target, text)
		finding.Mend = "Let the URL and the entry's urlPrefix end with /v1, and bindVerb be \"bind\". If it speaks of /metrics, this is the ops port: take the port of server.address."
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed:
		finding.What = fmt.Sprintf("%s answers %s: something other than prebind, or another path (%s)", target, response.Status, text)
		finding.Mend = "See which program listens there; the path of a bind call is /v1/bind."
	case code >= 300 && code < 400:
		finding.What = fmt.Sprintf("the answer is a redirect to %s: a proxy stands in between", response.Header.Get("Location"))
		finding.Mend = "Let the scheduler call prebind's Service or address itself."
	case code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		finding.What = fmt.Sprintf("the answer is %s, which prebind never gives to a bind call: a proxy or service mesh in between does not reach it (%s)", response.Status, text)
		finding.Mend = "Let the scheduler call prebind's Service or address itself, and see that a replica is ready."
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		finding.What = fmt.Sprintf("the answer is %s: somebody in between wants a login, which kube-scheduler cannot give (%s)", response.Status, text)
		finding.Mend = "Take the endpoint out of the proxy or mesh; prebind knows its callers by client certificates."
	default:
		finding.What = fmt.Sprintf("the answer is %s: %s", response.Status, text)
		finding.Mend = "See prebind's log; if it has no line of this request, something in between has answered."
	}
	return []Finding{finding}
}

// judgeResult looks at an answer with status 200.
func judgeResult(body []byte) []Finding {
	var result extenderv1.ExtenderBindingResult
	finding := Finding{Severity: Fault, Why: notBound}
	if err := json.Unmarshal(body, &result); err != nil {
		finding.What = "status 200, but the body is not what prebind answers: " + brief(body)
		finding.Mend = "Something else answers here, such as a proxy's login page. Let the URL lead to prebind itself."
		return []Finding{finding}
	}
	code, detail, _ := strings.Cut(result.Error, ": ")
	switch fault.Code(code) { // a call that names no pod can get no others
	case fault.InvalidRequest:
		return nil
	case fault.ClientRefused:
		finding.What = callerRefused + detail
		finding.Mend = "Call it with https:// and with a certificate whose authority is in server.tls.clientCAFile and whose CN or a SAN is in server.tls.allowedClientNames."
	case fault.NotReady:
		finding.What = "prebind is not ready: " + result.Error
		finding.Mend = "If it has just started, wait. Else a right is missing (see rbac) or the API server is away; /readyz?verbose on the ops port names the check that fails."
	case fault.ShuttingDown:
		finding.What = "this replica is shutting down: " + result.Error
		finding.Mend = "Run doctor again. If that stays, readiness does not take the replica out of the Service."
	case "":
		finding.What = "an empty bind call was answered with success: this is not prebind"
		finding.Why = "The scheduler believes such an answer without a check: the pod stays Pending and its node's resources are taken until the scheduler restarts."
		finding.Mend = "Take the URL out of the scheduler's configuration at once, and see which program listens there."
	default:
		finding.What = "an unexpected answer to an empty bind call: " + result.Error
		finding.Mend = "See prebind's log for the request."
	}
	return []Finding{finding}
}

// brief is the beginning of a body, in one line.
func brief(body []byte) string {
	text := strings.Join(strings.Fields(string(body)), " ")
	if text == "" {
		return "an empty body"
	}
	if runes := []rune(text); len(runes) > 160 {
		text = string(runes[:160]) + "..."
	}
	return text
}

func lowerEvery(text string) string { return strings.ToLower(text[:1]) + text[1:] }
