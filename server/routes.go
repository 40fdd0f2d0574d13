package server

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// Paths of the two listeners.
const (
	pathBind       = "/v1/bind"
	pathFilter     = "/v1/filter"
	pathPrioritize = "/v1/prioritize"
	pathLivez      = "/livez"
	pathReadyz     = "/readyz"
	pathMetrics    = "/metrics"
	pathDebug      = "/debug/prebind"
)

// requestIDHeader carries the id of a request, both ways.
const requestIDHeader = "X-Request-Id"

// verbRoutes is what kube-scheduler sees.
func (s *Server) verbRoutes() http.Handler {
	r := s.newRouter("POST " + strings.Join([]string{pathBind, pathFilter, pathPrioritize}, ", "))
	var verbs chi.Router = r
	if s.cfg.Trace != nil { // one that does nothing would be on the stack of each call that waits
		verbs = r.With(s.cfg.Trace)
	}
	verbs.Post(pathBind, serveJSON(s, s.bindVerb()))
	verbs.Post(pathFilter, serveJSON(s, s.filterVerb()))
	verbs.Post(pathPrioritize, serveJSON(s, s.prioritizeVerb()))
	return r
}

// opsRoutes is what kubelet, Prometheus and people see.
func (s *Server) opsRoutes() http.Handler {
	r := s.newRouter("GET " + strings.Join([]string{pathLivez, pathReadyz, pathMetrics, pathDebug}, ", "))
	r.Use(s.recoverPanic)
	r.Get(pathLivez, serveHealth("livez", nil))
	r.Get(pathReadyz, serveHealth("readyz", s.readyChecks()))
	r.Method(http.MethodGet, pathMetrics, promhttp.HandlerFor(s.cfg.Registry, promhttp.HandlerOpts{
		ErrorLog: zap.NewStdLog(s.cfg.Logger.Named("metrics")),
		Registry: s.cfg.Registry,
	}))
	r.Get(pathDebug, s.serveDebug)
	return r
}

// newRouter returns a router with what both listeners share. serves is for
// those who ask for something else.
func (s *Server) newRouter(serves string) *chi.Mux {
	r := chi.NewRouter()
	r.Use(s.observe)
	r.NotFound(func(w http.ResponseWriter, req *http.Request) {
		s.refuse(w, req, http.StatusNotFound, "no such path; here is "+serves)
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if r.Match(chi.NewRouteContext(), method, req.URL.Path) {
				w.Header().Add("Allow", method)
			}
		}
		s.refuse(w, req, http.StatusMethodNotAllowed, "method not allowed; here is "+serves)
	})
	return r
}

// refuse answers a request that reached no handler. The body has the shape of
// the extender's results, though kube-scheduler does not read it.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, code int, text string) {
	s.cfg.Logger.Warn("request refused", zap.Int("code", code), zap.String("method", r.Method),
		zap.String("path", r.URL.Path), zap.String("remote", r.RemoteAddr), zap.String("requestID", requestID(w)))
	writeJSON(w, code, struct{ Error string }{text})
}

// observe gives each request an id and counts it.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !saneID(id) {
			id = rand.Text()[:12]
		}
		w.Header().Set(requestIDHeader, id)
		if s.unready.Load() {
			// The next call then has a connection of its own, to another replica
			// if there is one, and is not lost with this one when it is closed.
			w.Header().Set("Connection", "close")
		}

		s.metrics.inFlight.Inc()
		defer s.metrics.inFlight.Dec()
		recorder := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		began := time.Now()
		defer func() {
			path := chi.RouteContext(r.Context()).RoutePattern()
			if path == pathFilter || path == pathPrioritize {
				s.metrics.nodesDuration.WithLabelValues(path).Observe(time.Since(began).Seconds())
			}
			if path == "" { // no route: 404, 405
				path = "other"
			}
			s.metrics.requests.WithLabelValues(path, strconv.Itoa(recorder.Status())).Inc()
			if r.Context().Err() != nil {
				s.metrics.late.WithLabelValues(path).Inc()
			}
		}()
		next.ServeHTTP(recorder, r)
	})
}

// requestID returns the id that observe gave to the request.
func requestID(w http.ResponseWriter) string { return w.Header().Get(requestIDHeader) }

// saneID tells whether a caller's id may go into logs.
func saneID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// recoverPanic answers 500 for a handler that panicked before it wrote. The
// verbs recover by themselves, to answer 200; they go without it also because
// the stack of a call that waits is then just small enough, under a quarter of
// 16 KiB, for the runtime to halve it.
func (s *Server) recoverPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler: // net/http's own way to hang up
				panic(p)
			default:
				s.logPanic(p, requestID(w), r.URL.Path)
				writeJSON(w, http.StatusInternalServerError, struct{ Error string }{"prebind has a fault; its log tells more"})
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// logPanic must be called by the deferred function that recovered.
func (s *Server) logPanic(p any, id, path string) {
	s.cfg.Logger.Error("panic in a handler", zap.Any("panic", p), zap.String("path", path),
		zap.String("requestID", id), zap.Stack("stack"))
}
