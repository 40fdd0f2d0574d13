package volumes_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

func names(provisions []volumes.Provision) []string {
	var texts []string
	for _, p := range provisions {
		texts = append(texts, fmt.Sprintf("%s (%s) under way: %t", p.Claim.Name, p.Class, p.UnderWay))
	}
	return texts
}

// What the caches tell, and what is then reserved.
func TestProvisions(t *testing.T) {
	bound := testkit.Claim("bound").Class("fast").Bound("pv-bound").Selected(node7)
	tests := map[string]struct {
		pod     testkit.PodBuilder
		objects []runtime.Object
		want    []string
		wantErr string
	}{
		"no claims": {pod: testkit.Pod("db-0")},
		"bound, static, to be provisioned, and under way": {
			pod: testkit.Pod("db-0").Uses("bound", "static", "mixed", "new", "asked"),
			objects: []runtime.Object{
				bound, onNode7("pv-bound").Class("fast").ClaimedBy(bound),
				testkit.Claim("static"), onNode7("pv-static"),
				testkit.Claim("mixed").Class("fast").Size("5Gi"), onNode7("pv-mixed").Class("fast").Size("5Gi"),
				testkit.Claim("new").Class("fast"), testkit.Claim("asked").Class("fast").Selected(node7),
			},
			want: []string{"new (fast) under way: false", "asked (fast) under way: true"},
		},
		"no plan": {
			pod: testkit.Pod("db-0").Uses("data-0"), objects: []runtime.Object{testkit.Claim("data-0")},
			wantErr: "NoVolume: claim shop/data-0 (class local): node node-7: node(s) didn't find available persistent volumes to bind (0 volumes considered, class provisions none)",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, append(tc.objects, tc.pod)...)
				provisions, err := e.p.Provisions(t.Context(), tc.pod.Pod, node7)
				wantText(t, err, tc.wantErr)
				if diff := cmp.Diff(tc.want, names(provisions)); diff != "" {
					t.Errorf("Provisions() (-want +got):\n%s", diff)
				}
				if reads := e.Reads(); len(reads) > 0 || e.p.Reserved() > 0 {
					t.Errorf("reads %v, %d reserved", reads, e.p.Reserved())
				}
				reservation, err := e.p.Reserve(t.Context(), tc.pod.Pod, node7)
				wantText(t, err, tc.wantErr)
				if err != nil {
					return
				}
				defer e.p.Unreserve(reservation)
				if diff := cmp.Diff(tc.want, names(reservation.Provisions())); diff != "" {
					t.Errorf("reserved (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestOnProvisioning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := testkit.NewAPI(t, testkit.Claim("waits").Class("fast"), testkit.Claim("goes").Class("fast").Selected(node7))
		caches, err := volumes.NewCaches(api.Client)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = caches.OnProvisioning(func(p volumes.Provision, over bool) {
			got = append(got, fmt.Sprintf("%s (%s) under way: %t, over: %t", p.Claim.Name, p.Class, p.UnderWay, over))
		})
		if err != nil {
			t.Fatal(err)
		}
		caches.Start(t.Context())
		t.Cleanup(caches.Wait)
		step := func(want ...string) {
			t.Helper()
			synctest.Wait()
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
			got = nil
		}
		step("goes (fast) under way: true, over: false", "waits (fast) under way: false, over: false")
		api.ChangeClaim("waits", func(c *v1.PersistentVolumeClaim) { testkit.ClaimBuilder{PersistentVolumeClaim: c}.Selected(node7) })
		step("waits (fast) under way: true, over: false")
		api.ChangeClaim("waits", func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv-1" }) // half bound
		step("waits (fast) under way: true, over: false")
		api.ChangeClaim("waits", func(c *v1.PersistentVolumeClaim) { testkit.ClaimBuilder{PersistentVolumeClaim: c}.Bound("pv-1") })
		api.Remove("persistentvolumeclaims", "goes")
		step("goes (fast) under way: true, over: true", "waits (fast) under way: true, over: true")
	})
}

// A PodWatch wakes for the pod, its node and its claims, and tells when waiting is of
// no use.
func TestPodWatch(t *testing.T) {
	tests := map[string]struct {
		change func(e *env)
		wakes  bool
		want   string
	}{
		"nothing happens":      {change: func(*env) {}},
		"another claim":        {change: func(e *env) { e.Put(testkit.Claim("other")) }},
		"its claim changes":    {change: func(e *env) { e.Put(testkit.Claim("data-0").Selected(node7)) }, wakes: true},
		"its claim is made":    {change: func(e *env) { e.Put(testkit.Claim("db-0-scratch")) }, wakes: true},
		"the pod changes":      {change: func(e *env) { e.ChangePod("db-0", func(p *v1.Pod) { p.Status.Message = "x" }) }, wakes: true},
		"the pod is deleted":   {change: func(e *env) { e.Remove("pods", "db-0") }, wakes: true, want: "PodNotFound: pod shop/db-0: pod does not exist any more"},
		"the node is deleted":  {change: func(e *env) { e.Remove("nodes", node7) }, wakes: true, want: "NodeNotFound: node node-7: it was deleted while claims of pod shop/db-0 were being bound for it"},
		"the pod is made anew": {change: func(e *env) { e.Put(testkit.Pod("db-0").WithUID("new")) }, wakes: true, want: "PodReplaced: pod shop/db-0: it was deleted and made anew (uid new, was uid-db-0)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				pod := testkit.Pod("db-0").Uses("data-0").UsesEphemeral("scratch")
				e := start(t, pod, testkit.Claim("data-0"))
				watch := e.p.Watch(e.Pod("db-0"), node7)
				defer watch.Close()
				wantText(t, watch.Check(t.Context(), false), "")
				tc.change(e)
				synctest.Wait()
				woken := false
				select {
				case <-watch.Changed():
					woken = true
				default:
				}
				if woken != tc.wakes {
					t.Errorf("woken: %t, want %t", woken, tc.wakes)
				}
				wantText(t, watch.Check(t.Context(), false), tc.want)
			})
		})
	}
}
