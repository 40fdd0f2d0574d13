package status

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// maxEnded is how many of the calls that have ended are printed.
const maxEnded = 10

// WriteText prints the instances for people, in tables.
func WriteText(w io.Writer, all []Status) error {
	var out strings.Builder
	for i := range all {
		if i > 0 {
			out.WriteString("\n\n")
		}
		all[i].writeText(&out)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (s *Status) writeText(out *strings.Builder) {
	fmt.Fprintf(out, "prebind %s on %s (%s), up %s, at %s\n", clean(s.Instance.Version), clean(s.Instance.Host), clean(s.Instance.Name),
		span(s.Time.Sub(s.Instance.Started)), s.Time.UTC().Format(time.RFC3339))
	s.writeCaches(out)
	s.writeRunning(out)
	s.writeReservations(out)
	s.writeFailed(out)
	s.writeBound(out)
}

func (s *Status) writeCaches(out *strings.Builder) {
	var synced, unsynced []string
	for _, cache := range s.Caches {
		text := fmt.Sprintf("%s %d", clean(cache.Name), cache.Objects)
		if cache.Synced {
			synced = append(synced, text)
		} else {
			unsynced = append(unsynced, text)
		}
	}
	if len(unsynced) > 0 {
		out.WriteString("NOT READY, no pod is bound: caches not synced yet: " + strings.Join(unsynced, ", ") + "\n")
	}
	if len(synced) > 0 {
		out.WriteString("caches synced: " + strings.Join(synced, ", ") + "\n")
	}
}

func (s *Status) writeRunning(out *strings.Builder) {
	t := newTable("AGE", "STAGE", "POD", "NODE", "CLAIM", "WAITS FOR")
	for i := range s.Running {
		call := &s.Running[i]
		first := []string{span(s.Time.Sub(call.Since)), call.Stage, call.Pod, call.Node}
		if len(call.Claims) == 0 {
			t.row(first...)
		}
		for _, claim := range call.Claims {
			name := claim.Claim
			if claim.Class != "" {
				name += " (class " + claim.Class + ")"
			}
			t.row(append(first, name, claim.WaitsFor)...)
			first = make([]string, len(first))
		}
		if more := call.ClaimsTotal - len(call.Claims); more > 0 {
			t.row(append(first, fmt.Sprintf("and %d more", more))...)
		}
	}
	t.write(out, "RUNNING", s.RunningTotal)
	andMore(out, s.RunningTotal-len(s.Running))
}

func (s *Status) writeReservations(out *strings.Builder) {
	t := newTable("AGE", "CLAIM", "NODE", "VOLUME")
	for _, r := range s.Reservations {
		volume := r.Volume
		if volume == "" {
			volume = "to be provisioned"
		}
		if r.Written {
			volume += " (written, the watch lags)"
		}
		t.row(span(s.Time.Sub(r.Since)), r.Claim, r.Node, volume)
	}
	t.write(out, "RESERVED", s.ReservationsTotal)
	andMore(out, s.ReservationsTotal-len(s.Reservations))
}

// writeFailed has one row for all calls of a pod that failed for the same reason:
// the scheduler tries again every few seconds.
func (s *Status) writeFailed(out *strings.Builder) {
	type failure struct{ pod, node, text string }
	var newest []*Ended
	times := map[failure]int{}
	of := func(call *Ended) failure { return failure{call.Pod, call.Node, call.Error} }
	for i := range s.Failed {
		call := &s.Failed[i]
		if times[of(call)]++; times[of(call)] == 1 {
			newest = append(newest, call)
		}
	}
	t, more := newTable("ENDED", "TIMES", "POD", "NODE", "TOOK", "STAGES"), len(s.Failed)
	for _, call := range newest[:min(len(newest), maxEnded)] {
		row := s.row(call)
		t.row(append([]string{row[0], strconv.Itoa(times[of(call)])}, row[1:]...)...)
		t.below(call.Error)
		more -= times[of(call)]
	}
	t.write(out, "LAST FAILED", len(s.Failed))
	andMore(out, more)
}

func (s *Status) writeBound(out *strings.Builder) {
	t := newTable("ENDED", "POD", "NODE", "TOOK", "STAGES")
	for i := range s.Bound[:min(len(s.Bound), maxEnded)] {
		t.row(s.row(&s.Bound[i])...)
	}
	t.write(out, "LAST BOUND", len(s.Bound))
	andMore(out, len(s.Bound)-maxEnded)
}

func (s *Status) row(call *Ended) []string {
	took, note := milliseconds(call.DurationMS), ""
	if call.Joined {
		note = " (joined another call)"
	}
	return []string{span(s.Time.Sub(call.Began.Add(took)).Truncate(100*time.Millisecond)) + " ago", call.Pod, call.Node, span(took), call.stages() + note}
}

// stages names those that took any time.
func (e *Ended) stages() string {
	var texts []string
	for _, stage := range e.Stages {
		if stage.DurationMS >= 0.1 {
			texts = append(texts, stage.Name+" "+span(milliseconds(stage.DurationMS)))
		}
	}
	return strings.Join(texts, ", ")
}

// clean takes out what would move a terminal's cursor, or worse: texts of
// provisioners end here.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// span prints a length of time in two units at most.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

func milliseconds(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond))
}
