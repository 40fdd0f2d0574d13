package tracing

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Names of attributes, as in OpenTelemetry's semantic conventions.
const (
	keyMethod = attribute.Key("http.request.method")
	keyStatus = attribute.Key("http.response.status_code")
	keyPath   = attribute.Key("url.path")
)

// Handler makes a span of each request, within that of the caller if the request
// names one. It is for paths that are few.
func (t *Tracing) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.tracer.Start(ctx, r.Method+" "+r.URL.Path, trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(keyMethod.String(r.Method), keyPath.String(r.URL.Path)))
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Transport makes a span of each request that is sent within one, and names it to
// the API server, which may trace too. Others, such as watches, pass.
func (t *Tracing) Transport(next http.RoundTripper) http.RoundTripper {
	return &transport{next: next, tracer: t.tracer}
}

type transport struct {
	next   http.RoundTripper
	tracer trace.Tracer
}

// RoundTrip implements http.RoundTripper. The span ends when the header of the answer
// has come.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !trace.SpanContextFromContext(r.Context()).IsValid() {
		return t.next.RoundTrip(r)
	}
	ctx, span := t.tracer.Start(r.Context(), r.Method+" "+objects(r.URL.Path), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(keyMethod.String(r.Method), keyPath.String(r.URL.Path)))
	defer span.End()
	r = r.Clone(ctx)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	resp, err := t.next.RoundTrip(r)
	switch {
	case err != nil:
		span.SetStatus(codes.Error, err.Error())
	default:
		span.SetAttributes(keyStatus.Int(resp.StatusCode))
		if resp.StatusCode >= http.StatusBadRequest {
			span.SetStatus(codes.Error, resp.Status)
		}
	}
	return resp, err
}

// WrappedRoundTripper lets client-go find the transport beneath.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// objects is what a path of the API is about, without names: "pods/binding" of
// /api/v1/namespaces/shop/pods/db-0/binding.
func objects(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch { // the group and version
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return "other"
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}
