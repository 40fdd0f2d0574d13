package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prebind/prebind/test/internal/console"
)

// Report is what a run found out.
type Report struct {
	Seed             uint64
	Pods, Impossible int // pods that can, and cannot, be bound
	Claims, Volumes  int // claims of pods, and volumes made in advance

	Kills         map[string]int // by program
	Ended         map[string]int // programs that ended by themselves, as some do without the API server
	DeletedPods   int
	DeletedClaims int
	Requests      int            // that went by the proxies
	Faults        map[string]int // by what was done to the request
	WatchesCut    int
	WatchesHeld   int

	BindCalls map[string]int // by outcome or, for errors, code
	Retries   int            // calls for a pod that was tried before

	Witnessed int // pods whose claims were looked at as soon as they were bound

	Trouble time.Duration // how long it was
	Settled time.Duration // from its end until all were bound

	Checks []Check
	// Logs is the folder with the logs and the objects of a run that failed.
	Logs string
}

// OK tells whether all checks hold.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return len(c.Failures) > 0 })
}

// Write prints the report as tables.
func (r *Report) Write(w io.Writer) {
	rows := [][]string{
		{"seed", strconv.FormatUint(r.Seed, 10)},
		{"pods", fmt.Sprintf("%d that can be bound, %d that cannot", r.Pods, r.Impossible)},
		{"claims", fmt.Sprintf("%d, and %d volumes made in advance", r.Claims, r.Volumes)},
		{"killed", list(r.Kills)},
		{"ended alone", list(r.Ended)},
		{"deleted", fmt.Sprintf("%d pods, %d claims with them", r.DeletedPods, r.DeletedClaims)},
		{"requests", fmt.Sprintf("%d, %d of them disturbed (%.1f %%)", r.Requests, sum(r.Faults), 100*float64(sum(r.Faults))/float64(max(1, r.Requests)))},
		{"faults", list(r.Faults)},
		{"watches", fmt.Sprintf("%d cut, %d times held up", r.WatchesCut, r.WatchesHeld)},
		{"bind calls", list(r.BindCalls)},
		{"retries", fmt.Sprintf("%d calls for a pod that was tried before", r.Retries)},
		{"witnessed", fmt.Sprintf("%d pods, as soon as they were bound", r.Witnessed)},
		{"trouble", seconds(r.Trouble)},
		{"all bound", seconds(r.Settled) + " after its end"},
	}
	r.lines(w, console.Table([]string{"RUN", ""}, rows))
	rows = nil
	for _, check := range r.Checks {
		verdict := "ok"
		if len(check.Failures) > 0 {
			verdict = fmt.Sprintf("FAILED (%d)", len(check.Failures))
		}
		rows = append(rows, []string{check.Name, verdict})
	}
	r.lines(w, append([]string{""}, console.Table([]string{"CHECK", "RESULT"}, rows)...))
	for _, check := range r.Checks {
		for _, failure := range check.Failures {
			r.lines(w, []string{"FAILED: " + check.Name + ": " + failure})
		}
	}
}

func (r *Report) lines(w io.Writer, lines []string) {
	_, _ = fmt.Fprintln(w, strings.Join(lines, "\n")) // a report that cannot be printed is no news
}

// list prints counts, the largest first.
func list(counts map[string]int) string {
	if len(counts) == 0 {
		return "-"
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	var texts []string
	for _, name := range names {
		texts = append(texts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(texts, ", ")
}

func sum(counts map[string]int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
