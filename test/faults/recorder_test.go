package faults_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// recorder is the Prometheus of a test. It scrapes the fixture's stand as often as it
// is told to, and on its own clock each scrape is a minute after the one before, so
// that what takes an hour until an alert fires takes as long as sixty scrapes. What a
// sample tells of times is put on that clock, too.
type recorder struct {
	*fixture
	start   time.Time   // of the own clock
	taken   []time.Time // when the scrapes were made
	scrapes bytes.Buffer
}

// record returns a recorder that has seen the stand once.
func record(f *fixture) *recorder {
	r := &recorder{fixture: f, start: time.Now()}
	r.minutes(1)
	return r
}

// minutes scrapes once for each minute.
func (r *recorder) minutes(n int) {
	r.t.Helper()
	for range n {
		r.taken = append(r.taken, time.Now())
		families, err := r.scrape().Gather()
		r.must(err)
		var text strings.Builder
		for _, family := range families {
			r.restamp(family)
			_, err := expfmt.MetricFamilyToText(&text, family)
			r.must(err)
		}
		r.keep(text.String())
	}
}

// silence records minutes in which the stand does not answer.
func (r *recorder) silence(minutes int) {
	r.t.Helper()
	for range minutes {
		r.taken = append(r.taken, time.Now())
		if _, err := r.scrape().Gather(); err == nil {
			r.t.Fatal("the scrape was answered")
		}
		r.keep("")
	}
}

func (r *recorder) keep(text string) {
	r.t.Helper()
	r.must(json.NewEncoder(&r.scrapes).Encode(map[string]any{
		"at": r.minute(len(r.taken) - 1), "text": text,
		"target": map[string]string{"job": "prebind", "namespace": "kube-system", "pod": r.on.name},
	}))
}

// minute is the time of a scrape on the own clock.
func (r *recorder) minute(scrape int) time.Time {
	return r.start.Add(time.Duration(scrape) * time.Minute)
}

// onClock puts a real time on the own clock: between two scrapes it is as far in the
// minute, and elsewhere as long before the first or after the last.
func (r *recorder) onClock(at time.Time) time.Time {
	last := len(r.taken) - 1
	next := slices.IndexFunc(r.taken, at.Before)
	switch next {
	case 0:
		return r.start.Add(at.Sub(r.taken[0]))
	case -1:
		return r.minute(last).Add(at.Sub(r.taken[last]))
	}
	since, whole := at.Sub(r.taken[next-1]), r.taken[next].Sub(r.taken[next-1])
	return r.minute(next - 1).Add(time.Duration(float64(time.Minute) * since.Seconds() / whole.Seconds()))
}

// restamp puts the gauges that tell a time, or a time since, on the own clock. 0 means
// none.
func (r *recorder) restamp(family *dto.MetricFamily) {
	now := len(r.taken) - 1
	for _, metric := range family.GetMetric() {
		value := metric.GetGauge().GetValue()
		if value == 0 {
			continue
		}
		switch family.GetName() {
		case "prebind_oldest_wait_seconds":
			since := r.onClock(r.taken[now].Add(-seconds(value)))
			metric.Gauge.Value = new(r.minute(now).Sub(since).Seconds())
		case "prebind_last_bind_request_timestamp_seconds", "prebind_tls_certificate_expiration_timestamp_seconds":
			metric.Gauge.Value = new(float64(r.onClock(time.UnixMilli(int64(value*1000))).UnixMilli()) / 1000)
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// fired returns which of the alerts in the file fire, sorted, and logs what they say.
// program is test/monitoring/cmd/alerts.
func (r *recorder) fired(program, file string) []string {
	r.t.Helper()
	cmd := exec.CommandContext(r.ctx, program, file)
	cmd.Stdin = &r.scrapes
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("%v: %s", err, stderr.String())
	}
	var names []string
	for lines := json.NewDecoder(bytes.NewReader(out)); ; {
		var one struct {
			At          time.Time         `json:"at"`
			Alert       string            `json:"alert"`
			Annotations map[string]string `json:"annotations"`
		}
		if err := lines.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			r.t.Fatal(err)
		}
		r.t.Logf("%s after %s: %s", one.Alert, one.At.Sub(r.start).Round(time.Second), one.Annotations["summary"])
		names = append(names, one.Alert)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// The clock of the samples is that of the scrapes, wherever a time lies.
func TestRecorderClock(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	r := &recorder{start: start, taken: []time.Time{start.Add(time.Second), start.Add(2 * time.Second), start.Add(4 * time.Second)}}
	tests := map[string]struct{ real, want time.Duration }{
		"before the first":    {0, -time.Second},
		"the first":           {time.Second, 0},
		"between two":         {1500 * time.Millisecond, 30 * time.Second},
		"between two others":  {3 * time.Second, 90 * time.Second},
		"the last":            {4 * time.Second, 2 * time.Minute},
		"long after the last": {4*time.Second + time.Hour, 2*time.Minute + time.Hour},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := r.onClock(start.Add(tc.real)).Sub(start); got != tc.want {
				t.Errorf("%s is %s on the clock, want %s", tc.real, got, tc.want)
			}
		})
	}
}
