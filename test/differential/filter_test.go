package differential

import (
	"context"
	"fmt"
	"strings"

	"github.com/prebind/prebind/volumes"
)

// filter asks about all nodes at once, as the filter verb does, and holds each
// verdict against the plan for the node, which compare_test.go holds against
// kube-scheduler: the same nodes must be left, and the others refused for the
// same reasons. Words that are kube-scheduler's must be in the text.
func (p *prebind) filter(ctx context.Context, s *state) error {
	if !volumes.HasClaims(s.pod) {
		return nil
	}
	for _, sent := range []bool{false, true} {
		nodes := make([]volumes.Node, len(s.nodes))
		for i, node := range s.nodes {
			nodes[i] = volumes.Node{Name: node.Name}
			if sent {
				nodes[i] = volumes.Node{Name: node.Name, Labels: node.Labels, Sent: true}
			}
		}
		reasons, err := p.Filter(ctx, s.pod, nodes)
		if err != nil {
			return fmt.Errorf("filtering nodes: %w", err)
		}
		for i, node := range s.nodes {
			plan, _, err := p.says(ctx, s.pod, node)
			if err != nil {
				return err
			}
			if err := sameReasons(plan, reasons[i]); err != nil {
				return fmt.Errorf("node %s, sent whole: %t: %w", node.Name, sent, err)
			}
		}
	}
	return nil
}

func sameReasons(plan verdict, reason string) error {
	if plan.fits() != (reason == "") {
		return fmt.Errorf("the filter says %q, the plan\n    %s", reason, plan)
	}
	words := map[what]string{selectedElsewhere: "weren't the one that a volume is being provisioned for", volumeMismatch: "of another claim"}
	for _, known := range reasons() {
		if !known.ours {
			words[known.what] = known.words
		}
	}
	// What is true of the pod whatever the node is told alone.
	podLevel := map[what]bool{noClaim: true, noEphemeralClaim: true, lost: true, terminating: true, notOwned: true, unbound: true, volumeGone: true, volumeMismatch: true}
	alone := false
	for _, w := range plan.refusals() {
		alone = alone || podLevel[w]
	}
	for _, w := range plan.refusals() {
		if (!alone || podLevel[w]) && !strings.Contains(reason, words[w]) {
			return fmt.Errorf("the filter says %q, which lacks %q of the plan\n    %s", reason, words[w], plan)
		}
	}
	return nil
}
