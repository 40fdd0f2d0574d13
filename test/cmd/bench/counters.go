package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/prebind/prebind/test/controlplane"
)

// families are the metrics of one program at one moment.
type families map[string]*dto.MetricFamily

// counters are the metrics of all programs at one moment.
type counters struct {
	apiServer, scheduler, prebind families
}

func (l *lab) counters(ctx context.Context) (counters, error) {
	var c counters
	text, err := l.cp.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return c, fmt.Errorf("reading kube-apiserver's metrics: %w", err)
	}
	if c.apiServer, err = parseMetrics(text); err != nil {
		return c, err
	}
	if text, err = l.cp.SchedulerMetrics(ctx); err != nil {
		return c, err
	}
	if c.scheduler, err = parseMetrics(text); err != nil || l.prebind == nil {
		return c, err
	}
	if text, err = l.prebind.Metrics(ctx); err != nil {
		return c, err
	}
	c.prebind, err = parseMetrics(text)
	return c, err
}

func parseMetrics(text []byte) (families, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	found, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("parsing metrics: %w", err)
	}
	return found, nil
}

// labels are those of one series of a metric.
type labels map[string]string

// sum adds up the series that pick picks: values, of a histogram its sum.
func (f families) sum(name string, pick func(labels) bool) float64 {
	total := 0.0
	for _, m := range f[name].GetMetric() {
		if l := labelsOf(m); pick == nil || pick(l) {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return total
}

func labelsOf(m *dto.Metric) labels {
	l := labels{}
	for _, pair := range m.GetLabel() {
		l[pair.GetName()] = pair.GetValue()
	}
	return l
}

// apiWrites tells how many requests that write there were, by verb and resource,
// as in "PATCH pods/status".
func (f families) apiWrites() map[string]float64 {
	writes := map[string]float64{}
	for _, m := range f["apiserver_request_total"].GetMetric() {
		l := labelsOf(m)
		switch l["verb"] {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
			writes[strings.TrimSuffix(l["verb"]+" "+l["resource"]+"/"+l["subresource"], "/")] += m.GetCounter().GetValue()
		}
	}
	return writes
}

// schedulerCosts are what the scheduler has spent.
type schedulerCosts struct {
	filterSeconds, algorithmSeconds, failedAttempts float64
}

func (f families) schedulerCosts() schedulerCosts {
	return schedulerCosts{
		filterSeconds: f.sum("scheduler_framework_extension_point_duration_seconds", func(l labels) bool {
			return l["extension_point"] == "Filter"
		}),
		algorithmSeconds: f.sum("scheduler_scheduling_algorithm_duration_seconds", nil),
		failedAttempts: f.sum("scheduler_schedule_attempts_total", func(l labels) bool {
			return l["result"] != "scheduled"
		}),
	}
}

// quantiles of how long calls took, in milliseconds. Each is the upper bound of a
// bucket; the last one, 2 s, also stands for all that is longer.
type quantiles struct {
	Calls uint64  `json:"calls"`
	P50   float64 `json:"p50Milliseconds"`
	P90   float64 `json:"p90Milliseconds"`
	P99   float64 `json:"p99Milliseconds"`
}

// nodesCalls are the calls of /v1/filter and /v1/prioritize since earlier.
func (f families) nodesCalls(earlier families) map[string]quantiles {
	const name = "prebind_nodes_call_duration_seconds"
	before := map[string]*dto.Histogram{}
	for _, m := range earlier[name].GetMetric() {
		before[labelsOf(m)["path"]] = m.GetHistogram()
	}
	calls := map[string]quantiles{}
	for _, m := range f[name].GetMetric() {
		path := labelsOf(m)["path"]
		now, was := m.GetHistogram(), before[path]
		total := now.GetSampleCount() - was.GetSampleCount()
		if total == 0 {
			continue
		}
		bound := func(share float64) float64 {
			most := 0.0
			for i, bucket := range now.GetBucket() {
				count := bucket.GetCumulativeCount()
				if i < len(was.GetBucket()) {
					count -= was.GetBucket()[i].GetCumulativeCount()
				}
				if most = bucket.GetUpperBound() * 1000; float64(count) >= share*float64(total) {
					break
				}
			}
			return most
		}
		calls[path] = quantiles{Calls: total, P50: bound(0.5), P90: bound(0.9), P99: bound(0.99)}
	}
	return calls
}

// memory of a process in MiB: now, and at most since it started. Both are 0
// where the kernel does not tell it.
func memory(p *controlplane.Process) (resident, peak float64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, 0
	}
	return statusMiB(string(text), "VmRSS:"), statusMiB(string(text), "VmHWM:")
}

func statusMiB(status, key string) float64 {
	for line := range strings.Lines(status) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == key {
			kib, err := strconv.ParseFloat(fields[1], 64)
			if err == nil {
				return kib / 1024
			}
		}
	}
	return 0
}
