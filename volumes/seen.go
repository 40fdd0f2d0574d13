package volumes

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// seenAge is how long what a filter call showed of its pod is believed. The bind
	// call comes within milliseconds.
	seenAge = time.Second
	// maxSeen bounds how many are remembered.
	maxSeen = 1000
)

// seenPods are the pods that filter calls brought. The scheduler has a watch of its
// own, and its bind call may be here before our watch shows the pod: without
// these each such call asks the API server, just when many pods are created.
type seenPods struct {
	mu    sync.Mutex
	pods  map[types.UID]*v1.Pod
	order []seenPod // oldest first
}

type seenPod struct {
	uid types.UID
	at  time.Time
}

func (s *seenPods) add(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for len(s.order) > 0 && (len(s.order) >= maxSeen || now.Sub(s.order[0].at) > seenAge) {
		s.forget()
	}
	if s.pods == nil {
		s.pods = map[types.UID]*v1.Pod{}
	}
	if _, ok := s.pods[pod.UID]; !ok {
		s.pods[pod.UID] = pod
		s.order = append(s.order, seenPod{pod.UID, now})
	}
}

func (s *seenPods) find(namespace, name string, uid types.UID) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.order) > 0 && time.Since(s.order[0].at) > seenAge {
		s.forget()
	}
	if pod := s.pods[uid]; pod != nil && pod.Namespace == namespace && pod.Name == name {
		return pod
	}
	return nil
}

// forget drops the oldest. The caller has the lock.
func (s *seenPods) forget() {
	delete(s.pods, s.order[0].uid)
	s.order = s.order[1:]
}

// UnassignedPod returns the pod if it has this UID and is free to be bound, as far as
// the watch or a filter call a moment ago shows it; else nil.
func (c *Caches) UnassignedPod(namespace, name string, uid types.UID) *v1.Pod {
	pod, err := c.Pods.Pods(namespace).Get(name)
	if err != nil {
		return c.seen.find(namespace, name, uid)
	}
	if pod.UID != uid || pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 {
		return nil
	}
	return pod
}

// Seen is told of each pod that the scheduler asks about; claims are not needed.
func (p *Prebinder) Seen(pod *v1.Pod) {
	if pod.UID != "" && pod.DeletionTimestamp == nil && pod.Spec.NodeName == "" {
		p.caches.seen.add(pod)
	}
}
