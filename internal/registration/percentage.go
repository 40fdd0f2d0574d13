package registration

import (
	"fmt"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

const percentageKey = "percentageOfNodesToScore"

// percentage returns how many of the nodes the scheduler looks for, 0 for its
// own rule: all of 100, a tenth of 5,000. It is what an extender that filters is
// shown, whereas a plugin sees one node after the other until enough of them suit.
//
// Source: pkg/scheduler/schedule_one.go numFeasibleNodesToFind.
func percentage(cfg *configv1.KubeSchedulerConfiguration, profile configv1.KubeSchedulerProfile) int32 {
	switch {
	case profile.PercentageOfNodesToScore != nil:
		return *profile.PercentageOfNodesToScore
	case cfg.PercentageOfNodesToScore != nil:
		return *cfg.PercentageOfNodesToScore
	}
	return 0
}

// checkPercentage finds profiles in which prebind is shown some nodes only.
func (c *checker) checkPercentage() {
	for i, p := range c.profiles() {
		if c.shapes[i].mode != ModeFull || !c.filters() || percentage(c.cfg, p) >= 100 {
			continue
		}
		at := percentageKey
		if p.PercentageOfNodesToScore != nil {
			at = profilePath(i) + "." + percentageKey
		}
		c.advise("some-nodes-unseen", at, fmt.Sprintf("In %s the scheduler stops looking for nodes before it has seen all, if there are more than 100.", c.profile(i)),
			"prebind, which filters nodes by their volumes, is shown those that were found. With the pod's volume on none of them the pod is refused, and tried again with others later, though there is a node for it.",
			"Set percentageOfNodesToScore: 100, for all profiles or in this one.")
	}
}

func (c *checker) filters() bool {
	return slices.ContainsFunc(c.cfg.Extenders, func(e configv1.Extender) bool { return e.FilterVerb == filterVerb })
}

// patchPercentage has the scheduler show prebind all nodes, where nothing else
// is said, and takes that back.
func (f *file) patchPercentage(mode Mode) {
	now := child(f.root, percentageKey)
	switch {
	case mode == ModeFull && now == nil:
		value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: "100", LineComment: mark}
		set(f.root, percentageKey, value)
	case mode != ModeFull && now != nil && strings.TrimSpace(now.LineComment) == mark:
		remove(f.root, percentageKey)
	}
}
