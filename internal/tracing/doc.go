// Package tracing makes OpenTelemetry spans of bind calls, their stages and their
// requests to the API server, and sends them to a collector.
//
// It owns two promises. A span costs a call nothing but its own making: spans are
// sent in the background, in batches, and what cannot be sent is left out and
// logged now and then. And where nobody traces, nothing is made: [Start] looks for
// a span in the context and finds none.
//
//	t, err := tracing.New(tracing.Config{Endpoint: "http://127.0.0.1:4318", Logger: logger})
//	defer t.Shutdown(ctx)
//	handler = t.Handler(handler)       // a span for each request, under the caller's
//	transport = t.Transport(transport) // and for each that is sent on its behalf
//
//	ctx, span := tracing.Start(ctx, "reserve")
//	err := reserve(ctx)
//	span.End(err)
//
// A [Tracing] and a [Span] are safe for parallel use.
package tracing
