// Package ctxlog carries the logger of one bind call in its context, so that
// a debug line written deep in package volumes still names request, pod and
// node.
package ctxlog

import (
	"context"

	"go.uber.org/zap"
)

type key struct{}

// With returns a context that carries logger.
func With(ctx context.Context, logger *zap.Logger) context.Context {
	return context.WithValue(ctx, key{}, logger)
}

// From returns the context's logger, or one that discards everything.
func From(ctx context.Context) *zap.Logger {
	if logger, ok := ctx.Value(key{}).(*zap.Logger); ok {
		return logger
	}
	return zap.NewNop()
}
