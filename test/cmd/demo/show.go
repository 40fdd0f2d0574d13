package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/test/internal/console"
)

// errNotBound says that the demo has failed.
var errNotBound = errors.New("not all pods were bound")

// show follows the pods until all are bound or time is up, then prints the
// final table.
func (d *demo) show(ctx context.Context, pods *podWatch, start time.Time) error {
	want, err := d.expectedPods(ctx)
	if err != nil {
		return err
	}
	deadline := time.NewTimer(d.timeout)
	defer deadline.Stop()
	redraw := time.NewTicker(100 * time.Millisecond)
	defer redraw.Stop()
	reported := map[string]bool{}
	for {
		all := pods.all()
		bound := d.report(all, reported)
		if len(all) >= want && bound == len(all) {
			d.finish(pods, want, time.Since(start))
			return nil
		}
		select {
		case <-pods.changed:
		case <-redraw.C:
			d.draw(pods, fmt.Sprintf("%d of %d pods bound, %.1fs", bound, want, time.Since(start).Seconds()))
		case <-deadline.C:
			d.finish(pods, want, time.Since(start))
			d.explain(all, want)
			return fmt.Errorf("%w within %s", errNotBound, d.timeout)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// draw shows the table in place, or where there is no terminal the last line
// of it now and then.
func (d *demo) draw(pods *podWatch, status string) {
	if d.out.Terminal() {
		d.out.Live(append(table(pods), status)...)
	} else {
		d.out.Status("  %s", status)
	}
}

// report counts the bound pods. Where there is no live table it prints a line
// for each that is new.
func (d *demo) report(all []podTimes, reported map[string]bool) (bound int) {
	for _, p := range all {
		if p.bound.IsZero() {
			continue
		}
		bound++
		if !reported[p.pod.Name] && !d.out.Terminal() {
			d.out.Printf("  %s bound to %s after %d ms", p.pod.Name, p.pod.Spec.NodeName, p.tookToBind().Milliseconds())
		}
		reported[p.pod.Name] = true
	}
	return bound
}

// finish prints the table that stays.
func (d *demo) finish(pods *podWatch, want int, took time.Duration) {
	d.out.Printf("")
	for _, line := range table(pods) {
		d.out.Printf("%s", line)
	}
	bound := 0
	for _, p := range pods.all() {
		if !p.bound.IsZero() {
			bound++
		}
	}
	d.out.Printf("\n%d of %d pods bound, %.1fs after the first manifest was applied.", bound, want, took.Seconds())
	d.out.Printf("MS: milliseconds from when a watch first showed the pod to when it showed the pod's node")
	d.out.Printf("(creationTimestamp itself has whole seconds only).")
}

// explain tells why pods are not bound.
func (d *demo) explain(all []podTimes, want int) {
	if len(all) < want {
		d.out.Printf("\n%d of %d pods were never created", want-len(all), want)
	}
	for _, p := range all {
		if p.bound.IsZero() {
			events, err := d.cp.Events(context.Background(), namespace, p.pod.Name, "FailedScheduling")
			last := "no event FailedScheduling"
			if err != nil {
				last = err.Error()
			} else if len(events) > 0 {
				last = events[len(events)-1]
			}
			d.out.Printf("\n%s is not bound: %s", p.pod.Name, last)
		}
	}
	if d.prebind != nil {
		d.out.Printf("\nthe last lines of prebind's log:\n%s", d.prebind.Tail(5))
	}
}

// expectedPods counts the pods that the applied workloads lead to.
func (d *demo) expectedPods(ctx context.Context) (int, error) {
	client := d.cp.Client()
	sets, err := client.AppsV1().StatefulSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("counting the pods to expect: %w", err)
	}
	deployments, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("counting the pods to expect: %w", err)
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("counting the pods to expect: %w", err)
	}
	want := 0
	for _, set := range sets.Items {
		want += int(*set.Spec.Replicas)
	}
	for _, deployment := range deployments.Items {
		want += int(*deployment.Spec.Replicas)
	}
	for _, pod := range pods.Items {
		if metav1.GetControllerOf(&pod) == nil {
			want++
		}
	}
	return want, nil
}

// table shows the pods as they are now.
func table(pods *podWatch) []string {
	var rows [][]string
	for _, p := range pods.all() {
		claims, volumes := pods.claimsOf(p.pod)
		node, took := "-", "-"
		if !p.bound.IsZero() {
			node, took = p.pod.Spec.NodeName, strconv.FormatInt(p.tookToBind().Milliseconds(), 10)
		}
		rows = append(rows, []string{p.pod.Name, node, list(claims), list(short(volumes)), took})
	}
	return console.Table([]string{"POD", "NODE", "CLAIMS", "VOLUMES", "MS"}, rows)
}

// short cuts the UIDs in the names of provisioned volumes: tables have 80 columns.
func short(volumes []string) []string {
	var names []string
	for _, name := range volumes {
		if uid, isProvisioned := strings.CutPrefix(name, "pvc-"); isProvisioned && len(uid) == 36 {
			name = "pvc-" + uid[:8] + "~"
		}
		names = append(names, name)
	}
	return names
}

func list(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ",")
}
