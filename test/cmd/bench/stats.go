package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prebind/prebind/test/internal/console"
)

// milliseconds prints as JSON with the precision that is worth anything.
type milliseconds float64

func inMilliseconds(d time.Duration) milliseconds {
	return milliseconds(math.Round(float64(d)/float64(time.Millisecond)*10) / 10)
}

// summary is what the samples of one scheduler come to.
type summary struct {
	P50     milliseconds   `json:"p50Milliseconds"`
	P90     milliseconds   `json:"p90Milliseconds"`
	P99     milliseconds   `json:"p99Milliseconds"`
	Max     milliseconds   `json:"maxMilliseconds"`
	Samples []milliseconds `json:"samplesMilliseconds"` // in the order in which they were taken
}

func summarize(samples []time.Duration) summary {
	s := summary{
		P50: percentile(samples, 50), P90: percentile(samples, 90), P99: percentile(samples, 99), Max: percentile(samples, 100),
	}
	for _, d := range samples {
		s.Samples = append(s.Samples, inMilliseconds(d))
	}
	return s
}

// percentile is the smallest sample that is at least as large as p percent of
// them (nearest rank).
func percentile(samples []time.Duration, p int) milliseconds {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := (len(sorted)*p + 99) / 100
	return inMilliseconds(sorted[max(rank, 1)-1])
}

// ratios tell how many times less prebind needs.
type ratios struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// report is the outcome of `bench latency`.
type report struct {
	Machine string  `json:"machine"`
	Setup   string  `json:"setup"`
	Stock   summary `json:"stock"`
	Prebind summary `json:"prebind"`
	Ratios  ratios  `json:"ratios"`
	// Stages are the medians of the stages of prebind's binding cycle, by its log.
	Stages map[string]milliseconds `json:"prebindStagesMilliseconds"`
}

func newReport(machine, setup string, stock, prebind []time.Duration) report {
	r := report{Machine: machine, Setup: setup, Stock: summarize(stock), Prebind: summarize(prebind)}
	ratio := func(a, b milliseconds) float64 { return math.Round(float64(a)/float64(b)*10) / 10 }
	r.Ratios = ratios{
		P50: ratio(r.Stock.P50, r.Prebind.P50), P90: ratio(r.Stock.P90, r.Prebind.P90),
		P99: ratio(r.Stock.P99, r.Prebind.P99), Max: ratio(r.Stock.Max, r.Prebind.Max),
	}
	return r
}

// medianStages reads the stage times of bind calls from prebind's log.
func medianStages(lines []map[string]any) map[string]milliseconds {
	samples := map[string][]time.Duration{}
	for _, line := range lines {
		stages, _ := line["stagesMs"].(map[string]any)
		for stage, value := range stages {
			if ms, ok := value.(float64); ok {
				samples[stage] = append(samples[stage], time.Duration(ms*float64(time.Millisecond)))
			}
		}
	}
	medians := map[string]milliseconds{}
	for stage, durations := range samples {
		medians[stage] = percentile(durations, 50)
	}
	return medians
}

func (r report) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func (r report) writeText(w io.Writer) {
	row := func(name string, s summary) []string {
		cells := []string{name}
		for _, ms := range []milliseconds{s.P50, s.P90, s.P99, s.Max} {
			cells = append(cells, fmt.Sprintf("%.1f ms", ms))
		}
		return cells
	}
	ratio := []string{"stock / prebind"}
	for _, x := range []float64{r.Ratios.P50, r.Ratios.P90, r.Ratios.P99, r.Ratios.Max} {
		ratio = append(ratio, fmt.Sprintf("%.1f x", x))
	}
	_, _ = fmt.Fprintf(w, "\npod created -> bound; %s\n%s\n\n", r.Setup, r.Machine)
	header := []string{"", "p50", "p90", "p99", "max"}
	for _, line := range console.Table(header, [][]string{row("stock scheduler", r.Stock), row("prebind", r.Prebind), ratio}) {
		_, _ = fmt.Fprintln(w, line)
	}
	_, _ = fmt.Fprintf(w, "\nmedians inside prebind:")
	for _, stage := range slices.Sorted(maps.Keys(r.Stages)) {
		if ms := r.Stages[stage]; ms > 0 {
			_, _ = fmt.Fprintf(w, "  %s %.1f ms", stage, ms)
		}
	}
	_, _ = fmt.Fprintln(w)
}
