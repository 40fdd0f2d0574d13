package volumes

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prebind/prebind/internal/fault"
)

const (
	// enoughNodes is how many nodes kube-scheduler looks for at least. An extender
	// that is shown fewer is shown all that suit the pod otherwise.
	// Source: pkg/scheduler/schedule_one.go, minFeasibleNodesToFind.
	enoughNodes = 100
	// unseenRounds is for how many times the nodes of the cluster a pod is sent back
	// for those that were not shown. The scheduler goes on where it left off,
	// but other pods move it on, too.
	unseenRounds = 3
	// unseenAge is how long it then counts as tried.
	unseenAge = 10 * time.Minute
	// maxUnseen bounds how many pods are remembered.
	maxUnseen = 1000
)

// unseen counts how often pods were sent back for nodes that were not shown.
type unseen struct {
	mu   sync.Mutex
	pods map[types.UID]unseenPod
}

type unseenPod struct {
	times int
	until time.Time
}

// take tells whether the pod may be sent back once more, at most limit times.
func (u *unseen) take(pod types.UID, limit int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	p, known := u.pods[pod]
	if now.After(p.until) { // also a pod that is new
		p = unseenPod{until: now.Add(unseenAge)}
	}
	if p.times >= limit || (!known && !u.room(now)) {
		return false
	}
	p.times++
	if u.pods == nil {
		u.pods = map[types.UID]unseenPod{}
	}
	u.pods[pod] = p
	return true
}

// spent tells whether take would refuse the pod, which spares the look for a node.
func (u *unseen) spent(pod types.UID, limit int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.pods[pod]
	return p.times >= limit && !time.Now().After(p.until)
}

// room tells whether one more pod can be remembered. The caller has the lock.
func (u *unseen) room(now time.Time) bool {
	if len(u.pods) >= maxUnseen {
		maps.DeleteFunc(u.pods, func(_ types.UID, p unseenPod) bool { return now.After(p.until) })
	}
	return len(u.pods) < maxUnseen
}

// sendBack returns a fault if none of the nodes will do, but one will that the
// scheduler has not shown: of more than a hundred nodes it looks for some only. A
// pod that is refused waits for an event; one that fails is back a second later, and
// then the scheduler looks at other nodes. Not for ever: the node may be one
// that the pod cannot go to for other reasons.
func (p *Prebinder) sendBack(ctx context.Context, pod *v1.Pod, nodes []Node) error {
	if len(nodes) < enoughNodes {
		return nil
	}
	facts, err := p.gather(ctx, &reader{caches: p.caches}, pod)
	if err != nil || len(facts.hopeless()) > 0 {
		return err
	}
	all, err := p.caches.Nodes.List(labels.Everything())
	if err != nil || len(all) <= len(nodes) {
		return err
	}
	limit := unseenRounds * ((len(all) + len(nodes) - 1) / len(nodes))
	if p.unseen.spent(pod.UID, limit) {
		return nil
	}
	shown := make(map[string]struct{}, len(nodes))
	for i := range nodes {
		shown[nodes[i].Name] = struct{}{}
	}
	var others []Node
	for _, node := range all {
		if _, ok := shown[node.Name]; !ok {
			others = append(others, Node{Name: node.Name})
		}
	}
	found, err := facts.judge(others)
	if err != nil {
		return err
	}
	fits := slices.Index(found.reasons, "")
	if fits < 0 || !p.unseen.take(pod.UID, limit) {
		return nil
	}
	return fault.New(fault.NodesUnseen, "pod %s/%s: the %d nodes that kube-scheduler has looked at have no volumes for it, but others do, such as %s; next time it looks at others",
		pod.Namespace, pod.Name, len(nodes), others[fits].Name)
}
