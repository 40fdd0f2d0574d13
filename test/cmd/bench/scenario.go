package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/prebind/prebind/test/controlplane"
)

// world is what stands before a pod comes: nodes, each with local volumes.
type world struct {
	Nodes   int `json:"nodes"`
	PerNode int `json:"volumesPerNode"`
}

func (w world) volumes() int { return w.Nodes * w.PerNode }

func (w world) String() string {
	return fmt.Sprintf("%s nodes x %d volumes", thousands(w.Nodes), w.PerNode)
}

// kind is how pods come.
type kind string

const (
	burst    kind = "burst"      // all at once, one claim each
	onebyone kind = "one by one" // each after the one before is bound, one claim each
	plain    kind = "plain"      // all at once, without claims
)

// scenario is what every one of its variants is measured in, in turn.
type scenario struct {
	Name  string `json:"name"` // short and unique
	Kind  kind   `json:"kind"`
	World world  `json:"world"`
	Pods  int    `json:"pods"`
	// StockPods replaces Pods for variants that scan all volumes; 0: the same.
	StockPods int `json:"stockPods,omitempty"`
	// Pace is the least time between two pods that come one by one.
	Pace time.Duration `json:"paceNanoseconds,omitempty"`
	// ControllerManagerQPS and SchedulerQPS are --kube-api-qps and
	// clientConnection.qps; 0: the default (20 and 50). The burst is twice that.
	ControllerManagerQPS int `json:"controllerManagerQPS,omitempty"`
	SchedulerQPS         int `json:"schedulerQPS,omitempty"`
	// SomeNodes lets the scheduler look at some nodes only in mode full, too, as it
	// does by itself in a large cluster. Else it looks at all, so that nothing is
	// left to chance.
	SomeNodes bool `json:"someNodes,omitempty"`
	// ProbeFilter adds calls of /v1/filter for all nodes, before a burst.
	ProbeFilter bool `json:"probeFilter,omitempty"`

	Variants []variant `json:"variants"`
}

// defaultQPS are what the programs come with.
const (
	defaultControllerManagerQPS = 20
	defaultSchedulerQPS         = 50
)

// title tells in a line what is measured.
func (s scenario) title() string {
	what := map[kind]string{
		burst:    "burst of %s pods",
		onebyone: "%s pods one at a time",
		plain:    "burst of %s pods without claims",
	}[s.Kind]
	text := fmt.Sprintf(what+", %s", thousands(s.Pods), s.World)
	if s.Kind == plain {
		text = fmt.Sprintf(what+", %s nodes", thousands(s.Pods), thousands(s.World.Nodes))
	}
	switch {
	case s.SomeNodes:
		text += ", the scheduler's own percentageOfNodesToScore"
	case s.World.Nodes > 100: // of fewer the scheduler looks at all
		text += ", percentageOfNodesToScore 100 in mode full"
	}
	qps := func(set, standard int) string {
		if set == 0 {
			return fmt.Sprintf("its default %d", standard)
		}
		return thousands(set)
	}
	if s.ProbeFilter {
		text += fmt.Sprintf(", after %d filter calls for all nodes", idleCalls)
	}
	return text + "; requests/s: controller manager " + qps(s.ControllerManagerQPS, defaultControllerManagerQPS) +
		", kube-scheduler " + qps(s.SchedulerQPS, defaultSchedulerQPS)
}

// podsFor is how many pods a variant gets.
func (s scenario) podsFor(v variant) int {
	if v.Mode != controlplane.ModeFull && s.StockPods > 0 {
		return min(s.StockPods, s.Pods)
	}
	return s.Pods
}

const fastQPS = 2000

// scenarios are what `bench all` measures, in an order in which the world only
// ever grows.
func scenarios(quick bool) []scenario {
	all := variants()
	small, medium, large, huge := world{50, 10}, world{200, 10}, world{1000, 10}, world{5000, 20}
	list := []scenario{
		{Name: "idle", Kind: onebyone, World: world{20, 10}, Pods: 100, Pace: 500 * time.Millisecond, Variants: all},
		{Name: "plain", Kind: plain, World: small, Pods: 1000, Variants: without(all, direct)},
		{Name: "plain-fast", Kind: plain, World: small, Pods: 1000, SchedulerQPS: fastQPS, Variants: without(all, direct)},
		{Name: "burst-20", Kind: burst, World: small, Pods: 300, Variants: all},
		{Name: "burst-2000", Kind: burst, World: small, Pods: 300, ControllerManagerQPS: fastQPS, Variants: all},
		{Name: "burst-fast", Kind: burst, World: small, Pods: 300, ControllerManagerQPS: fastQPS, SchedulerQPS: fastQPS, Variants: all},
		{Name: "burst-200", Kind: burst, World: medium, Pods: 40, ControllerManagerQPS: fastQPS, Variants: all},
		{Name: "one-1000", Kind: onebyone, World: large, Pods: 40, StockPods: 8, Pace: 500 * time.Millisecond, Variants: all},
		{Name: "burst-1000", Kind: burst, World: large, Pods: 300, StockPods: 8, ControllerManagerQPS: fastQPS, Variants: without(all, controller)},
		{Name: "burst-5000", Kind: burst, World: huge, Pods: 300, ControllerManagerQPS: fastQPS, Variants: all[3:]},
		{Name: "burst-5000-some", Kind: burst, World: huge, Pods: 300, ControllerManagerQPS: fastQPS, SomeNodes: true, Variants: all[4:]},
		{Name: "plain-5000", Kind: plain, World: huge, Pods: 300, SchedulerQPS: fastQPS, Variants: []variant{all[0], all[3]}},
		{Name: "plain-5000-some", Kind: plain, World: huge, Pods: 300, SchedulerQPS: fastQPS, SomeNodes: true, Variants: []variant{all[0], all[3]}},
		{Name: "filter-5000", Kind: burst, World: huge, Pods: 300, ControllerManagerQPS: fastQPS, ProbeFilter: true, Variants: all[4:]},
	}
	if !quick {
		return list
	}
	return shortened(list)
}

// shortened keeps what tells most in five minutes.
func shortened(list []scenario) []scenario {
	pods := map[string]int{"idle": 10, "plain-fast": 300, "burst-20": 60, "burst-2000": 100, "burst-200": 40}
	list = slices.DeleteFunc(list, func(s scenario) bool { return pods[s.Name] == 0 })
	for i := range list {
		s := &list[i]
		s.Pods = pods[s.Name]
		if s.Kind != plain { // bind is between stock and full
			s.Variants = without(s.Variants, "bind")
		}
	}
	for i := range list {
		if list[i].Name == "burst-20" || list[i].Name == "burst-200" { // the PV controller's rate is known
			list[i].Variants = without(list[i].Variants, controller)
		}
	}
	return list
}

// without leaves out the variants with a mode or a completion.
func without(list []variant, name string) []variant {
	return slices.DeleteFunc(slices.Clone(list), func(v variant) bool {
		return string(v.Mode) == name || v.Completion == name
	})
}

// thousands writes 10000 as 10,000.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
