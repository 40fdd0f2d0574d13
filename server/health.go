package server

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/prebind/prebind/internal/fault"
)

// readyChecks are the conditions of readiness, the configured ones first.
func (s *Server) readyChecks() []Check {
	checks := append([]Check{}, s.cfg.Checks...)
	if s.certs != nil {
		checks = append(checks, Check{Name: "tls-certificate", Check: s.certs.check})
	}
	return append(checks, Check{Name: "shutdown", Check: func() error {
		if s.unready.Load() {
			return errors.New("process is shutting down")
		}
		return nil
	}})
}

// ready returns the fault to answer a verb with while the process is not
// ready.
func (s *Server) ready() error {
	if s.draining.Load() {
		return fault.New(fault.ShuttingDown, "this replica of prebind is shutting down; the scheduler tries again")
	}
	for _, check := range s.cfg.Checks {
		if err := check.Check(); err != nil {
			return fault.New(fault.NotReady, "prebind is not ready, the scheduler tries again: %s: %w", check.Name, err)
		}
	}
	return nil
}

// serveHealth answers like kube-apiserver does: "ok", or a line a check when
// one fails or when ?verbose asks for it. "ping" always passes.
func serveHealth(name string, checks []Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var list strings.Builder
		list.WriteString("[+]ping ok\n")
		code, verdict := http.StatusOK, "passed"
		for _, check := range checks {
			if err := check.Check(); err != nil {
				code, verdict = http.StatusServiceUnavailable, "failed"
				fmt.Fprintf(&list, "[-]%s failed: %v\n", check.Name, err)
			} else {
				fmt.Fprintf(&list, "[+]%s ok\n", check.Name)
			}
		}
		fmt.Fprintf(&list, "%s check %s\n", name, verdict)
		body := list.String()
		if _, verbose := r.URL.Query()["verbose"]; !verbose && code == http.StatusOK {
			body = "ok"
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-cache, private")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body)) // a caller that has gone is no news
	}
}
