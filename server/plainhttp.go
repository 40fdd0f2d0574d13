package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/prebind/prebind/internal/fault"
)

const plainHTTPText = "plain HTTP was sent to prebind's HTTPS port; in the scheduler's extender entry set urlPrefix to https://... and enableHTTPS to true"

// looksLikeHTTP tells whether the bytes that are no TLS record begin a request.
func looksLikeHTTP(header tls.RecordHeaderError) bool {
	if header.Conn == nil {
		return false
	}
	switch string(header.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO", "CONNE", "TRACE", "PRI *":
		return true
	}
	return false
}

// answerPlainHTTP refuses a request that came without TLS; begin is what was
// read of it. A bind call gets the one kind of answer of which kube-scheduler
// shows the text, as with every other failure.
func answerPlainHTTP(conn net.Conn, begin []byte) {
	if conn.SetDeadline(time.Now().Add(handshakeTimeout)) != nil {
		return
	}
	limited := io.LimitReader(io.MultiReader(bytes.NewReader(begin), conn), maxHeaderBytes)
	code, kind, text := http.StatusBadRequest, "text/plain; charset=utf-8", plainHTTPText+"\n"
	req, err := http.ReadRequest(bufio.NewReader(limited))
	if err == nil && req.Method == http.MethodPost && req.URL.Path == pathBind {
		code, kind = http.StatusOK, "application/json"
		result := extenderv1.ExtenderBindingResult{Error: fault.Text(fault.New(fault.ClientRefused, plainHTTPText))}
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
