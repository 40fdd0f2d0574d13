package binder_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
)

func TestProvisioningLimitEndsWithTheCall(t *testing.T) {
	tests := map[string]struct {
		do   func(e *env, calls []*caller) // a and b have places, c and d wait in this order
		want []string                      // in provisioning then
		ends map[int]string
	}{
		"one that waits hangs up": {
			do:   func(e *env, calls []*caller) { calls[2].hangUp(); calls[2].ends(hungUp); e.provision("a") },
			want: []string{"b", "d"}, ends: map[int]string{0: ""},
		},
		"one that has a place hangs up": {
			do: func(e *env, calls []*caller) {
				calls[0].hangUp()
				calls[0].ends(hungUp)
				e.provisioning("a", "b") // a is still with its provisioner
				e.provision("a")
			},
			want: []string{"b", "c"},
		},
		"one that has a place fails": {
			do: func(e *env, _ []*caller) {
				e.ChangeClaim("a", func(c *v1.PersistentVolumeClaim) { c.Annotations = nil })
				time.Sleep(time.Second)
			},
			want: []string{"b", "c"},
			ends: map[int]string{0: `ProvisioningFailed: claim shop/a (class fast): node-7: provisioner csi.example.com gave the claim back (no event says why; see its log) [running PreBind plugin "VolumeBinding"]`},
		},
		"the pod of one that waits is deleted": {
			do:   func(e *env, _ []*caller) { e.Remove("pods", "c"); synctest.Wait(); e.provision("a") },
			want: []string{"b", "d"},
			ends: map[int]string{0: "", 2: `PodNotFound: pod shop/c: pod does not exist any more [running Permit plugin "ProvisioningLimit"]`},
		},
		"the claim of one that waits is deleted": {
			do:   func(e *env, _ []*caller) { e.Remove("persistentvolumeclaims", "c"); synctest.Wait(); e.provision("a") },
			want: []string{"b", "d"},
			ends: map[int]string{0: "", 2: `ClaimNotFound: claim shop/c: persistentvolumeclaim "c" not found [running Reserve plugin "VolumeBinding"]`},
		},
		"the claim of one that waits is made anew": {
			do: func(e *env, _ []*caller) {
				e.Hold("persistentvolumeclaims")
				e.Remove("persistentvolumeclaims", "c")
				e.Put(testkit.Claim("c").Class("fast").WithUID("uid-new"))
				e.Release("persistentvolumeclaims")
				synctest.Wait()
				e.provision("a")
			},
			want: []string{"b", "c"}, ends: map[int]string{0: ""},
		},
		"the claim of one that waits is bound by hand": {
			do: func(e *env, _ []*caller) {
				e.Put(onNode7("pv-c").Class("fast").ClaimedByUID("c", "uid-c"))
				e.FinishBinding("pv-c")
			},
			want: []string{"a", "b"}, ends: map[int]string{2: ""},
		},
		"a volume for one that waits is made by hand": {
			do: func(e *env, calls []*caller) {
				calls[3].hangUp()
				calls[3].ends(hungUp)
				e.Put(onNode7("pv-1").Class("fast"))
				time.Sleep(11 * time.Second)
				e.FinishBinding("pv-1")
			},
			want: []string{"a", "b"}, ends: map[int]string{2: ""},
		},
		"one that waits can not have its volume here any more": {
			do: func(e *env, _ []*caller) {
				e.Put(testkit.Volume("pv-8").Class("fast").OnHost("node-8").PreBound("c"))
				time.Sleep(11 * time.Second)
			},
			want: []string{"a", "b"},
			ends: map[int]string{2: `NodeConflict: claim shop/c (class fast): it is pre-bound to volume pv-8: node(s) didn't match PersistentVolume's node affinity: node node-7 [running Reserve plugin "VolumeBinding"]`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := startLimiting(t, "a:fast", "b:fast", "c:fast", "d:fast")
				calls := e.calls("a", "b", "c", "d")
				e.provisioning("a", "b")
				tc.do(e, calls)
				e.provisioning(tc.want...)
				for i, want := range tc.ends {
					calls[i].ends(want)
				}
				for _, call := range calls {
					call.hangUp()
				}
				e.idle()
			})
		})
	}
}

// The claim of a class that binds immediately is with its provisioner, or is to be,
// before prebind is asked: its pod is refused as ever, and nobody waits for it.
func TestProvisioningLimitAndImmediateClasses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := startLimiting(t, "a:slow", "b:slow", "n:now", "m:slow,now")
		e.Put(testkit.Class("now").Provisions("csi.example.com").Immediate())
		synctest.Wait()
		calls := e.calls("a", "b")
		for _, name := range []string{"n", "m"} {
			call := e.call(request(name))
			<-call.done
			if code := fault.CodeOf(call.err); code != fault.ClaimUnbound {
				t.Errorf("pod %s: %s", name, text(call.err))
			}
		}
		e.provision("a")
		e.provisioning("b")
		for _, call := range calls {
			call.hangUp()
		}
		e.idle()
	})
}

func TestProvisioningLimitEndsForAll(t *testing.T) {
	for code, end := range map[fault.Code]func(e *env){
		fault.ShuttingDown: func(e *env) { e.b.Shutdown() },
		fault.NodeNotFound: func(e *env) { e.Remove("nodes", node7) },
	} {
		t.Run(string(code), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := startLimiting(t, "a:slow", "b:slow", "c:slow")
				calls := e.calls("a", "b", "c")
				end(e)
				for i, call := range calls {
					<-call.done
					if got := fault.CodeOf(call.err); got != code || call.took > 0 {
						t.Errorf("call %d, after %s: %s", i, call.took, text(call.err))
					}
				}
				e.provisioning("a")
				e.idle()
			})
		})
	}
}

// A place is given back by whatever ends the call that has it.
func TestProvisioningLimitSurvivesPanics(t *testing.T) {
	for _, stage := range []string{"permit", "preBind"} {
		t.Run(stage, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := startLimiting(t, "a:slow", "b:slow")
				open := make(chan struct{})
				e.spies["a"].do[stage] = func(_ context.Context, call *binder.Call) error {
					if call.Pod.Name == "a" {
						<-open
						panic("a bug")
					}
					return nil
				}
				calls := e.calls("a", "b")
				e.provisioning()
				calls[1].waits()
				close(open)
				e.provisioning("b")
				if code := fault.CodeOf(calls[0].err); code != fault.Internal {
					t.Errorf("error %q", text(calls[0].err))
				}
				e.provision("b")
				calls[1].ends("")
				e.idle()
			})
		})
	}
}

// What the API shows to be with its provisioner counts, whoever has asked for it, for
// as long as somebody may take care of it.
func TestProvisioningLimitCountsWhatNoCallHas(t *testing.T) {
	change := func(f func(c *v1.PersistentVolumeClaim)) func(e *env) {
		return func(e *env) { e.ChangeClaim("a", f) }
	}
	tests := map[string]struct {
		do   func(e *env) // a is with its provisioner, and b waits
		want []string
	}{
		"bound":                           {func(e *env) { e.provision("a") }, []string{"b"}},
		"deleted":                         {func(e *env) { e.Remove("persistentvolumeclaims", "a") }, []string{"b"}},
		"given back by its provisioner":   {change(func(c *v1.PersistentVolumeClaim) { c.Annotations = nil }), []string{"b"}},
		"changed otherwise":               {change(func(c *v1.PersistentVolumeClaim) { c.Labels = map[string]string{"x": "y"} }), []string{"a"}},
		"nobody has called for some time": {func(*env) { time.Sleep(bindTimeout + 50*time.Second) }, []string{"a"}},
		"nobody has called for long":      {func(*env) { time.Sleep(bindTimeout + 90*time.Second) }, []string{"a", "b"}},
		"its last call has ended":         {func(e *env) { e.call(request("a")); time.Sleep(bindTimeout + 90*time.Second) }, []string{"a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := startLimiting(t, "a:slow", "b:slow")
				change(func(c *v1.PersistentVolumeClaim) { testkit.ClaimBuilder{PersistentVolumeClaim: c}.Selected(node7) })(e)
				synctest.Wait()
				ctx, stop := context.WithCancel(t.Context())
				var scheduler sync.WaitGroup
				scheduler.Go(func() { // again and again
					for e.b.Bind(ctx, request("b")) != nil && ctx.Err() == nil {
						time.Sleep(10 * time.Second)
					}
				})
				e.provisioning("a")
				tc.do(e)
				e.provisioning(tc.want...)
				stop()
				scheduler.Wait()
			})
		})
	}
}

// Replicas see each other's claims, also those of before they were started.
func TestProvisioningLimitOfReplicas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := startLimiting(t, "a:slow", "b:slow", "c:slow")
		other := e.limitingReplica()
		a := e.call(request("a"))
		b := other.call(request("b"))
		e.provisioning("a")
		a.hangUp() // as in a restart
		a.ends(hungUp)
		restarted := e.limitingReplica()
		c := restarted.call(request("c"))
		e.provisioning("a")
		b.hangUp()
		b.ends(hungUp)
		e.provision("a")
		e.provisioning("c")
		e.provision("c")
		c.ends("")
		for _, replica := range []*env{e, other, restarted} {
			replica.idle()
		}
	})
}

// b has waited before, and c has not.
func TestProvisioningLimitKeepsTheTurnOfAPodForAMinute(t *testing.T) {
	for after, next := range map[time.Duration]string{0: "b", 59 * time.Second: "b", 61 * time.Second: "c"} {
		t.Run(after.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := startLimiting(t, "a:slow", "b:slow", "c:slow")
				calls := e.calls("a", "b", "c")
				calls[1].hangUp()
				calls[1].ends(hungUp)
				time.Sleep(after)
				calls[1] = e.call(request("b"))
				e.provision("a")
				e.provisioning(next)
				e.provision(next)
				for _, call := range calls {
					call.hangUp()
				}
				e.idle()
			})
		})
	}
}

func TestProvisioningLimitSaysWhatACallWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := startLimiting(t, "a:slow", "b:slow", "c:slow,slow", "x:slow")
		a, b := e.call(request("a")), e.call(request("b"))
		time.Sleep(time.Minute)
		c := e.call(request("c"))
		time.Sleep(time.Minute)
		e.ChangeClaim("x", func(claim *v1.PersistentVolumeClaim) {
			testkit.ClaimBuilder{PersistentVolumeClaim: claim}.Selected(node7)
		})
		synctest.Wait()
		x := e.call(request("x")) // has a place beyond the limit
		b.hangUp()
		b.ends(hungUp)
		b = e.call(request("b")) // with its old turn
		<-c.done                 // after a, whose time was over before
		c.ends("BindTimeout: claim shop/c-0, shop/c-1 (class slow) waits for its turn to be provisioned: in provisioning 2, limit 1 (provisioningLimit), pods ahead 1; volumes.bindTimeout (10m0s) is over" +
			` [running Permit plugin "ProvisioningLimit"]`)
		if c.took != bindTimeout {
			t.Errorf("the call took %s", c.took)
		}
		for _, call := range []*caller{a, b, x} {
			call.hangUp()
		}
		e.idle()
	})
}

func TestProvisioningLimitShowsWhoWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := startLimiting(t, "a:slow", "b:slow", "c:slow", "d:fast")
		calls := e.calls("a", "b", "c", "d")
		show := func(want ...string) {
			t.Helper()
			var got []string
			for _, sample := range e.samples() {
				if rest, ok := strings.CutPrefix(sample, "prebind_provisioning_limit_"); ok {
					got = append(got, rest)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		}
		show("in_use{class=fast} 1", "in_use{class=slow} 1", "waiting{class=fast} 0", "waiting{class=slow} 2")
		time.Sleep(time.Minute)
		e.provision("a", "d")
		show("in_use{class=fast} 0", "in_use{class=slow} 1", "waiting{class=fast} 0", "waiting{class=slow} 1")
		families, err := e.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
			t.Errorf("problems: %v, error %v", problems, err)
		}
		waited := e.logs.FilterMessage("waited for the turn to provision").All()
		if len(waited) != 1 {
			t.Fatalf("%d lines about waits, want 1", len(waited))
		}
		if diff := cmp.Diff(map[string]any{"pod": "shop/b", "requestID": "r-1", "claims": []any{"shop/b"}, "waitedMs": 60000.0}, waited[0].ContextMap()); diff != "" {
			t.Errorf("line (-want +got):\n%s", diff)
		}
		e.provision("b", "c")
		for _, call := range calls {
			call.ends("")
		}
		for _, line := range e.logs.FilterMessage("bind").All() {
			stages := line.ContextMap()["stagesMs"].(map[string]any)
			if want := map[any]float64{"shop/a": 0, "shop/b": 60000, "shop/c": 60000, "shop/d": 0}[line.ContextMap()["pod"]]; stages["permit"] != want {
				t.Errorf("pod %v: permit took %v ms, want %v", line.ContextMap()["pod"], stages["permit"], want)
			}
		}
		e.idle()
	})
}

// Classes may be many; the values of a label may not.
func TestProvisioningLimitBoundsItsLabels(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := startLimiting(t)
		var calls []*caller
		for i := range 60 {
			name := fmt.Sprintf("p%02d", i)
			e.Put(testkit.Class(name).Provisions("csi.example.com"), testkit.Pod(name).Uses(name), testkit.Claim(name).Class(name))
			synctest.Wait()
			calls = append(calls, e.call(request(name)))
		}
		var inUse []string
		for _, sample := range e.samples() {
			if strings.HasPrefix(sample, "prebind_provisioning_limit_in_use{") {
				inUse = append(inUse, sample)
			}
		}
		if want := "prebind_provisioning_limit_in_use{class=_other} 10"; len(inUse) != 51 || !slices.Contains(inUse, want) {
			t.Errorf("%d classes have a label, want 50 and %q: %q", len(inUse), want, inUse)
		}
		for _, call := range calls {
			call.hangUp()
		}
		e.idle()
	})
}
