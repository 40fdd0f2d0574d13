package faults_test

import (
	"context"
	"strings"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/faultproxy"
)

// succeeded checks the answer, and from the API that it is true.
func (f *fixture) succeeded(text string, pod *v1.Pod, node string) {
	f.t.Helper()
	if text != "" {
		f.t.Fatalf("binding pod %s to %s: %s", pod.Name, node, text)
	}
	f.checkBound(pod, node)
}

// mustBind asks for the bind and checks from the API that it is true.
func (f *fixture) mustBind(pod *v1.Pod, node string) {
	f.t.Helper()
	f.succeeded(f.bind(pod, node), pod, node)
}

// checkBound checks the one thing that must never be wrong: a bound pod has
// only fully bound claims.
func (f *fixture) checkBound(pod *v1.Pod, node string) {
	f.t.Helper()
	now := f.getPod(pod.Name)
	if now.Spec.NodeName != node || now.UID != pod.UID {
		f.t.Fatalf("pod %s (uid %s) is on node %q, want uid %s on %q", pod.Name, now.UID, now.Spec.NodeName, pod.UID, node)
	}
	for _, source := range now.Spec.Volumes {
		if source.PersistentVolumeClaim != nil {
			f.checkFullyBound(source.PersistentVolumeClaim.ClaimName)
		}
	}
}

func (f *fixture) checkFullyBound(name string) {
	f.t.Helper()
	claim := f.getClaim(name)
	if claim.Spec.VolumeName == "" || !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted) {
		f.t.Fatalf("pod is bound, but claim %s is not", name)
	}
	if ref := f.getVolume(claim.Spec.VolumeName).Spec.ClaimRef; ref == nil || ref.UID != claim.UID {
		f.t.Fatalf("claim %s is bound to volume %s, which is claimed by %v", name, claim.Spec.VolumeName, ref)
	}
	f.claimedOnce(claim)
}

// claimedOnce checks that no second volume is claimed for the claim.
func (f *fixture) claimedOnce(claim *v1.PersistentVolumeClaim) {
	f.t.Helper()
	list, err := f.client.CoreV1().PersistentVolumes().List(f.ctx, metav1.ListOptions{})
	f.must(err)
	var names []string
	for i := range list.Items {
		if ref := list.Items[i].Spec.ClaimRef; ref != nil && ref.UID == claim.UID {
			names = append(names, list.Items[i].Name)
		}
	}
	if len(names) > 1 {
		f.t.Fatalf("claim %s has %d volumes: %v", claim.Name, len(names), names)
	}
}

// refused checks that the answer has the code and all the words, and that the
// pod is on no node.
func (f *fixture) refused(text string, pod *v1.Pod, code string, words ...string) {
	f.t.Helper()
	f.answered(text, code, words...)
	if now := f.getPod(pod.Name); now.Spec.NodeName != "" {
		f.t.Fatalf("pod %s is on node %s after the refusal %q", pod.Name, now.Spec.NodeName, text)
	}
}

// answered checks the answer alone.
func (f *fixture) answered(text, code string, words ...string) {
	f.t.Helper()
	if !strings.HasPrefix(text, code+": ") {
		f.t.Fatalf("answer %q, want code %s", text, code)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			f.t.Errorf("answer %q lacks %q", text, word)
		}
	}
}

// free checks that nobody has claimed the volumes.
func (f *fixture) free(names ...string) {
	f.t.Helper()
	for _, name := range names {
		if ref := f.getVolume(name).Spec.ClaimRef; ref != nil {
			f.t.Errorf("volume %s is claimed by %s/%s", name, ref.Namespace, ref.Name)
		}
	}
}

// owned checks that the claim's volume is the one named.
func (f *fixture) owned(claim, pv string) {
	f.t.Helper()
	if got := f.getClaim(claim).Spec.VolumeName; got != pv {
		f.t.Errorf("claim %s is bound to volume %q, want %q", claim, got, pv)
	}
}

// mine tells whether a request is about an object of the fixture.
func (f *fixture) mine(r faultproxy.Request) bool {
	return r.Namespace == f.ns || strings.HasPrefix(r.Name, f.ns)
}

// requests returns what the stand's prebind asked about the fixture's objects,
// watches excepted: they are about all objects.
func (f *fixture) requests(matches ...faultproxy.Match) []faultproxy.Request {
	if matches == nil {
		matches = []faultproxy.Match{{}}
	}
	var found []faultproxy.Request
	for _, m := range matches {
		for _, r := range f.on.proxy.Requests(m) {
			if f.mine(r) && r.Verb != "watch" {
				found = append(found, r)
			}
		}
	}
	return found
}

// wrote checks, for every object of the fixture, how many writes the API
// server carried out for the stands (the fixture's own, if none is given), but for
// events: these are written when there is time, and nothing depends on them.
func (f *fixture) wrote(want map[string]int, stands ...*stand) {
	f.t.Helper()
	if stands == nil {
		stands = []*stand{f.on}
	}
	got := map[string]int{}
	for _, s := range stands {
		for object, n := range s.proxy.WritesByObject() {
			if strings.Contains(object, f.ns) && !strings.Contains(object, " events ") {
				got[object] += n
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("writes that the API server carried out (-want +got):\n%s", diff)
	}
}

// callEnded waits for prebind's log line of a call for the pod that ended with
// the reason: nobody is there to get the answer.
func (f *fixture) callEnded(pod *v1.Pod, reason string) {
	f.t.Helper()
	f.eventually("the call for pod "+pod.Name+" ends with "+reason, func() bool {
		lines, err := f.on.prebind.Logs()
		f.must(err)
		for _, line := range lines {
			if line["msg"] == "bind" && line["uid"] == string(pod.UID) && line["reason"] == reason {
				return true
			}
		}
		return false
	})
}

// inTime bounds a wait for what the proxy sees.
func (f *fixture) inTime() context.Context {
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	f.t.Cleanup(cancel)
	return ctx
}
