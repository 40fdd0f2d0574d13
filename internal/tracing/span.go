package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/prebind/prebind/internal/fault"
)

// scope names this program's spans among those of the libraries it uses.
const scope = "github.com/prebind/prebind"

// Span is one step of a call. The zero Span, of a step that nobody traces, does
// nothing.
type Span struct{ span trace.Span }

// Start begins a step within that of ctx. Without one there it returns ctx as it is.
// End must be called.
func Start(ctx context.Context, name string) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	ctx, span := parent.TracerProvider().Tracer(scope).Start(ctx, name)
	return ctx, Span{span}
}

// Current returns the step of ctx.
func Current(ctx context.Context) Span {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		return Span{span}
	}
	return Span{}
}

// Carry returns the context with the step of from: for work that goes on when from
// has ended.
func Carry(ctx, from context.Context) context.Context {
	span := trace.SpanFromContext(from)
	if !span.SpanContext().IsValid() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, span)
}

// String notes something about the step.
func (s Span) String(key, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// Strings notes something with several values.
func (s Span) Strings(key string, values []string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.StringSlice(key, values))
	}
}

// Event notes that something happened now.
func (s Span) Event(name string) {
	if s.span != nil {
		s.span.AddEvent(name)
	}
}

// End ends the step. An error marks it as failed.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
		s.span.SetAttributes(attribute.String("error.type", string(fault.CodeOf(err))))
	}
	s.span.End()
}
