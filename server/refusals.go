package server

import (
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Why a client is refused: the label "reason".
const (
	reasonNoCertificate    = "no-certificate"
	reasonUnknownAuthority = "unknown-authority"
	reasonExpired          = "expired"
	reasonName             = "name-not-allowed"
	reasonPlainHTTP        = "plain-http"
	reasonProtocol         = "protocol" // all else
)

const (
	// refusalPause is for how long one client's refusals for one reason are
	// only counted once a line has told of them.
	refusalPause = time.Minute
	// maxRefused bounds how many clients are remembered for that.
	maxRefused = 1024
)

// refusals counts refused clients, and logs them without letting a client, or
// thousands, fill the log.
type refusals struct {
	counter *prometheus.CounterVec
	logger  *zap.Logger

	mu     sync.Mutex
	recent map[refusedClient]*refused
	// forgotten counts refusals without a line whose client is not in recent.
	forgotten int
}

type refusedClient struct{ host, reason string }

type refused struct {
	logged  time.Time
	leftOut int
}

func newRefusals(counter *prometheus.CounterVec, logger *zap.Logger) *refusals {
	all := []string{reasonNoCertificate, reasonUnknownAuthority, reasonExpired, reasonName, reasonPlainHTTP, reasonProtocol}
	for _, reason := range all { // so that each series starts at 0
		counter.WithLabelValues(reason)
	}
	return &refusals{counter: counter, logger: logger, recent: map[refusedClient]*refused{}}
}

// add counts a refusal and logs it if its turn has come.
func (r *refusals) add(reason, remote string, err error, fields ...zap.Field) {
	r.counter.WithLabelValues(reason).Inc()
	host, _, splitErr := net.SplitHostPort(remote)
	if splitErr != nil {
		host = remote
	}
	leftOut, forgotten, tell := r.turn(refusedClient{host, reason}, time.Now())
	if !tell {
		return
	}
	fields = append(fields, zap.String("reason", reason), zap.String("remote", remote), zap.Error(err))
	if leftOut > 0 {
		fields = append(fields, zap.Int("leftOut", leftOut))
	}
	if forgotten > 0 {
		fields = append(fields, zap.Int("leftOutOfOthers", forgotten))
	}
	r.logger.Warn("client refused", fields...)
}

// turn tells whether to log, and what was left out since the last line.
func (r *refusals) turn(client refusedClient, now time.Time) (leftOut, forgotten int, tell bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.recent[client]
	if seen != nil && now.Sub(seen.logged) < refusalPause {
		seen.leftOut++
		return 0, 0, false
	}
	if seen == nil {
		if len(r.recent) >= maxRefused {
			r.forget(now)
		}
		if len(r.recent) >= maxRefused {
			r.forgotten++
			return 0, 0, false
		}
		seen = &refused{}
		r.recent[client] = seen
	}
	leftOut, forgotten = seen.leftOut, r.forgotten
	seen.logged, seen.leftOut, r.forgotten = now, 0, 0
	return leftOut, forgotten, true
}

// forget makes room.
func (r *refusals) forget(now time.Time) {
	for client, seen := range r.recent {
		if now.Sub(seen.logged) >= refusalPause {
			r.forgotten += seen.leftOut
			delete(r.recent, client)
		}
	}
}

// verifyReason classifies why a client certificate is not good.
func verifyReason(err error) string {
	if errors.Is(err, errNoCertificate) {
		return reasonNoCertificate
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return reasonUnknownAuthority
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return reasonExpired // or not valid yet
	}
	return reasonProtocol
}
