package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/prebind/prebind/internal/fault"
)

// readings are what the metrics of one prebind, or of several, say.
type readings struct {
	inFlight int       // bind calls running now
	calls    int       // bind calls that have ended, but for malformed ones
	last     time.Time // when the last bind call came; zero: none since started
	started  time.Time
}

// Names of metrics.
const (
	metricBuild    = "prebind_build_info"
	metricInFlight = "prebind_bind_calls_in_flight"
	metricCalls    = "prebind_bind_calls_total"
	metricLast     = "prebind_last_bind_request_timestamp_seconds"
	metricStarted  = "process_start_time_seconds"
)

// parseMetrics reads Prometheus' text format.
func parseMetrics(text []byte) (readings, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return readings{}, fmt.Errorf("reading metrics: %w", err)
	}
	if families[metricBuild] == nil || families[metricInFlight] == nil {
		return readings{}, errors.New("the answer has no metrics of prebind; something else listens there")
	}
	got := readings{
		inFlight: int(gauge(families[metricInFlight])),
		last:     seconds(gauge(families[metricLast])),
		started:  seconds(gauge(families[metricStarted])),
	}
	for _, series := range families[metricCalls].GetMetric() {
		if labelOf(series, "reason") != string(fault.InvalidRequest) {
			got.calls += int(series.GetCounter().GetValue())
		}
	}
	return got, nil
}

func gauge(family *dto.MetricFamily) float64 {
	if len(family.GetMetric()) == 0 {
		return 0
	}
	return family.GetMetric()[0].GetGauge().GetValue()
}

func labelOf(series *dto.Metric, name string) string {
	for _, label := range series.GetLabel() {
		if label.GetName() == name {
			return label.GetValue()
		}
	}
	return ""
}

// seconds reads a time in seconds since 1970; 0 is no time.
func seconds(value float64) time.Time {
	if value == 0 {
		return time.Time{}
	}
	whole, part := math.Modf(value)
	return time.Unix(int64(whole), int64(part*1e9))
}
