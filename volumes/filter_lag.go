package volumes

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	// filterGrace is how long a filter call that finds no node waits for the watch:
	// the scheduler, with a watch of its own, may have been woken by a volume or a
	// node that comes here a moment later, and without another event it would not
	// ask again for minutes.
	filterGrace = 25 * time.Millisecond
	// filterPause is how long no call waits after one has: the scheduler can do
	// nothing else meanwhile. Where pods are refused more often than that there
	// are events that bring them back.
	filterPause = 10 * filterGrace
)

// graces gives out the waits of filter calls.
type graces struct {
	mu   sync.Mutex
	next time.Time
}

func (g *graces) take() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if now.Before(g.next) {
		return false
	}
	g.next = now.Add(filterPause)
	return true
}

// awaitNode judges the nodes anew with each change of what the pod waits for,
// until one is left or the grace is over.
func (p *Prebinder) awaitNode(ctx context.Context, pod *v1.Pod, nodes []Node, found judgement) (judgement, error) {
	defer observeSince(p.metrics.filterWait.WithLabelValues(filterWaitWatch), time.Now())
	watch := p.signals.subscribe()
	defer watch.close()
	for _, c := range claimNames(pod) {
		watch.add("claim/" + pod.Namespace + "/" + c.Name)
	}
	grace := time.NewTimer(filterGrace)
	defer grace.Stop()
	for {
		// What is in the way now may not have been seen behind what was before.
		watch.add(p.poolKeys(pod)...)
		for i := range nodes {
			if found.reasons[i] == reasonUnknownNode {
				watch.add(nodeKey(nodes[i].Name))
			}
		}
		again, err := p.judge(ctx, pod, nodes)
		if err != nil || again.passes() {
			return again, err
		}
		if !slices.Equal(again.reasons, found.reasons) {
			found = again
			continue
		}
		select {
		case <-watch.wake:
		case <-grace.C:
			return found, nil
		case <-ctx.Done():
			return judgement{}, context.Cause(ctx)
		}
	}
}
