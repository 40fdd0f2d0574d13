package tracing

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// exportTimeout bounds the sending of one batch of spans.
const exportTimeout = 10 * time.Second

// Config is what New needs.
type Config struct {
	// Endpoint is the URL of a collector's OTLP/HTTP receiver, such as
	// "http://127.0.0.1:4318"; "/v1/traces" is appended. Required.
	Endpoint string
	// SamplingRatePerMillion is how many of a million calls are traced whose caller
	// does not say whether they are; a caller that does is heeded.
	SamplingRatePerMillion int
	// Logger is told when spans cannot be sent. Required.
	Logger *zap.Logger
	// Version is that of the program.
	Version string
}

// Tracing makes spans and sends them.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// New starts to send spans in the background. Nothing is asked of the collector, which
// may be away. The error is about Endpoint.
func New(cfg Config) (*Tracing, error) {
	client, err := newUploader(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(context.Background(), client)
	if err != nil {
		return nil, fmt.Errorf("starting the exporter of spans: %w", err)
	}
	sampler := sdktrace.NeverSample()
	if cfg.SamplingRatePerMillion > 0 {
		sampler = sdktrace.TraceIDRatioBased(float64(cfg.SamplingRatePerMillion) / 1e6)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sampler)),
		sdktrace.WithResource(describe(cfg.Version)),
		sdktrace.WithBatcher(&quiet{SpanExporter: exporter, logger: cfg.Logger}, sdktrace.WithExportTimeout(exportTimeout)),
	)
	return &Tracing{provider: provider, tracer: provider.Tracer(scope)}, nil
}

// describe tells whose spans they are. In a pod the host's name is the pod's.
func describe(version string) *resource.Resource {
	about := []attribute.KeyValue{attribute.String("service.name", "prebind"), attribute.String("service.version", version)}
	if host, err := os.Hostname(); err == nil {
		about = append(about, attribute.String("service.instance.id", host))
	}
	return resource.NewSchemaless(about...)
}

// Shutdown sends what has not been sent, and stops. No span is made afterwards. The
// error is that of ctx, if that ends first.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("sending the last spans: %w", err)
	}
	return nil
}
