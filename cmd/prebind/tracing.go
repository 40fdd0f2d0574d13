package main

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/prebind/prebind/config"
	"github.com/prebind/prebind/internal/tracing"
)

// lastSpans bounds the sending of what is left when the program stops.
const lastSpans = 3 * time.Second

// tracer is what of tracing is wired in: nothing, if it is off.
type tracer struct {
	calls    func(http.Handler) http.Handler
	requests func(http.RoundTripper) http.RoundTripper
	stop     func() // sends the last spans
}

func newTracer(cfg config.Tracing, version string, logger *zap.Logger) (tracer, error) {
	if cfg.Endpoint == "" {
		return tracer{stop: func() {}}, nil
	}
	logger = logger.Named("tracing")
	t, err := tracing.New(tracing.Config{
		Endpoint: cfg.Endpoint, SamplingRatePerMillion: cfg.SamplingRatePerMillion, Logger: logger, Version: version,
	})
	if err != nil {
		return tracer{}, err
	}
	return tracer{calls: t.Handler, requests: t.Transport, stop: func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
		defer cancel()
		if err := t.Shutdown(ctx); err != nil {
			logger.Warn("stopping", zap.Error(err))
		}
	}}, nil
}
