package main

import (
	"math"
	"slices"
	"time"
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

// failedBinds counts the bind calls in prebind's log that failed, by reason.
func failedBinds(lines []map[string]any) map[string]int {
	counts := map[string]int{}
	for _, line := range lines {
		if reason, ok := line["reason"].(string); ok && line["msg"] == "bind" {
			counts[reason]++
		}
	}
	return counts
}
