package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/prebind/prebind/internal/fault"
)

// errPlainHTTP tells what to do, because it ends in the pod's event.
var errPlainHTTP = errors.New("plain HTTP was sent to prebind's HTTPS port; in the scheduler's extender entry set urlPrefix to https://... and enableHTTPS to true")

// looksLikeHTTP tells whether the first five bytes are those of a request.
func looksLikeHTTP(begin []byte) bool {
	switch string(begin) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO", "CONNE", "TRACE", "PRI *":
		return true
	}
	return false
}

// answerPlainHTTP refuses a request that came without TLS. A bind call gets the
// one kind of answer of which kube-scheduler shows the text, as with every other
// failure.
func answerPlainHTTP(conn net.Conn) {
	if conn.SetDeadline(time.Now().Add(handshakeTimeout)) != nil {
		return
	}
	code, kind, text := http.StatusBadRequest, "text/plain; charset=utf-8", errPlainHTTP.Error()+"\n"
	req, err := http.ReadRequest(bufio.NewReader(io.LimitReader(conn, maxHeaderBytes)))
	if err == nil && req.Method == http.MethodPost && req.URL.Path == pathBind {
		code, kind = http.StatusOK, "application/json"
		result := extenderv1.ExtenderBindingResult{Error: fault.Text(fault.New(fault.ClientRefused, "%w", errPlainHTTP))}
		body, _ := json.Marshal(result) // a struct of one string
		text = string(body) + "\n"
	}
	resp := http.Response{
		StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Close: true, Request: req,
		Header:        http.Header{"Content-Type": {kind}},
		ContentLength: int64(len(text)), Body: io.NopCloser(strings.NewReader(text)),
	}
	_ = resp.Write(conn) // a caller that has gone is no news
}
