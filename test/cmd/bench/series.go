package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/prebind/prebind/test/build"
)

const (
	// claimLead is how long before its pod a claim is created, so that every
	// cache has it by then and the binding is all that is measured.
	claimLead = 300 * time.Millisecond
	// settle is a rest in which the controllers' request rate recovers.
	settle = 3 * time.Second
	// bindTimeout is how long one pod may take.
	bindTimeout = time.Minute
	// cleanTimeout is how long deleting a series may take.
	cleanTimeout = 3 * time.Minute

	seriesLabel = "prebind.dev/series"
)

// series is what one scheduler is measured with: a namespace, a class, and a
// volume for each pod.
type series struct {
	*bench
	name      string // also of the class
	namespace string
	watch     *boundWatch
	next      time.Time // not before: creation of the next pod
}

// newSeries creates the volumes, waits until they are Available, and rests.
func newSeries(ctx context.Context, b *bench, name string) (*series, error) {
	namespace, err := b.cp.CreateNamespace(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := b.cp.Create(ctx, build.Class(name).Obj()); err != nil {
		return nil, err
	}
	count := b.opts.warmUp + b.opts.pods
	for i := range count {
		volume := build.Volume(fmt.Sprintf("%s-%d", name, i)).Class(name).OnNode(nodeName(i%b.opts.nodes)).Label(seriesLabel, name)
		if err := b.cp.Create(ctx, volume.Obj()); err != nil {
			return nil, err
		}
	}
	s := &series{bench: b, name: name, namespace: namespace}
	err = s.awaitVolumes(ctx, func(volumes []corev1.PersistentVolume) bool {
		available := 0
		for _, v := range volumes {
			if v.Status.Phase == corev1.VolumeAvailable {
				available++
			}
		}
		b.out.Status("%-8s %d of %d volumes available", name, available, count)
		return available == count
	})
	if err != nil {
		return nil, err
	}
	if s.watch, err = watchBound(ctx, b.cp.Client(), namespace); err != nil {
		return nil, err
	}
	return s, pause(ctx, time.Now().Add(settle))
}

// awaitVolumes waits until the volumes of the series are as done wants them.
func (s *series) awaitVolumes(ctx context.Context, done func([]corev1.PersistentVolume) bool) error {
	selector := metav1.ListOptions{LabelSelector: seriesLabel + "=" + s.name}
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, cleanTimeout, true, func(ctx context.Context) (bool, error) {
		list, err := s.cp.Client().CoreV1().PersistentVolumes().List(ctx, selector)
		if err != nil {
			return false, err
		}
		return done(list.Items), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the volumes of %s: %w", s.name, err)
	}
	return nil
}

// one measures one pod.
func (s *series) one(ctx context.Context, i int) (time.Duration, error) {
	name := fmt.Sprintf("pod-%d", i)
	if err := pause(ctx, s.next.Add(-claimLead)); err != nil {
		return 0, err
	}
	claimed := time.Now()
	if err := s.cp.Create(ctx, build.Claim(s.namespace, name).Class(s.name).Obj()); err != nil {
		return 0, err
	}
	if err := pause(ctx, claimed.Add(claimLead)); err != nil {
		return 0, err
	}
	pod := build.Pod(s.namespace, name).Claim(name).Obj()
	pods := s.cp.Client().CoreV1().Pods(s.namespace)
	created := time.Now()
	s.next = created.Add(s.opts.pace)
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return 0, fmt.Errorf("creating pod %s: %w", name, err)
	}
	bound, err := s.watch.wait(ctx, name, bindTimeout)
	if err != nil {
		return 0, fmt.Errorf("%w; its events:\n%s", err, s.cp.DescribeEvents(s.namespace, name))
	}
	return bound.Sub(created), nil
}

// cleanUp removes the pods, claims and volumes, waits until they are gone, and
// rests: the next series is to find the control plane as this one did.
func (s *series) cleanUp(ctx context.Context) error {
	core := s.cp.Client().CoreV1()
	all, now := metav1.ListOptions{}, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	if err := core.Pods(s.namespace).DeleteCollection(ctx, now, all); err != nil {
		return fmt.Errorf("deleting the pods of %s: %w", s.name, err)
	}
	if err := core.PersistentVolumeClaims(s.namespace).DeleteCollection(ctx, now, all); err != nil {
		return fmt.Errorf("deleting the claims of %s: %w", s.name, err)
	}
	mine := metav1.ListOptions{LabelSelector: seriesLabel + "=" + s.name}
	if err := core.PersistentVolumes().DeleteCollection(ctx, now, mine); err != nil {
		return fmt.Errorf("deleting the volumes of %s: %w", s.name, err)
	}
	err := s.awaitVolumes(ctx, func(volumes []corev1.PersistentVolume) bool {
		s.out.Status("%-8s %d volumes still to be removed", s.name, len(volumes))
		return len(volumes) == 0
	})
	if err != nil {
		return err
	}
	return pause(ctx, time.Now().Add(settle))
}
