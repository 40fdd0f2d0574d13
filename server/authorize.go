package server

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/prebind/prebind/internal/fault"
)

// authorize stands before everything that a listener with a client CA serves,
// and lets nobody by whose certificate is not good now. A refused call is
// answered 200 with the Error set, like every failure, because kube-scheduler
// shows no other text in the pod's event; what is no call is 403. The body is
// not read. The connection ends with the answer, so that the caller makes a new
// one with the certificate that it has by then: over HTTP/2 net/http sends
// GOAWAY, and what is under way goes on.
func (s *Server) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.admitCaller(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// admitCaller is apart from authorize, whose frame is on the stack for as long as
// a call waits.
func (s *Server) admitCaller(w http.ResponseWriter, r *http.Request) bool {
	reason, end, refused := reasonNoCertificate, true, error(fault.New(fault.ClientRefused, "%w", errNoCertificate))
	who, ok := r.Context().Value(callerKey{}).(*caller)
	if ok {
		reason, end, refused = s.callers.check(who)
	}
	if end {
		w.Header().Set("Connection", "close")
	}
	if refused == nil {
		return true
	}
	var fields []zap.Field
	if ok && len(who.certs) > 0 {
		fields = append(fields, zap.Strings("clientNames", namesOf(who.certs[0])))
	}
	s.refusals.add(reason, r.RemoteAddr, refused, fields...)
	code := http.StatusForbidden
	if r.Method == http.MethodPost {
		code = http.StatusOK
	}
	writeJSON(w, code, struct{ Error string }{fault.Text(refused)})
	return false
}
