package server

import "net/http"

// debugOff is answered in place of the state, for whoever asks in vain.
const debugOff = "GET /debug/prebind is off; set server.debug: true in prebind's configuration and restart it"

// serveDebug answers with the state of the process, which names pods and claims:
// hence only where it was asked for.
func (s *Server) serveDebug(w http.ResponseWriter, _ *http.Request) {
	if s.cfg.Debug == nil {
		writeJSON(w, http.StatusNotFound, struct{ Error string }{debugOff})
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	writeJSON(w, http.StatusOK, s.cfg.Debug())
}
