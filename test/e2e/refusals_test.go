package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/test/controlplane"
)

// S40: a prebind that may do its main work, but not read single objects.
func TestS40_ReadsAreForbidden(t *testing.T) {
	f := newFixture(t)
	weak := f.lacking(map[string][]string{
		"pods": {"get"}, "nodes": {"get"}, "persistentvolumeclaims": {"get"}, "persistentvolumes": {"get"}, "storageclasses": {"get"}, "events": {"list"},
	}, controlplane.PrebindOptions{})
	node := f.node("a", nil)
	local := f.class(newLocalClass("local"))
	f.volume(newVolume("pv", local, node))
	// What the caches show is enough; a call that comes before they do is
	// refused and named.
	bindsInTheEnd := func(name string, claims ...string) {
		pod := f.pod(newPod(name, nobody, claims...))
		f.eventually("pod "+name+" is bound", func() bool {
			text := f.bindBy(weak, pod, node)
			if text != "" {
				f.checkRefused(text, "Forbidden", "RBAC", "get ")
			}
			return text == ""
		})
		f.checkBound(pod, node)
	}
	bindsInTheEnd("plain")
	f.claim(newClaim("data", local))
	bindsInTheEnd("static", "data")

	t.Run("a bound claim is read once more", func(*testing.T) {
		f.refusedBy(weak, newPod("again", nobody, "data"), node, "get persistentvolumeclaims", f.ns+"/data")
	})
	t.Run("a claim that the cache lacks", func(*testing.T) {
		f.refusedBy(weak, newPod("lost", nobody, "missing"), node, "get ")
	})
	t.Run("a node that the cache lacks", func(*testing.T) {
		f.refusedBy(weak, newPod("nowhere", nobody), f.name("nowhere"), "get nodes", f.name("nowhere"))
	})
	t.Run("a pod that the cache lacks", func(*testing.T) {
		pod := newPod("ghost", nobody)
		pod.Namespace, pod.UID = f.ns, "7"
		f.checkRefused(f.bindBy(weak, pod, node), "Forbidden", "get pods", f.ns+"/ghost")
	})
	t.Run("no event can be read about a failure", func(*testing.T) {
		f.claim(newClaim("dynamic", f.dynamic("bad", failing(1000, "the secret reason"))))
		pod := f.pod(newPod("dynamic", nobody, "dynamic"))
		f.eventually("the failure is answered", func() bool {
			text := f.bindBy(weak, pod, node)
			if strings.HasPrefix(text, "Forbidden: ") {
				return false // the claim was not in the cache yet
			}
			f.checkRefused(text, "ProvisioningFailed", "claim "+f.ns+"/dynamic", shared.disks.Name())
			return true
		})
	})
}

// refusedBy makes the pod, and asks until the caches know it.
func (f *fixture) refusedBy(p *controlplane.Prebind, pod *v1.Pod, node string, words ...string) {
	f.t.Helper()
	made := f.pod(pod)
	f.eventually("the answer has "+strings.Join(words, ", "), func() bool {
		text := f.bindBy(p, made, node)
		f.checkRefused(text, "Forbidden", "RBAC")
		return strings.Contains(text, words[0])
	})
	if got := f.getPod(made.Name).Spec.NodeName; got != "" {
		f.t.Errorf("pod %s is on node %s", made.Name, got)
	}
	f.checkRefused(f.bindBy(p, made, node), "Forbidden", words...)
}

// S40: no cache can be filled; readiness names each.
func TestS40_NothingCanBeListed(t *testing.T) {
	f := newFixture(t)
	resources := []string{"pods", "nodes", "persistentvolumeclaims", "storageclasses", "csinodes", "csidrivers", "csistoragecapacities"}
	removed := map[string][]string{}
	for _, resource := range resources {
		removed[resource] = []string{"list", "watch"}
	}
	blind := f.lacking(removed, controlplane.PrebindOptions{Unready: true})
	f.eventually("readyz names every cache", func() bool {
		code, text := f.get(blind.OpsURL() + "/readyz?verbose")
		missing := 0
		for _, resource := range resources {
			if !strings.Contains(text, "[-]cache-"+resource+" failed") {
				missing++
			}
		}
		return code == http.StatusServiceUnavailable && missing == 0 && strings.Contains(text, "[+]cache-persistentvolumes")
	})
	pod := f.pod(newPod("web", nobody))
	f.checkRefused(f.bindBy(blind, pod, f.node("a", nil)), "NotReady", "cache-")
}
