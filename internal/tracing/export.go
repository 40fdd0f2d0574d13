package tracing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

const (
	// tellEvery is how often it is logged at most that spans cannot be sent.
	tellEvery = time.Minute
	// maxAnswer is how much of a collector's answer is read, so that the connection
	// can be used again.
	maxAnswer = 64 << 10
)

// uploader sends spans by OTLP/HTTP. OpenTelemetry's own does the same, but brings
// gRPC with it.
type uploader struct {
	url    string
	client *http.Client
}

var _ otlptrace.Client = (*uploader)(nil)

func newUploader(endpoint string) (*uploader, error) {
	to, err := url.JoinPath(endpoint, "v1", "traces")
	if err != nil {
		return nil, fmt.Errorf("using %q as the URL of a collector: %w", endpoint, err)
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	return &uploader{url: to, client: &http.Client{Transport: transport}}, nil
}

// Start implements otlptrace.Client.
func (*uploader) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (u *uploader) Stop(context.Context) error {
	u.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. What is not taken is not sent again: the
// next batch is due soon.
func (u *uploader) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// On the wire the same as the ExportTraceServiceRequest of OTLP.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encoding spans: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := u.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", u.url, resp.Status)
	}
	return nil
}

// quiet logs now and then what goes wrong, and hides it from OpenTelemetry, which
// would print each error.
type quiet struct {
	sdktrace.SpanExporter
	logger *zap.Logger

	mu   sync.Mutex
	told time.Time
	lost int // spans since then
}

// ExportSpans implements sdktrace.SpanExporter.
func (q *quiet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := q.SpanExporter.ExportSpans(ctx, spans); err != nil {
		q.tell(len(spans), err)
	}
	return nil
}

func (q *quiet) tell(lost int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost += lost
	if now := time.Now(); now.Sub(q.told) >= tellEvery {
		q.logger.Warn("spans could not be sent, and are lost", zap.Int("spans", q.lost), zap.Error(err))
		q.told, q.lost = now, 0
	}
}
