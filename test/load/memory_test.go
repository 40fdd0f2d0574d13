package load_test

import (
	"bytes"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/prebind/prebind/test/controlplane"
)

// metrics returns prebind's gauges and counters without labels, and the count
// of its garbage collections as "gc".
func (f *fixture) metrics(p *controlplane.Prebind) map[string]float64 {
	f.t.Helper()
	values := map[string]float64{}
	for name, family := range f.families(p) {
		for _, m := range family.GetMetric() {
			switch {
			case name == "go_gc_duration_seconds":
				values["gc"] = float64(m.GetSummary().GetSampleCount())
			case len(m.GetLabel()) > 0:
			case m.GetGauge() != nil:
				values[name] = m.GetGauge().GetValue()
			case m.GetCounter() != nil:
				values[name] = m.GetCounter().GetValue()
			}
		}
	}
	return values
}

func (f *fixture) families(p *controlplane.Prebind) map[string]*dto.MetricFamily {
	f.t.Helper()
	code, text := f.get(p.OpsURL() + "/metrics")
	if code != http.StatusOK {
		f.t.Fatalf("/metrics of %s: status %d: %s", p.Name(), code, text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	f.must(err)
	return families
}

// refusals returns how many calls ended with a reason.
func (f *fixture) refusals(p *controlplane.Prebind, reason string) int {
	f.t.Helper()
	for _, m := range f.families(p)["prebind_bind_calls_total"].GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "reason" && label.GetValue() == reason {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	return 0
}

func (f *fixture) get(url string) (code int, text []byte) {
	f.t.Helper()
	request, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, url, nil)
	f.must(err)
	response, err := http.DefaultClient.Do(request)
	f.must(err)
	defer func() { _ = response.Body.Close() }()
	text, err = io.ReadAll(response.Body)
	f.must(err)
	return response.StatusCode, text
}

// memory is what prebind holds, in bytes.
type memory struct{ heap, stacks, resident float64 }

// per divides what has been added since before among n calls.
func (m memory) per(before memory, n int) memory {
	return memory{(m.heap - before.heap) / float64(n), (m.stacks - before.stacks) / float64(n), (m.resident - before.resident) / float64(n)}
}

// settled measures prebind after several garbage collections: one frees the
// objects, and each of them halves the stacks that have grown too large. There
// is no way to ask a process for one, so it is given garbage: bodies of
// requests that it refuses. The heap is what the last collection found alive.
func (f *fixture) settled(p *controlplane.Prebind) memory {
	f.t.Helper()
	const collections = 8
	garbage := bytes.Repeat([]byte("x"), 60<<10)
	began := f.metrics(p)["gc"]
	for {
		for range 20 {
			request, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, p.URL()+"/v1/bind", bytes.NewReader(garbage))
			f.must(err)
			response, err := http.DefaultClient.Do(request)
			f.must(err)
			_, err = io.Copy(io.Discard, response.Body)
			f.must(err)
			f.must(response.Body.Close())
		}
		now := f.metrics(p)
		if now["gc"] >= began+collections {
			return memory{now["go_gc_heap_live_bytes"], now["go_memstats_stack_inuse_bytes"], now["process_resident_memory_bytes"]}
		}
	}
}
