package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/provisioner"
)

// limited starts a prebind under which so many claims of a class may be in
// provisioning at once.
func (f *fixture) limited(n int) *controlplane.Prebind {
	f.t.Helper()
	return shared.startPrebind(f.t, controlplane.PrebindOptions{
		Name:   f.name("limited"),
		Config: fmt.Sprintf("plugins: {permit: [ProvisioningLimit]}\nprovisioningLimit: {perClass: %d}", n),
	})
}

// startAt is start with a prebind of the test's own.
func (f *fixture) startAt(p *controlplane.Prebind, pod *v1.Pod, node string) <-chan string {
	answer := make(chan string, 1)
	ctx := f.ctx
	go func() {
		text, err := postBind(ctx, p.URL(), bindArgs(pod, node))
		if err != nil {
			text = "transport: " + err.Error()
		}
		answer <- text
	}()
	return answer
}

// inProvisioning tells whether the claim is with its provisioner.
func inProvisioning(claim *v1.PersistentVolumeClaim) bool {
	return claim.Annotations[volume.AnnSelectedNode] != "" && !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
}

// provisioned follows every change of the namespace's claims until so many are bound,
// and tells then how many were in provisioning at once.
func (f *fixture) provisioned(claims int) <-chan int {
	f.t.Helper()
	list, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).List(f.ctx, metav1.ListOptions{})
	f.must(err)
	ctx, cancel := context.WithTimeout(f.ctx, 2*patience)
	changes, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	f.must(err)
	most := make(chan int, 1)
	go func() {
		defer cancel()
		defer changes.Stop()
		now, done, peak := map[string]bool{}, map[string]bool{}, 0
		for change := range changes.ResultChan() {
			claim, ok := change.Object.(*v1.PersistentVolumeClaim)
			if !ok || change.Type == watch.Deleted {
				continue
			}
			delete(now, claim.Name)
			if inProvisioning(claim) {
				now[claim.Name] = true
			}
			peak = max(peak, len(now))
			if metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted) {
				done[claim.Name] = true
			}
			if len(done) == claims {
				break
			}
		}
		most <- peak
	}()
	return most
}

// awaitProvisioning waits until so many claims are with their provisioner, and names
// them.
func (f *fixture) awaitProvisioning(n int) []string {
	f.t.Helper()
	var names []string
	f.eventually(fmt.Sprintf("%d claims are in provisioning", n), func() bool {
		list, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).List(f.ctx, metav1.ListOptions{})
		f.must(err)
		names = nil
		for i := range list.Items {
			if inProvisioning(&list.Items[i]) {
				names = append(names, list.Items[i].Name)
			}
		}
		return len(names) == n
	})
	slices.Sort(names)
	return names
}

// shows waits until the metric of the prebind has the value.
func (f *fixture) shows(p *controlplane.Prebind, line string) {
	f.t.Helper()
	f.eventually("metrics show "+line, func() bool {
		text, err := p.Metrics(f.ctx)
		return err == nil && strings.Contains("\n"+string(text), "\n"+line+"\n")
	})
}

func TestProvisioningLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.limited(2)
	node := f.node("a", nil)
	class := f.dynamic("held", params(provisioner.Hold, "true"))
	const pods = 6
	for i := range pods {
		f.claim(newClaim(fmt.Sprintf("data%d", i), class))
	}
	most := f.provisioned(pods)
	var made []*v1.Pod
	var answers []<-chan string
	for i := range pods { // in this order
		name := fmt.Sprintf("data%d", i)
		made = append(made, f.pod(newPod(name, nobody, name)))
		answers = append(answers, f.startAt(p, made[i], node))
		f.shows(p, fmt.Sprintf("prebind_bind_calls_in_flight %d", i+1))
		if i < 2 {
			f.awaitProvisioning(i + 1)
			continue
		}
		f.shows(p, fmt.Sprintf(`prebind_provisioning_limit_waiting{class=%q} %d`, class, i-1))
	}
	f.shows(p, fmt.Sprintf(`prebind_provisioning_limit_in_use{class=%q} 2`, class))
	for i := range pods {
		names := f.awaitProvisioning(min(2, pods-i))
		if want := fmt.Sprintf("data%d", i); names[0] != want {
			t.Errorf("in provisioning are %v, the next of which should be %s", names, want)
		}
		shared.disks.Release(f.ns, names[0])
		if text := f.answer(answers[i]); text != "" {
			t.Fatalf("pod %s: %s", made[i].Name, text)
		}
		f.checkBound(made[i], node)
	}
	select {
	case peak := <-most:
		if peak != 2 {
			t.Errorf("up to %d claims were in provisioning at once, want 2", peak)
		}
	case <-f.ctx.Done():
		t.Fatal("the watch has not seen all claims bound")
	}
	f.shows(p, fmt.Sprintf(`prebind_provisioning_limit_in_use{class=%q} 0`, class))
	f.shows(p, fmt.Sprintf(`prebind_provisioning_limit_waiting{class=%q} 0`, class))
}

// A pod that waits for its turn holds nothing, says why when its time is over, and
// goes when it is deleted. What is with its provisioner counts when its call has ended,
// and after a restart.
func TestProvisioningLimitAndTheEndsOfCalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := shared.startPrebind(t, controlplane.PrebindOptions{
		Name:   f.name("limited"),
		Config: "plugins: {permit: [ProvisioningLimit]}\nprovisioningLimit: {perClass: 1}\nvolumes: {bindTimeout: 15s}",
	})
	node := f.node("a", nil)
	class := f.dynamic("held", params(provisioner.Hold, "true"))
	for _, name := range []string{"first", "second", "third"} {
		f.claim(newClaim(name, class))
	}
	pod := func(name string) *v1.Pod { return f.pod(newPod(name, nobody, name)) }
	first, second, third := pod("first"), pod("second"), pod("third")
	answer := f.startAt(p, first, node)
	f.awaitProvisioning(1)
	f.checkRefused(f.answer(answer), "BindTimeout", "claim "+f.ns+"/first", "waits for provisioner")

	f.shows(p, fmt.Sprintf(`prebind_provisioning_limit_in_use{class=%q} 1`, class))
	answer = f.startAt(p, second, node)
	deleted := f.startAt(p, third, node)
	f.shows(p, fmt.Sprintf(`prebind_provisioning_limit_waiting{class=%q} 2`, class))
	f.must(f.client.CoreV1().Pods(f.ns).Delete(f.ctx, "third", metav1.DeleteOptions{}))
	f.endedWith(f.answer(deleted), "PodTerminating", "PodNotFound")
	f.checkRefused(f.answer(answer), "BindTimeout", "claim "+f.ns+"/second", "waits for its turn", "in provisioning 1, limit 1")

	f.must(p.Kill())
	f.must(p.Start(f.ctx))
	next := f.startAt(p, second, node)
	f.shows(p, fmt.Sprintf(`prebind_provisioning_limit_waiting{class=%q} 1`, class))
	answer = f.startAt(p, first, node)
	f.shows(p, "prebind_bind_calls_in_flight 2")
	f.shows(p, fmt.Sprintf(`prebind_provisioning_limit_in_use{class=%q} 1`, class))
	f.untouched("second", "third")
	shared.disks.Release(f.ns, "first")
	shared.disks.Release(f.ns, "second")
	for i, got := range []string{f.answer(answer), f.answer(next)} {
		if got != "" {
			t.Errorf("pod %d: %s", i, got)
		}
	}
	f.checkBound(first, node)
	f.checkBound(second, node)
}
