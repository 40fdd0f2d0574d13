package binder

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/logging"
	"github.com/prebind/prebind/internal/tracing"
)

// Stages without plugins; they are timed like the others.
const (
	stageAdmit     Stage = "admit"
	stageUnreserve Stage = "unreserve"
)

// Outcomes of a bind call, in the log and in metrics.
const (
	outcomeBound   = "bound"
	outcomeAlready = "alreadyBound" // it was on the node before the call
	outcomeError   = "error"
)

// report is what one call leaves behind: its log line and its metrics.
type report struct {
	req     Request
	start   time.Time
	stages  []StageTime
	claims  []string
	already bool
	joined  bool // the result is that of another call
}

// add counts the time to the stage, which may have run before.
func (r *report) add(stage Stage, took time.Duration) {
	for i := range r.stages {
		if r.stages[i].Stage == stage {
			r.stages[i].Took += took
			return
		}
	}
	r.stages = append(r.stages, StageTime{stage, took})
}

// MarshalLogObject writes the stage times in milliseconds.
func (r *report) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	for _, s := range r.stages {
		enc.AddFloat64(string(s.Stage), milliseconds(s.Took))
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// trace ends the span of the cycle.
func (r *report) trace(span tracing.Span, err error) {
	span.String("k8s.namespace.name", r.req.Namespace)
	span.String("k8s.pod.name", r.req.Name)
	span.String("k8s.pod.uid", string(r.req.UID))
	span.String("k8s.node.name", r.req.Node)
	span.String("prebind.request_id", r.req.ID)
	span.Strings("prebind.claims", r.claims)
	span.End(err)
}

// finish writes the one log line of the call and counts it.
func (b *Binder) finish(r *report, err error) {
	took := time.Since(r.start)
	outcome, code := outcomeBound, fault.CodeOf(err)
	switch {
	case err != nil:
		outcome = outcomeError
	case r.already:
		outcome = outcomeAlready
	}
	b.metrics.calls.WithLabelValues(outcome, string(code)).Inc()
	b.metrics.callDuration.WithLabelValues(outcome).Observe(took.Seconds())
	b.remember(Ended{
		Request: r.req, Began: r.start, Took: took, Outcome: outcome, Reason: code, Error: fault.Text(err),
		Claims: r.claims[:min(len(r.claims), maxEndedClaims)], Joined: r.joined, Stages: r.stages,
	})

	fields := []zap.Field{
		zap.String("outcome", outcome),
		logging.Pod(r.req.Namespace, r.req.Name),
		zap.String("uid", string(r.req.UID)),
		zap.String("node", r.req.Node),
		zap.Strings("claims", r.claims),
		zap.Float64("durationMs", milliseconds(took)),
		zap.Object("stagesMs", r),
		zap.String("requestID", r.req.ID),
	}
	if r.joined {
		fields = append(fields, zap.Bool("joined", true))
	}
	if err == nil {
		b.logger.Info("bind", fields...)
		return
	}
	b.logger.Warn("bind", append(fields, zap.String("reason", string(code)), zap.String("error", err.Error()))...)
}
