package main

import (
	"fmt"

	"github.com/prebind/prebind/test/controlplane"
)

// goal is a figure that was asked for.
type goal struct {
	what     string
	scenario string
	ours     variant
	// unit names what is compared: pods/s, ms (p50), p99/p50, of stock (the rate,
	// as a share of stock's), of 50 nodes (the rate, as a share of burst-2000's), ms a filter call (p50, idle).
	unit  string
	asked float64
	least bool // asked is the least, not the most
}

const (
	podsPerSecond = "pods/s"
	p50           = "ms"
	spread        = "p99/p50"
	ofStock       = "of stock"
	of50Nodes     = "of the rate at 50 nodes"
	filterCall    = "ms a filter call"
)

// goals are the figures that prebind is held to.
func goals() []goal {
	bindController, bindDirect := variant{controlplane.ModeBind, controller}, variant{controlplane.ModeBind, direct}
	fullController, fullDirect := variant{controlplane.ModeFull, controller}, variant{controlplane.ModeFull, direct}
	idle := "idle, one static claim, p50"
	list := []goal{
		{idle, "idle", bindController, p50, 35, false},
		{idle, "idle", bindDirect, p50, 25, false},
		{idle, "idle", fullController, p50, 35, false},
		{idle, "idle", fullDirect, p50, 25, false},
		{"idle, p99 by p50", "idle", fullController, spread, 2.5, false},
		{"idle, p99 by p50", "idle", fullDirect, spread, 2.5, false},
		{"burst, 50 nodes x 10, controller manager at 20/s", "burst-20", fullDirect, podsPerSecond, 100, true},
		{"burst, 50 nodes x 10, controller manager at 2,000/s", "burst-2000", fullController, podsPerSecond, 100, true},
		{"burst, 50 nodes x 10, controller manager at 2,000/s", "burst-2000", fullDirect, podsPerSecond, 100, true},
		{"burst, 200 nodes x 10", "burst-200", fullDirect, podsPerSecond, 80, true},
		{"one at a time, 1,000 nodes x 10, p50", "one-1000", fullDirect, p50, 40, false},
		{"burst, 5,000 nodes x 20", "burst-5000", fullDirect, of50Nodes, 1 / 1.5, true},
		{"burst, 5,000 nodes x 20, with the scheduler's own percentageOfNodesToScore", "burst-5000-some", fullDirect, of50Nodes, 1 / 1.5, true},
		{"filter call for 5,000 node names, p50", "filter-5000", fullDirect, filterCall, 5, false},
	}
	for _, s := range []string{"plain", "plain-fast"} {
		for _, v := range []variant{bindController, fullController} {
			what := "pods without claims"
			if s == "plain-fast" {
				what += ", kube-scheduler at 2,000 requests/s"
			}
			list = append(list, goal{what, s, v, ofStock, 0.9, true})
		}
	}
	return append(list,
		goal{"pods without claims, 5,000 nodes, kube-scheduler at 2,000 requests/s", "plain-5000", fullController, ofStock, 0.9, true},
		goal{"the same, with the scheduler's own percentageOfNodesToScore", "plain-5000-some", fullController, ofStock, 0.9, true},
	)
}

// figure is what a measurement has of the goal's unit.
func (g goal) figure(r *report, m *measurement) (float64, bool) {
	if m == nil {
		return 0, false
	}
	switch g.unit {
	case podsPerSecond:
		return m.PodsPerSecond, true
	case p50:
		return float64(m.Latency.P50), true
	case filterCall:
		if m.FilterCalls == nil {
			return 0, false
		}
		return float64(m.FilterCalls.Idle.P50), true
	case spread:
		return float64(m.Latency.P99 / m.Latency.P50), true
	}
	base := r.find(g.scenario, stock())
	if g.unit == of50Nodes {
		base = r.find("burst-2000", g.ours)
	}
	if base == nil {
		return 0, false
	}
	return m.PodsPerSecond / base.PodsPerSecond, true
}

// row is the goal beside what was measured; false if it was not.
func (g goal) row(r *report) ([]string, bool) {
	ours, ok := g.figure(r, r.find(g.scenario, g.ours))
	if !ok {
		return nil, false
	}
	stocks, times := "", ""
	if theirs, ok := g.figure(r, r.find(g.scenario, stock())); ok && (g.unit == podsPerSecond || g.unit == p50) {
		better := ours / theirs
		if !g.least {
			better = theirs / ours
		}
		stocks, times = g.text(theirs), fmt.Sprintf("%.1f x", better)
	}
	bound, reached := "at most ", ours <= g.asked
	if g.least {
		bound, reached = "at least ", ours >= g.asked
	}
	verdict := "**no**"
	if reached {
		verdict = "yes"
	}
	return []string{g.what, g.ours.String(), stocks, g.text(ours), times, bound + g.text(g.asked), verdict}, true
}

func (g goal) text(x float64) string {
	format := map[string]string{podsPerSecond: "%.1f", p50: "%.1f", spread: "%.1f", ofStock: "%.2f", of50Nodes: "%.2f", filterCall: "%.1f"}[g.unit]
	return fmt.Sprintf(format+" "+g.unit, x)
}

func goalHeader() []string {
	return []string{"what", "variant", "stock", "prebind", "better by", "asked", "reached"}
}

// goalRows are the rows of all goals that were measured.
func (r *report) goalRows() [][]string {
	var rows [][]string
	for _, g := range goals() {
		if row, ok := g.row(r); ok {
			rows = append(rows, row)
		}
	}
	if s := r.Scale; s != nil {
		rows = append(rows, s.goalRows()...)
	}
	return rows
}
