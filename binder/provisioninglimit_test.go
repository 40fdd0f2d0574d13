package binder_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

// limiting has the plugin, and a spy after it in permit and before VolumeBinding in
// preBind.
var limiting = plugins{
	binder.Permit:  {binder.ProvisioningLimitName, "a"},
	binder.Reserve: {binder.VolumeBindingName},
	binder.PreBind: {"a", binder.VolumeBindingName},
	binder.Bind:    {binder.DefaultBinderName},
}

// startLimiting returns an env in which 2 claims of a class may be in provisioning,
// and 1 of class slow. Each pod p has the claims p, or p-0, p-1 and so on, of
// the class before the colon: "a:fast", "b:fast,fast,slow".
func startLimiting(t *testing.T, pods ...string) *env {
	t.Helper()
	objects := []runtime.Object{testkit.Class("slow").Provisions("csi.example.com")}
	for _, pod := range pods {
		name, classes, _ := strings.Cut(pod, ":")
		built := testkit.Pod(name)
		for i, class := range strings.Split(classes, ",") {
			claim := name
			if strings.Contains(classes, ",") {
				claim = fmt.Sprintf("%s-%d", name, i)
			}
			built.Uses(claim)
			objects = append(objects, testkit.Claim(claim).Class(class))
		}
		objects = append(objects, built)
	}
	return startWith(t, limits, limiting, objects...)
}

func limits(_ *env, cfg *binder.Config) {
	cfg.ProvisioningLimits = binder.ProvisioningLimits{PerClass: 2, Classes: map[string]int{"slow": 1}}
}

// limitingReplica starts one more replica on the same API server.
func (e *env) limitingReplica() *env { return startOn(e.t, e.API, limits, limiting) }

// calls starts a call for each pod, one after the other.
func (e *env) calls(pods ...string) []*caller {
	var calls []*caller
	for _, pod := range pods {
		calls = append(calls, e.call(request(pod)))
	}
	return calls
}

// provision makes the volume for a claim that the provisioner was asked for.
func (e *env) provision(claims ...string) {
	e.t.Helper()
	for _, claim := range claims {
		e.Provision(claim, onNode7("pv-"+claim).Class(volume.GetPersistentVolumeClaimClass(e.Claim(claim))))
		synctest.Wait()
	}
}

// provisioning checks which claims are with their provisioner.
func (e *env) provisioning(want ...string) {
	e.t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, e.inProvisioning()); diff != "" {
		e.t.Errorf("claims in provisioning (-want +got):\n%s", diff)
	}
}

func (e *env) inProvisioning() []string {
	var names []string
	for _, name := range e.Names("persistentvolumeclaims") {
		if claim := e.Claim(name); claim.Annotations[volume.AnnSelectedNode] != "" && claim.Spec.VolumeName == "" {
			names = append(names, name)
		}
	}
	return names
}

// People see who waits for a turn, and after a minute pod and claim say so.
func TestProvisioningLimitTellsWhoWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := startLimiting(t, "a:slow", "b:slow")
		calls := e.calls("a", "b")
		waits := func(pod, cause, what string) {
			t.Helper()
			synctest.Wait()
			i := slices.IndexFunc(e.volumes.Waits(), func(w volumes.Wait) bool { return w.Pod.Name == pod })
			if i < 0 {
				t.Fatalf("pod %s does not wait", pod)
			}
			want := []volumes.WaitingClaim{{Name: pod, Class: "slow", Cause: cause, For: what}}
			if diff := cmp.Diff(want, e.volumes.Waits()[i].Claims); diff != "" {
				t.Errorf("pod %s waits for (-want +got):\n%s", pod, diff)
			}
		}
		const turn, provisioner = "its turn to be provisioned: at most 1 of class slow at once (provisioningLimit)", "provisioner csi.example.com to make a volume for node node-7"
		waits("a", "provisioner", provisioner)
		waits("b", "provisioning_limit", turn)
		<-time.After(time.Minute)
		synctest.Wait()
		told := e.told.read()
		if event := "Pod b (b): WaitingForVolume BindVolumes: node node-7: claim shop/b (class slow) waits for " + turn; !slices.Contains(told, event) || len(told) != 4 {
			t.Errorf("events %q, want two for each pod, and in them %q", told, event)
		}
		e.provision("a")
		waits("b", "provisioner", provisioner)
		e.provision("b")
		for _, call := range calls {
			call.ends("")
		}
		if waits := e.volumes.Waits(); len(waits) > 0 {
			t.Errorf("in the end these wait: %v", waits)
		}
	})
}

func TestProvisioningLimitServesPodsInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := startLimiting(t, "a:fast", "b:fast", "c:fast", "d:fast", "e:fast")
		calls := e.calls("a", "b", "c", "d", "e")
		e.provisioning("a", "b")
		e.provision("b")
		e.provisioning("a", "c")
		e.provision("a")
		e.provisioning("c", "d")
		e.provision("d", "c")
		e.provisioning("e")
		e.provision("e")
		for _, call := range calls {
			call.ends("")
		}
		e.idle()
	})
}

// idle checks that nobody waits for a place, and that those in use are of the claims
// that are with their provisioner.
func (e *env) idle() {
	e.t.Helper()
	synctest.Wait()
	inUse, waiting := 0, 0
	for _, sample := range e.samples() {
		rest, ok := strings.CutPrefix(sample, "prebind_provisioning_limit_")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(rest[strings.LastIndex(rest, " ")+1:])
		switch {
		case err != nil:
			e.t.Fatal(err)
		case strings.HasPrefix(rest, "waiting"):
			waiting += n
		default:
			inUse += n
		}
	}
	if want := len(e.inProvisioning()); inUse != want || waiting != 0 {
		e.t.Errorf("at rest %d places are in use, want %d, and %d claims wait", inUse, want, waiting)
	}
}

func TestProvisioningLimitCountsOnlyWhatIsProvisioned(t *testing.T) {
	tests := map[string]struct {
		given func(e *env)
		pods  []string
		want  []string // in provisioning after all calls have begun
	}{
		"a claim that gets a volume is none": {
			given: func(e *env) { e.Put(onNode7("pv-1").Class("fast"), onNode7("pv-2").Class("fast")) },
			pods:  []string{"a", "b", "c", "d", "e"}, want: []string{"c", "d"},
		},
		"a volume elsewhere is of no use": {
			given: func(e *env) { e.Put(testkit.Volume("pv-1").Class("fast").OnHost("node-8")) },
			pods:  []string{"a", "b", "c"}, want: []string{"a", "b"},
		},
		"a bound claim is none": {
			given: func(e *env) {
				for _, name := range []string{"a", "b"} {
					claim := testkit.Claim(name).Class("fast").Bound("pv-" + name).Selected(node7)
					e.Put(claim, onNode7("pv-"+name).Class("fast").ClaimedBy(claim))
				}
			},
			pods: []string{"a", "b", "c", "d", "e"}, want: []string{"c", "d"},
		},
		"one that is with its provisioner counts, and does not wait": {
			given: func(e *env) {
				for _, name := range []string{"c", "d", "e"} {
					e.ChangeClaim(name, func(c *v1.PersistentVolumeClaim) { testkit.ClaimBuilder{PersistentVolumeClaim: c}.Selected(node7) })
				}
			},
			pods: []string{"c", "d", "e", "a"}, want: []string{"c", "d", "e"},
		},
		"pods that share a claim share its place": {
			given: func(e *env) { e.Put(testkit.Pod("b").Uses("a")) },
			pods:  []string{"a", "b", "c", "d"}, want: []string{"a", "c"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := startLimiting(t, "a:fast", "b:fast", "c:fast", "d:fast", "e:fast")
				tc.given(e)
				synctest.Wait()
				calls := e.calls(tc.pods...)
				e.provisioning(tc.want...)
				for _, call := range calls {
					call.hangUp()
				}
				e.idle()
			})
		})
	}
}

func TestProvisioningLimitGivesAPodAllItsPlacesOrNone(t *testing.T) {
	tests := map[string]struct {
		pods  []string
		steps [][]string // after all calls, and then after each provision of the first
	}{
		"who needs one does not pass who needs two": {
			pods:  []string{"a:fast", "b:fast,fast", "c:fast"},
			steps: [][]string{{"a"}, {"b-0", "b-1"}, {"b-1", "c"}, {"c"}, nil},
		},
		"a class without a line is not held up": {
			pods:  []string{"a:fast,fast", "b:fast", "c:slow", "d:slow"},
			steps: [][]string{{"a-0", "a-1", "c"}, {"a-1", "b", "c"}, {"b", "c"}, {"c"}, {"d"}, nil},
		},
		"who needs two classes waits for both, and is not passed in either": {
			pods:  []string{"a:slow", "b:fast,slow", "c:slow", "d:fast"},
			steps: [][]string{{"a"}, {"b-0", "b-1", "d"}, {"b-1", "d"}, {"c", "d"}, {"d"}, nil},
		},
		"who needs more than there are is alone": {
			pods:  []string{"a:fast", "b:fast,fast,fast", "c:fast"},
			steps: [][]string{{"a"}, {"b-0", "b-1", "b-2"}, {"b-1", "b-2"}, {"b-2", "c"}, {"c"}, nil},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := startLimiting(t, tc.pods...)
				var calls []*caller
				for _, pod := range tc.pods {
					name, _, _ := strings.Cut(pod, ":")
					calls = append(calls, e.call(request(name)))
				}
				for _, want := range tc.steps {
					e.provisioning(want...)
					if len(want) > 0 {
						e.provision(want[0])
					}
				}
				for _, call := range calls {
					call.ends("")
				}
				e.idle()
			})
		})
	}
}

// held makes plugin a hold the pod up between permit and reserve, until the function
// returned is called.
func (e *env) held(pod string) (release func()) {
	open := make(chan struct{})
	e.spies["a"].do["permit"] = func(_ context.Context, call *binder.Call) error {
		if call.Pod.Name == pod {
			<-open
		}
		return nil
	}
	return func() { close(open); synctest.Wait() }
}

// What was reserved counts, not what was planned before.
func TestProvisioningLimitReviewsWhatWasReserved(t *testing.T) {
	t.Run("the volume is gone", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := startLimiting(t, "a:slow", "b:slow", "c:slow")
			a := e.call(request("a"))
			e.Put(onNode7("pv-1").Class("slow"))
			synctest.Wait()
			release := e.held("b")
			b := e.call(request("b")) // permitted, since pv-1 is there
			e.ChangeVolume("pv-1", func(pv *v1.PersistentVolume) { testkit.VolumeBuilder{PersistentVolume: pv}.ClaimedByUID("x", "uid-x") })
			synctest.Wait()
			c := e.call(request("c"))
			release()
			e.provisioning("a")
			b.waits()
			e.provision("a")
			a.ends("")
			e.provisioning("b") // it came before c
			e.provision("b")
			b.ends("")
			e.provisioning("c")
			e.provision("c")
			c.ends("")
			e.idle()
		})
	})
	t.Run("there is a volume now", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := startLimiting(t, "b:slow", "c:slow")
			release := e.held("b")
			b := e.call(request("b")) // has the place
			e.Put(onNode7("pv-1").Class("slow"))
			synctest.Wait()
			release()
			c := e.call(request("c"))
			e.provisioning("c")
			e.FinishBinding("pv-1")
			b.ends("")
			e.provision("c")
			c.ends("")
			e.idle()
		})
	})
	t.Run("the caches do not know the claim", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := startLimiting(t, "a:slow")
			a := e.call(request("a"))
			e.Hold("persistentvolumeclaims")
			e.Put(testkit.Pod("b").Uses("b"), testkit.Claim("b").Class("slow"))
			synctest.Wait()
			b := e.call(request("b"))
			time.Sleep(time.Minute)
			e.provisioning("a")
			b.waits()
			e.Release("persistentvolumeclaims")
			e.provision("a")
			a.ends("")
			e.provisioning("b")
			e.provision("b")
			b.ends("")
			e.idle()
		})
	})
}
