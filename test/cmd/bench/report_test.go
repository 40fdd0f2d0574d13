package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prebind/prebind/test/controlplane"
)

// sample is a report of two scenarios, one of whose series failed.
func sample() *report {
	full := variant{controlplane.ModeFull, direct}
	series := func(v variant, rate float64, took time.Duration) measurement {
		return measurement{
			Variant: v, Pods: 3, PodsPerSecond: rate, SchedulingMilliseconds: 100 / rate,
			Latency: summarize([]time.Duration{took, took, 2 * took}),
			CPU:     cpuTimes{"kube-apiserver": 10, "prebind": 2.5, stolen: 1},
		}
	}
	small := scenario{Name: "burst-2000", Kind: burst, World: world{50, 10}, Pods: 3, ControllerManagerQPS: fastQPS}
	large := scenario{Name: "burst-5000", Kind: burst, World: world{5000, 20}, Pods: 3, ControllerManagerQPS: fastQPS}
	return &report{
		Machine: "a machine", Processors: 2, Command: "bench all", Seed: 7,
		Scenarios: []result{
			{small, []measurement{series(stock(), 20, time.Second), series(full, 120, 50*time.Millisecond)}},
			{large, []measurement{
				{Variant: variant{controlplane.ModeFull, controller}, Error: "no pod was bound\nfor two minutes"},
				series(full, 60, 80*time.Millisecond),
			}},
		},
		Scale: &scale{
			scaleOptions: scaleOptions{World: world{5000, 20}, Claims: fullClaims},
			Runs:         []scaleRun{{ReadySeconds: 9, PeakMiB: 500}, {ReadySeconds: 21, PeakMiB: 400}},
		},
	}
}

func TestReportComparesWithStockAndGoals(t *testing.T) {
	var out strings.Builder
	sample().writeText(&out)
	text := out.String()
	for _, want := range []string{
		"full/Direct  20.0 pods/s  120.0 pods/s                  6.0 x      at least 100.0 pods/s",
		"0.50 of the rate at 50 nodes             at least 0.67 of the rate at 50 nodes  **no**",
		"100,000 volumes, 100,000 claims, peak memory", "500 MiB", "at most 600 MiB",
		"21.0 s", "at most 20 s",
		"burst-5000: burst of 3 pods, 5,000 nodes x 20 volumes, percentageOfNodesToScore 100 in mode full; requests/s: controller manager 2,000, kube-scheduler its default 50",
		"full/Controller  failed: no pod was bound\n",
		"burst-2000  full/Direct  0.0   10.0            0.0                      0.0             2.5      0.0    12.5  75 %            1.0",
		"full/Direct  3     120.0   6.00     50.0    100.0   100.0   0.00           0.83",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if err := sample().err(); err == nil || !strings.Contains(err.Error(), "measuring full/Controller of burst-5000: no pod was bound") {
		t.Errorf("error %v, want one of the failed series", err)
	}
}

func TestPublishKeepsTheRestOfThePage(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "performance.md")
	plots := filepath.Join(dir, "performance")
	if err := os.WriteFile(page, []byte("# Title\n"+beginMark+"\nold\n"+endMark+"\nlast\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := sample()
	if err := r.write(plots); err != nil {
		t.Fatal(err)
	}
	again, err := readReport(plots)
	if err != nil {
		t.Fatal(err)
	}
	var first string
	for range 2 { // writing it twice changes nothing
		if _, err := again.publish(plots, page); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(text)
		}
		if string(text) != first {
			t.Errorf("the second time the page differs:\n%s", text)
		}
	}
	if !strings.HasPrefix(first, "# Title\n"+beginMark+"\n") || !strings.HasSuffix(first, endMark+"\nlast\n") || strings.Contains(first, "old") {
		t.Errorf("what is around the marks has changed, or what is between has not:\n%s", first)
	}
	for _, plot := range []string{"latency-burst-2000.svg", "rate.svg", "scheduling.svg"} {
		if !strings.Contains(first, "](performance/"+plot+")") {
			t.Errorf("the page lacks the plot %s:\n%s", plot, first)
		}
		text, err := os.ReadFile(filepath.Join(plots, plot))
		if err != nil || !strings.Contains(string(text), ">full/Direct</text>") {
			t.Errorf("%s: %v, without the legend of full/Direct:\n%s", plot, err, text)
		}
	}
}

func TestPageWithoutMarksIsRefused(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte(beginMark), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := updatePage(page, "figures"); err == nil || !strings.Contains(err.Error(), "lacks the line") {
		t.Errorf("error %v, want one that tells what is missing", err)
	}
}

func TestCountersAddUpAndTellWrites(t *testing.T) {
	parsed, err := parseMetrics([]byte(`# TYPE apiserver_request_total counter
apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST"} 3
apiserver_request_total{code="409",resource="pods",subresource="binding",verb="POST"} 1
apiserver_request_total{code="200",resource="nodes",subresource="",verb="PATCH"} 2
apiserver_request_total{code="200",resource="nodes",subresource="",verb="LIST"} 9
# TYPE scheduler_schedule_attempts_total counter
scheduler_schedule_attempts_total{profile="a",result="scheduled"} 5
scheduler_schedule_attempts_total{profile="a",result="error"} 2
scheduler_schedule_attempts_total{profile="b",result="unschedulable"} 1
# TYPE scheduler_framework_extension_point_duration_seconds histogram
scheduler_framework_extension_point_duration_seconds_bucket{extension_point="Filter",le="+Inf"} 4
scheduler_framework_extension_point_duration_seconds_sum{extension_point="Filter"} 0.5
scheduler_framework_extension_point_duration_seconds_count{extension_point="Filter"} 4
scheduler_framework_extension_point_duration_seconds_bucket{extension_point="Score",le="+Inf"} 4
scheduler_framework_extension_point_duration_seconds_sum{extension_point="Score"} 7
scheduler_framework_extension_point_duration_seconds_count{extension_point="Score"} 4
`))
	if err != nil {
		t.Fatal(err)
	}
	writes := parsed.apiWrites()
	if len(writes) != 2 || writes["POST pods/binding"] != 4 || writes["PATCH nodes"] != 2 {
		t.Errorf("writes %v, want 4 times POST pods/binding and twice PATCH nodes", writes)
	}
	if got, want := parsed.schedulerCosts(), (schedulerCosts{filterSeconds: 0.5, failedAttempts: 3}); got != want {
		t.Errorf("costs %+v, want %+v", got, want)
	}
}

func TestStatTimeReadsBehindTheName(t *testing.T) {
	const stat = "42 (a name (x) y) S 1 42 42 0 -1 4194560 100 0 0 0 250 30 7 8 20 0 5 0"
	if got := statTime(stat); got != 2800*time.Millisecond {
		t.Errorf("time %s, want 2.8s", got)
	}
}
