package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prebind/prebind/test/build"
)

const (
	className = "bench"
	// workers write at the same time when the world is made.
	workers = 16
)

func nodeNameOf(i int) string { return fmt.Sprintf("node-%04d", i) }

func (l *lab) createClass(ctx context.Context) error {
	_, err := l.client.StorageV1().StorageClasses().Create(ctx, build.Class(className).Obj(), metav1.CreateOptions{})
	return err
}

// grow makes the nodes and volumes that a world has and ours has not. It must
// not be called while a controller manager runs: we mark volumes Available
// ourselves, which would take it minutes at its default request rate.
func (l *lab) grow(ctx context.Context, to world) error {
	if to.Nodes < l.world.Nodes || to.PerNode < l.world.PerNode {
		return fmt.Errorf("making %s: there are %s already, and they cannot be made fewer", to, l.world)
	}
	err := l.parallel(ctx, "nodes made", to.Nodes-l.world.Nodes, func(ctx context.Context, i int) error {
		node := build.Node(nodeNameOf(l.world.Nodes + i)).Obj()
		_, err := l.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("making nodes: %w", err)
	}
	var missing [][2]int
	for node := range to.Nodes {
		for i := range to.PerNode {
			if node >= l.world.Nodes || i >= l.world.PerNode {
				missing = append(missing, [2]int{node, i})
			}
		}
	}
	err = l.parallel(ctx, "volumes made", len(missing), func(ctx context.Context, i int) error {
		return l.createVolume(ctx, missing[i][0], missing[i][1])
	})
	if err != nil {
		return fmt.Errorf("making volumes: %w", err)
	}
	l.world = to
	return nil
}

// createVolume makes a volume as the PV controller has left it when it is free.
func (l *lab) createVolume(ctx context.Context, node, i int) error {
	volume := l.volume(node, i)
	core := l.client.CoreV1().PersistentVolumes()
	created, err := core.Create(ctx, volume, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status.Phase = corev1.VolumeAvailable
	_, err = core.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	return err
}

// volume is the i-th of a node: 10Gi to 19Gi, by the seed.
func (l *lab) volume(node, i int) *corev1.PersistentVolume {
	size := 10 + rand.New(rand.NewPCG(l.seed, uint64(node)<<16|uint64(i))).IntN(10)
	name := fmt.Sprintf("volume-%04d-%02d", node, i)
	return build.Volume(name).Class(className).OnNode(nodeNameOf(node)).Capacity(fmt.Sprintf("%dGi", size)).Obj()
}

// claim is the i-th of a series: 1Gi to 10Gi, by the seed, so that any volume
// is large enough for it.
func (l *lab) claim(namespace, name string, i int) *corev1.PersistentVolumeClaim {
	size := 1 + rand.New(rand.NewPCG(l.seed, 1<<40|uint64(i))).IntN(10)
	return build.Claim(namespace, name).Class(className).Size(fmt.Sprintf("%dGi", size)).Obj()
}

// restore removes a series' pods and claims and makes the volumes new that they
// have used. It must not be called while a controller manager runs.
func (l *lab) restore(ctx context.Context, namespace string) error {
	core := l.client.CoreV1()
	now := deleteNow()
	if err := core.Pods(namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("removing pods: %w", err)
	}
	claims, err := core.PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("removing claims: %w", err)
	}
	err = l.parallel(ctx, "claims removed", len(claims.Items), func(ctx context.Context, i int) error {
		name := claims.Items[i].Name
		_, err := core.PersistentVolumeClaims(namespace).Patch(ctx, name, types.MergePatchType, noFinalizers(), metav1.PatchOptions{})
		if err != nil {
			return err
		}
		return ignoreNotFound(core.PersistentVolumeClaims(namespace).Delete(ctx, name, now))
	})
	if err != nil {
		return fmt.Errorf("removing claims: %w", err)
	}
	return l.restoreVolumes(ctx)
}

func (l *lab) restoreVolumes(ctx context.Context) error {
	core := l.client.CoreV1().PersistentVolumes()
	list, err := core.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("looking for used volumes: %w", err)
	}
	var used []string
	for i := range list.Items {
		if v := &list.Items[i]; v.Spec.ClaimRef != nil || v.Status.Phase != corev1.VolumeAvailable {
			used = append(used, v.Name)
		}
	}
	err = l.parallel(ctx, "used volumes made new", len(used), func(ctx context.Context, i int) error {
		if _, err := core.Patch(ctx, used[i], types.MergePatchType, noFinalizers(), metav1.PatchOptions{}); err != nil {
			return err
		}
		if err := ignoreNotFound(core.Delete(ctx, used[i], metav1.DeleteOptions{})); err != nil {
			return err
		}
		var node, number int
		if _, err := fmt.Sscanf(used[i], "volume-%d-%d", &node, &number); err != nil {
			return err
		}
		return l.createVolume(ctx, node, number)
	})
	if err != nil {
		return fmt.Errorf("making used volumes new: %w", err)
	}
	return nil
}

func deleteNow() metav1.DeleteOptions { return metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))} }

// noFinalizers lets an object go without the controllers that protect it.
func noFinalizers() []byte { return []byte(`{"metadata":{"finalizers":null}}`) }

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// parallel does n things, several at a time, and shows how far it has come.
func (l *lab) parallel(ctx context.Context, what string, n int, do func(ctx context.Context, i int) error) error {
	if n == 0 {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	var next, done atomic.Int64
	started := time.Now()
	for range min(workers, n) {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					return err
				}
				count := done.Add(1)
				left := time.Duration(float64(time.Since(started)) / float64(count) * float64(int64(n)-count))
				l.out.Status("  %s of %s %s, %s left", thousands(int(count)), thousands(n), what, left.Round(time.Second))
			}
			return ctx.Err()
		})
	}
	return errors.Join(group.Wait())
}
