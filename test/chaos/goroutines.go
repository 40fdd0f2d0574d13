package chaos

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// spareGoroutines is how many goroutines of libraries a replica may have more
// than a fresh one: client-go starts one for a moment now and then. Of those of
// prebind's own code none may be left over.
const spareGoroutines = 10

// goroutines counts a process's goroutines by the function that started them.
type goroutines struct {
	ours   map[string]int // those that run code of prebind
	others int            // without those of HTTP connections, which come and go
}

var (
	startedBy = regexp.MustCompile(`(?m)^created by (\S+)`)
	ourCode   = regexp.MustCompile(`(?m)^(?:created by )?github\.com/prebind/prebind/`)
	httpCode  = regexp.MustCompile(`(?m)^created by (?:net/http|internal/poll)\.`)
)

// parseGoroutines reads what a Go program writes when it gets SIGQUIT.
func parseGoroutines(dump string) (goroutines, error) {
	found := goroutines{ours: map[string]int{}}
	total := 0
	for block := range strings.SplitSeq(dump, "\n\n") {
		block = strings.TrimSpace(block)
		if !strings.HasPrefix(block, "goroutine ") {
			continue
		}
		total++
		creator := "the runtime"
		if match := startedBy.FindStringSubmatch(block); match != nil {
			creator = match[1]
		}
		switch {
		case ourCode.MatchString(block):
			found.ours[creator]++
		case !httpCode.MatchString(block):
			found.others++
		}
	}
	if total == 0 {
		return found, fmt.Errorf("no goroutines in the dump: %.300q", dump)
	}
	return found, nil
}

// leaked tells what g has more than a fresh process.
func (g goroutines) leaked(fresh goroutines) []string {
	var failures []string
	for _, creator := range slices.Sorted(maps.Keys(g.ours)) {
		if have, want := g.ours[creator], fresh.ours[creator]; have > want {
			failures = append(failures, fmt.Sprintf("%d goroutines started by %s, a fresh process has %d", have, creator, want))
		}
	}
	if g.others > fresh.others+spareGoroutines {
		failures = append(failures, fmt.Sprintf("%d goroutines of libraries, a fresh process has %d", g.others, fresh.others))
	}
	return failures
}
