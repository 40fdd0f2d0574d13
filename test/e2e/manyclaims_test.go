package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/test/provisioner"
)

const waits = storagev1.VolumeBindingWaitForFirstConsumer

// dynamic makes a class that the test's provisioner serves. At the end of the
// test its claims go first: the provisioner would go on trying.
func (f *fixture) dynamic(name string, options ...func(*storagev1.StorageClass)) string {
	f.t.Helper()
	class := f.class(newClass(name, shared.disks.Name(), waits, options...))
	f.cleanup(func(ctx context.Context) error {
		return f.client.CoreV1().PersistentVolumeClaims(f.ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	return class
}

func params(pairs ...string) func(*storagev1.StorageClass) {
	return func(class *storagev1.StorageClass) {
		class.Parameters = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			class.Parameters[pairs[i]] = pairs[i+1]
		}
	}
}

// One claim that stands in the way keeps all the others from being written.
func TestOneImpossibleClaimAmongMany(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// spoil makes claim "bad".
		spoil func(f *fixture, local string)
		code  string
		words []string
	}{
		"S19 it does not exist": {func(*fixture, string) {}, "ClaimNotFound", []string{"not found"}},
		"no volume is large enough": {
			func(f *fixture, local string) { f.claim(newClaim("bad", local, size("1Ti"))) }, "NoVolume",
			[]string{"node(s) didn't find available persistent volumes to bind"},
		},
		"S53 its class does not exist": {func(f *fixture, _ string) { f.claim(newClaim("bad", f.name("nowhere"))) }, "ClaimUnbound", []string{"not found"}},
		"S26 its class binds at once and has not": {func(f *fixture, _ string) {
			f.claim(newClaim("bad", f.class(newClass("now", "nobody.example/none", immediate))))
		}, "ClaimUnbound", []string{"pod has unbound immediate PersistentVolumeClaims"}},
		"S33 it has no class": {func(f *fixture, _ string) {
			f.claim(newClaim("bad", "", func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("") }))
		}, "ClaimUnbound", []string{"no class"}},
		"S15 it is being provisioned elsewhere": {func(f *fixture, _ string) {
			f.claim(newClaim("bad", f.class(newClass("never", "nobody.example/none", waits)), func(c *v1.PersistentVolumeClaim) {
				c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": f.name("elsewhere")}
			}))
		}, "SelectedNodeConflict", []string{"elsewhere"}},
		"its class does not provision here": {func(f *fixture, _ string) {
			f.claim(newClaim("bad", f.dynamic("zonal", func(class *storagev1.StorageClass) {
				class.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: zone, Values: []string{"x"}}}}}
			})))
		}, "NoVolume", []string{"allowedTopologies"}},
		"it is being deleted": {func(f *fixture, local string) {
			f.claim(newClaim("bad", local))
			f.markClaimForDeletion("bad")
		}, "ClaimTerminating", []string{"is being deleted"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			local, dynamic := f.class(newLocalClass("local")), f.dynamic("dynamic")
			f.volume(newVolume("one", local, node))
			f.volume(newVolume("two", local, node, capacity("2Gi")))
			f.claim(newClaim("bound", local))
			f.mustBind(f.pod(newPod("first", nobody, "bound")), node)

			f.claim(newClaim("static", local))
			f.claim(newClaim("dynamic", dynamic))
			tc.spoil(f, local)
			pod := f.pod(newPod("web", nobody, "bound", "static", "bad", "dynamic"))
			f.refuses(pod, node, tc.code, append(tc.words, "claim "+f.ns+"/bad")...)
			f.untouched("static", "dynamic")
			f.free(f.getVolume(f.name("two")))
		})
	}
}

func TestSeveralImpossibleClaimsAreAllNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	local := f.class(newLocalClass("local"))
	f.claim(newClaim("large", local, size("1Ti")))
	f.claim(newClaim("lost", f.name("nowhere")))
	text := f.refuses(f.pod(newPod("web", nobody, "large", "lost", "missing")), node, "ClaimUnbound",
		"claim "+f.ns+"/large", "claim "+f.ns+"/lost", "claim "+f.ns+"/missing", "NoVolume: ", "ClaimNotFound: ")
	if len(text) > 1024 {
		t.Errorf("the answer is %d bytes long: kube-scheduler shows 1024", len(text))
	}
}

// sized makes claims or volumes named by their sizes.
func (f *fixture) sized(class, node string, volumes, claims []string) *v1.Pod {
	f.t.Helper()
	for i, quantity := range volumes {
		f.volume(newVolume(fmt.Sprintf("pv%d", i), class, node, capacity(quantity)))
	}
	var names []string
	for i, quantity := range claims {
		names = append(names, fmt.Sprintf("c%d", i))
		f.claim(newClaim(names[i], class, size(quantity)))
	}
	return f.pod(newPod("web", nobody, names...))
}

func TestVolumesAreSharedOutAmongTheClaimsOfAPod(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		volumes, claims []string
		fits            bool
	}{
		"three equal claims on three equal volumes":      {[]string{"1Gi", "1Gi", "1Gi"}, []string{"1Gi", "1Gi", "1Gi"}, true},
		"the small one first, only one way fits":         {[]string{"2Gi", "6Gi"}, []string{"1Gi", "5Gi"}, true},
		"the big one first, only one way fits":           {[]string{"6Gi", "2Gi"}, []string{"5Gi", "1Gi"}, true},
		"a stairway of four":                             {[]string{"4Gi", "3Gi", "2Gi", "1Gi"}, []string{"2Gi", "4Gi", "1Gi", "3Gi"}, true},
		"two claims on one volume that would do for two": {[]string{"10Gi"}, []string{"1Gi", "1Gi"}, false},
		"four claims on three volumes":                   {[]string{"1Gi", "1Gi", "1Gi"}, []string{"1Gi", "1Gi", "1Gi", "1Gi"}, false},
		"two big ones and one big volume":                {[]string{"6Gi", "2Gi"}, []string{"5Gi", "5Gi"}, false},
		"twenty claims":                                  {strings.Fields(strings.Repeat("1Gi ", 20)), strings.Fields(strings.Repeat("1Gi ", 20)), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			pod := f.sized(f.class(newLocalClass("local")), node, tc.volumes, tc.claims)
			if tc.fits {
				f.binds(pod, node)
			} else {
				f.refuses(pod, node, "NoVolume", "claim "+f.ns+"/c")
			}
		})
	}
}

func TestMixesInOnePod(t *testing.T) {
	t.Parallel()
	tests := map[string]func(f *fixture, node string) *v1.Pod{
		"a static volume for one claim, the other is provisioned": func(f *fixture, node string) *v1.Pod {
			class := f.dynamic("both")
			f.volume(newVolume("static", class, node))
			f.claim(newClaim("one", class))
			f.claim(newClaim("two", class))
			return newPod("web", nobody, "one", "two")
		},
		"ten claims to be provisioned": func(f *fixture, _ string) *v1.Pod {
			pod := newPod("web", nobody)
			for i := range 10 {
				withEphemeral(pod, fmt.Sprintf("scratch%d", i), f.dynamic(fmt.Sprintf("d%d", i)))
			}
			return pod
		},
		"the same claim twice": func(f *fixture, node string) *v1.Pod {
			class := f.class(newLocalClass("local"))
			f.volume(newVolume("static", class, node))
			f.claim(newClaim("one", class))
			pod := newPod("web", nobody, "one", "one")
			pod.Spec.Volumes[1].Name = "again"
			return pod
		},
		"hundreds of volumes of other kinds": func(f *fixture, node string) *v1.Pod {
			class := f.class(newLocalClass("local"))
			f.volume(newVolume("static", class, node))
			f.claim(newClaim("one", class))
			pod := newPod("web", nobody)
			for i := range 300 {
				source := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
				switch i % 3 {
				case 1:
					source = v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "c"}}}
				case 2:
					source = v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/tmp"}}
				}
				pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: fmt.Sprintf("v%d", i), VolumeSource: source})
			}
			pod.Spec.Volumes = append(pod.Spec.Volumes, newPod("", "", "one").Spec.Volumes...)
			return pod
		},
		"a claim mounted read-only": func(f *fixture, node string) *v1.Pod {
			class := f.class(newLocalClass("local"))
			f.volume(newVolume("static", class, node))
			f.claim(newClaim("one", class))
			pod := newPod("web", nobody, "one")
			pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
			return pod
		},
	}
	for name, build := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			pod := f.pod(build(f, node))
			f.awaitEphemeral(pod)
			f.binds(pod, node)
		})
	}
}

// awaitEphemeral waits until the controller has made the claims of the pod's
// generic ephemeral volumes.
func (f *fixture) awaitEphemeral(pod *v1.Pod) {
	f.t.Helper()
	for i := range pod.Spec.Volumes {
		if source := &pod.Spec.Volumes[i]; source.Ephemeral != nil {
			name := pod.Name + "-" + source.Name
			f.eventually("claim "+name+" is there", func() bool { return f.claimUID(name) != "" })
		}
	}
}

// S19: while one claim is not bound, nothing binds the pod, however far the
// others are.
func TestS19_NoBindingBeforeTheLastClaimIsBound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	local, dynamic := f.class(newLocalClass("local")), f.dynamic("dynamic")
	f.volume(newVolume("pv", local, node))
	f.claim(newClaim("static", local))
	f.claim(newClaim("last", f.dynamic("held", params(provisioner.Hold, "true"))))
	pod := f.pod(withEphemeral(newPod("web", nobody, "static", "last"), "scratch", dynamic))
	f.awaitEphemeral(pod)
	answer := f.start(pod, node)
	f.eventually("all claims but one are bound", func() bool {
		return f.getClaim("static").Status.Phase == v1.ClaimBound && f.getClaim("web-scratch").Status.Phase == v1.ClaimBound && f.selectedNode("last") == node
	})
	if got := f.getPod("web").Spec.NodeName; got != "" {
		t.Fatalf("the pod is on node %s, claim last is not bound", got)
	}
	shared.disks.Release(f.ns, "last")
	if text := f.answer(answer); text != "" {
		t.Fatal(text)
	}
	f.checkBound(pod, node)
	if n := len(shared.disks.Attempts(f.ns, "last")); n != 1 {
		t.Errorf("claim last was provisioned %d times", n)
	}
}
