package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/prebind/prebind/internal/fault"
)

// verb is one extender verb: what comes in, what is done, what goes out.
type verb[Req, Resp any] struct {
	// maxBytes limits the body.
	maxBytes int64
	// call does the work. Its error goes through fail.
	call func(ctx context.Context, id string, req *Req) (Resp, error)
	// path is the verb's own, for metrics.
	path string
	// fail is how the verb's wire type says that it failed. It never gets a
	// nil error.
	fail func(err error) Resp
}

// encoded is an answer that is JSON already.
type encoded struct {
	code int // 0: 200
	body []byte
}

// serveJSON serves a verb. Whatever happens, the answer is 200 with a complete
// Resp, or an encoded one, which may have another code.
func serveJSON[Req, Resp any](s *Server, v verb[Req, Resp]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, answer(s, v, w, r))
	}
}

// answer checks, decodes and calls.
func answer[Req, Resp any](s *Server, v verb[Req, Resp], w http.ResponseWriter, r *http.Request) (resp Resp) {
	id := requestID(w)
	defer func() {
		if p := recover(); p != nil {
			s.logPanic(p, id, r.URL.Path)
			resp = v.failed(s, fault.New(fault.Internal, "panic while serving %s, request %s: %v", r.URL.Path, id, p))
		}
	}()
	var req Req
	if err := s.admit(w, r, v.maxBytes, &req); err != nil {
		return v.failed(s, err)
	}
	resp, err := v.call(r.Context(), id, &req)
	if err != nil {
		return v.failed(s, err)
	}
	return resp
}

// failed counts the error and returns the answer for it.
func (v verb[Req, Resp]) failed(s *Server, err error) Resp {
	s.metrics.callErrors.WithLabelValues(v.path, string(fault.CodeOf(err))).Inc()
	return v.fail(err)
}

// admit decodes a request, or logs why it gets no further. It is apart from
// answer, whose frame is on the stack for as long as a call waits.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, maxBytes int64, req any) error {
	err := s.ready()
	if err == nil {
		err = s.decode(w, r, maxBytes, req)
	}
	if err != nil {
		s.cfg.Logger.Warn("request refused", zap.String("error", fault.Text(err)), zap.String("path", r.URL.Path),
			zap.String("remote", r.RemoteAddr), zap.String("requestID", requestID(w)))
	}
	return err
}

// decode reads one JSON object into req. Keys that req does not have are
// ignored, so that a newer scheduler may send more.
func (s *Server) decode(w http.ResponseWriter, r *http.Request, maxBytes int64, req any) error {
	body, err := s.readBody(w, r, maxBytes)
	if err != nil {
		// The rest of the body is not worth waiting for.
		w.Header().Set("Connection", "close")
		return fault.New(fault.InvalidRequest, "reading the body: %w", err)
	}
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return fault.New(fault.InvalidRequest, "the body is empty, a JSON object is needed")
	case bytes.Equal(body, []byte("null")): // which Unmarshal would accept
		return fault.New(fault.InvalidRequest, "the body is null, a JSON object is needed")
	}
	if err := unmarshal(body, req); err != nil {
		return fault.New(fault.InvalidRequest, "decoding the body: %w", err)
	}
	return nil
}

func unmarshal(body []byte, req any) error {
	if own, ok := req.(interface{ decodeJSON(body []byte) error }); ok {
		return own.decodeJSON(body)
	}
	return json.Unmarshal(body, req)
}

// maxGrow is how much memory a body gets on the caller's word.
const maxGrow = 1 << 20

// readBody reads the whole body, within limits of size and time.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, maxBytes int64) ([]byte, error) {
	controller := http.NewResponseController(w)
	if err := controller.SetReadDeadline(time.Now().Add(s.cfg.BodyTimeout)); err != nil {
		return nil, fmt.Errorf("setting a deadline: %w", err)
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), maxGrow)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBytes))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, fmt.Errorf("it is larger than %d bytes", tooLarge.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("it did not arrive within %s", s.cfg.BodyTimeout)
	}
	if err != nil {
		return nil, err
	}
	// From here on net/http watches the connection for the caller to hang up.
	// A deadline that is left would look like that, and end the call.
	if err := controller.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("lifting the deadline: %w", err)
	}
	return body.Bytes(), nil
}

// writeJSON encodes first and writes then, so that no half of a value is sent
// behind a good status.
func writeJSON(w http.ResponseWriter, code int, value any) {
	answer, ok := value.(encoded)
	if !ok {
		answer = encode(value)
	}
	if answer.code != 0 {
		code = answer.code
	}
	answer.body = append(answer.body, '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer.body)))
	w.WriteHeader(code)
	_, _ = w.Write(answer.body) // a caller that has gone is no news
}

func encode(value any) encoded {
	body, err := json.Marshal(value)
	if err != nil { // no type that is sent here can fail
		return encoded{http.StatusInternalServerError, []byte(`{"Error":"prebind could not encode its answer"}`)}
	}
	return encoded{body: body}
}
