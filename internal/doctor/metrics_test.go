package doctor

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const someMetrics = `# TYPE prebind_build_info gauge
prebind_build_info{version="devel"} 1
# TYPE prebind_bind_calls_in_flight gauge
prebind_bind_calls_in_flight 3
# TYPE prebind_bind_calls_total counter
prebind_bind_calls_total{outcome="bound",reason=""} 5
prebind_bind_calls_total{outcome="error",reason="NoVolume"} 2
prebind_bind_calls_total{outcome="error",reason="InvalidRequest"} 100
# TYPE prebind_last_bind_request_timestamp_seconds gauge
prebind_last_bind_request_timestamp_seconds 1.7723664e+09
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.7723628005e+09
`

func TestParseMetrics(t *testing.T) {
	got, err := parseMetrics([]byte(someMetrics))
	if err != nil {
		t.Fatal(err)
	}
	want := readings{inFlight: 3, calls: 7, last: now, started: now.Add(-time.Hour + 500*time.Millisecond)}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(readings{})); diff != "" {
		t.Errorf("readings (-want +got):\n%s", diff)
	}
	for name, text := range map[string]string{
		"another program's": "# TYPE go_goroutines gauge\ngo_goroutines 7\n",
		"no metrics":        "<html>",
		"nothing":           "",
	} {
		if got, err := parseMetrics([]byte(text)); err == nil {
			t.Errorf("%s: %+v and no error", name, got)
		}
	}
}

func TestReadURL(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(someMetrics))
	}))
	defer server.Close()
	for _, path := range []string{"", "/", "/metrics"} {
		if got, err := readURL(t.Context(), server.URL+path); err != nil || got.inFlight != 3 {
			t.Errorf("%q: %+v, %v", path, got, err)
		}
	}
	if _, err := readURL(t.Context(), server.URL+"/other"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a wrong path: %v", err)
	}
}

func TestSumUp(t *testing.T) {
	ago := func(n int) time.Time { return now.Add(-time.Duration(n) * time.Minute) }
	got := sumUp([]replica{
		{readings: readings{inFlight: 1, calls: 10, started: ago(60), last: ago(5)}},
		{readings: readings{inFlight: 2, calls: 5, started: ago(30), last: ago(7)}},
	})
	want := readings{inFlight: 3, calls: 15, started: ago(30), last: ago(5)}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(readings{})); diff != "" {
		t.Errorf("readings (-want +got):\n%s", diff)
	}
}
