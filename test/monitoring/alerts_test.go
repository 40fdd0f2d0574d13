package monitoring_test

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"

	"github.com/prebind/prebind/test/monitoring"
)

// horizon is for how long each alert is evaluated, once a minute.
const horizon = 2 * time.Hour

// scenario is what happens to the series of an alert, a sample a minute.
type scenario struct {
	series []string
	// The alert has to fire between after and before. Zero:
	// never.
	after, before time.Duration
}

// target are the labels of the replica in the series.
const target = `namespace="kube-system",pod="prebind-1"`

func minutes(from, to int) (after, before time.Duration) {
	return time.Duration(from) * time.Minute, time.Duration(to) * time.Minute
}

// bad fires between two minutes.
func bad(from, to int, series ...string) scenario {
	after, before := minutes(from, to)
	return scenario{series, after, before}
}

// good does not fire.
func good(series ...string) scenario { return scenario{series: series} }

// metricSeries writes a series: name, more labels, values.
func metricSeries(name, more, values string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf("%s{%s%s} %s", name, target, more, values)
}

// histogramSeries writes buckets in which all observations are at most le, and more
// than below.
func histogramSeries(name, more, below, le string) []string {
	return []string{
		metricSeries(name+"_bucket", more+`,le="`+below+`"`, "0x120"),
		metricSeries(name+"_bucket", more+`,le="`+le+`"`, "0+60x120"),
		metricSeries(name+"_bucket", more+`,le="+Inf"`, "0+60x120"),
	}
}

// uncalled writes what PrebindNoBindCalls looks at: the time of the last call, and how
// many pods wait. The replica is there as long as pods are counted.
func uncalled(last, pods string) []string {
	there := regexp.MustCompile(`\d+x`).ReplaceAllString(pods, "1x")
	return []string{
		metricSeries("prebind_last_bind_request_timestamp_seconds", "", last),
		metricSeries("prebind_cache_objects", `resource="pods"`, pods),
		metricSeries("prebind_build_info", "", there),
	}
}

func scenarios() map[string]map[string]scenario {
	calls, writes := "prebind_bind_calls_total", "prebind_api_writes_total"
	limiter := []string{
		metricSeries("rest_client_rate_limiter_duration_seconds_sum", `verb="GET"`, "0+50x120"),
		metricSeries("rest_client_rate_limiter_duration_seconds_count", `verb="GET"`, "0+100x120"),
	}
	return map[string]map[string]scenario{
		"PrebindDown": {
			"nothing is scraped": bad(5, 5, `up{job="other"} 1x120`),
			"it goes away":       bad(69, 71, metricSeries("prebind_build_info", "", "1x60 _x60")),
			"it is there":        good(metricSeries("prebind_build_info", "", "1x120")),
			"it restarts":        good(metricSeries("prebind_build_info", "", "1x60 _x3 1x60")),
		},
		"PrebindCacheNotSynced": {
			"a right is missing": bad(5, 5, metricSeries("prebind_cache_synced", `resource="pods"`, "0x120")),
			"a start":            good(metricSeries("prebind_cache_synced", `resource="pods"`, "0x3 1x117")),
		},
		"PrebindNoBindCalls": {
			"not wired":        bad(70, 72, uncalled("0x120", "3x120")...),
			"no pods":          good(uncalled("0x120", "0x120")...),
			"pods come and go": good(uncalled("0x120", "3x29 0 3x30 0 3x30 0 3x20")...),
			"calls":            good(uncalled("0+60x120", "3x120")...),
			"a start":          good(uncalled("_x60 0x60", "_x60 3x60")...),
			"a restart after calls": good(append(uncalled("0+60x60 _x60", "3x120"),
				`prebind_last_bind_request_timestamp_seconds{namespace="kube-system",pod="prebind-2"} _x60 0x60`)...),
		},
		"PrebindBindErrors": {
			"most fail":    bad(11, 15, metricSeries(calls, `outcome="error",reason="NoVolume"`, "0+6x120"), metricSeries(calls, `outcome="bound"`, "0+4x120")),
			"few of many":  good(metricSeries(calls, `outcome="error",reason="NoVolume"`, "0+6x120"), metricSeries(calls, `outcome="bound"`, "0+94x120")),
			"all of three": good(metricSeries(calls, `outcome="error",reason="NoVolume"`, "0x10 3x110"), metricSeries(calls, `outcome="bound"`, "0x120")),
		},
		"PrebindFaults": {
			"one panic":       bad(31, 32, metricSeries(calls, `outcome="error",reason="Internal"`, "0x30 1x90")),
			"a right is gone": bad(31, 32, metricSeries(calls, `outcome="error",reason="Forbidden"`, "0x30 5x90")),
			"others":          good(metricSeries(calls, `outcome="error",reason="Internal"`, "0x120"), metricSeries(calls, `outcome="error",reason="NoVolume"`, "0+9x120")),
		},
		"PrebindTooManyCalls": {
			"calls are refused": bad(6, 7, metricSeries(calls, `outcome="error",reason="TooManyCalls"`, "0+3x120")),
			"none is":           good(metricSeries(calls, `outcome="error",reason="TooManyCalls"`, "7x120")),
		},
		"PrebindAnswersLate": {
			"each call":   bad(2, 10, metricSeries("prebind_late_answers_total", `path="/v1/bind"`, "0+1x120")),
			"filter only": good(metricSeries("prebind_late_answers_total", `path="/v1/filter"`, "0+9x120")),
			"a restart":   good(metricSeries("prebind_late_answers_total", `path="/v1/bind"`, "0x30 2x90")),
		},
		"PrebindBindsSlow": {
			"seconds":      bad(10, 13, histogramSeries("prebind_stage_duration_seconds", `stage="bind",result="success"`, "1", "2.5")...),
			"milliseconds": good(histogramSeries("prebind_stage_duration_seconds", `stage="bind",result="success"`, "0.005", "0.01")...),
			"other stages": good(histogramSeries("prebind_stage_duration_seconds", `stage="preBind",result="success"`, "60", "120")...),
			"no calls":     good(metricSeries("prebind_stage_duration_seconds_bucket", `stage="bind",result="success",le="+Inf"`, "0x120")),
		},
		"PrebindFilterSlow": {
			"a quarter of a second": bad(10, 13, histogramSeries("prebind_nodes_call_duration_seconds", `path="/v1/filter"`, "0.128", "0.256")...),
			"milliseconds":          good(histogramSeries("prebind_nodes_call_duration_seconds", `path="/v1/filter"`, "0.002", "0.004")...),
		},
		"PrebindVolumeWaitLong": {
			"for ever":    bad(8, 9, metricSeries("prebind_oldest_wait_seconds", "", "0+60x120")),
			"many, short": good(metricSeries("prebind_oldest_wait_seconds", "", "200x120")),
			"just over":   good(metricSeries("prebind_oldest_wait_seconds", "", "0x10 301 0x100")),
		},
		"PrebindReservationsStuck": {
			"at rest":    bad(5, 5, metricSeries("prebind_volume_reservations", "", "2x120"), metricSeries("prebind_bind_calls_in_flight", "", "0x120")),
			"under load": good(metricSeries("prebind_volume_reservations", "", "2x120"), metricSeries("prebind_bind_calls_in_flight", "", "0 0 1 5 0 0 0 7 0 0 0 1 3x110")),
			"none":       good(metricSeries("prebind_volume_reservations", "", "0x120"), metricSeries("prebind_bind_calls_in_flight", "", "0x120")),
		},
		"PrebindAPIWritesFail": {
			"throttled": bad(10, 13, metricSeries(writes, `object="persistentvolumes",result="throttled"`, "0+2x120"), metricSeries(writes, `object="persistentvolumes",result="success"`, "0+8x120")),
			"conflicts": good(metricSeries(writes, `object="persistentvolumes",result="conflict"`, "0+5x120"), metricSeries(writes, `object="persistentvolumes",result="success"`, "0+5x120")),
		},
		"PrebindRateLimited": {
			"half a second":   bad(10, 13, append(limiter, metricSeries("prebind_build_info", "", "1x120"))...),
			"another program": good(limiter...),
		},
		"PrebindCertificateExpires": {
			"in a day":    bad(10, 10, metricSeries("prebind_tls_certificate_expiration_timestamp_seconds", "", "100000x120")),
			"in a month":  good(metricSeries("prebind_tls_certificate_expiration_timestamp_seconds", "", "2600000x120")),
			"without TLS": good(metricSeries("prebind_build_info", "", "1x120")),
		},
		"PrebindCallersRefused": {
			"the scheduler": bad(11, 12, metricSeries("prebind_tls_client_refusals_total", `reason="expired"`, "0+4x120")),
			"a scan":        good(metricSeries("prebind_tls_client_refusals_total", `reason="plain-http"`, "0x30 5x90")),
		},
	}
}

// Each alert fires when it has to, and no sooner, and does not when it must not; what
// it says names what it is about.
func TestAlerts(t *testing.T) {
	all := scenarios()
	for _, r := range readRules(t) {
		cases := all[r.Alert]
		delete(all, r.Alert)
		t.Run(r.Alert, func(t *testing.T) {
			firing, silent := 0, 0
			for name, s := range cases {
				t.Run(name, func(t *testing.T) { s.check(t, r) })
				if s.before > 0 {
					firing++
				} else {
					silent++
				}
			}
			if firing == 0 || silent == 0 {
				t.Errorf("it fires in %d scenarios and does not in %d", firing, silent)
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Errorf("there are scenarios for %s, which is no alert", name)
	}
}

func (s scenario) check(t *testing.T, r rulefmt.Rule) {
	storage := promqltest.LoadedStorage(t, "load 1m\n  "+strings.Join(s.series, "\n  ")+"\n")
	defer func() { _ = storage.Close() }()
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, promqltest.DefaultMaxSamplesPerQuery)
	alert, err := monitoring.NewAlert(r)
	if err != nil {
		t.Fatal(err)
	}
	first := time.Duration(-1)
	for at := time.Duration(0); at <= horizon; at += time.Minute {
		if _, err := alert.Eval(t.Context(), 0, time.Unix(0, 0).Add(at), rules.EngineQueryFunc(engine, storage), &url.URL{}, 0); err != nil {
			t.Fatal(err)
		}
		if firing := monitoring.Firing(alert); len(firing) > 0 {
			first = at
			checkTexts(t, r, firing)
			break
		}
	}
	switch {
	case s.before == 0 && first >= 0:
		t.Errorf("it fires after %s", first)
	case s.before > 0 && (first < s.after || first > s.before):
		t.Errorf("it fires after %s (negative: never), want %s to %s", first, s.after, s.before)
	}
}

// checkTexts looks at the annotations of an alert that fires: each label that they
// name is there.
func checkTexts(t *testing.T, r rulefmt.Rule, firing []*rules.Alert) {
	t.Helper()
	for _, active := range firing {
		for _, name := range []string{"summary", "description"} {
			if text := active.Annotations.Get(name); text == "" || strings.Contains(text, "{{") || strings.Contains(text, "<") {
				t.Errorf("%s is %q", name, text)
			}
			for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.Annotations[name], -1) {
				if active.Labels.Get(label[1]) == "" {
					t.Errorf("%s: the alert has no label %s: %s", name, label[1], active.Labels)
				}
			}
		}
	}
}
