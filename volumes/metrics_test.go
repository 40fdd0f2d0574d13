package volumes_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

// measured checks all samples of the metrics.
func (e *env) measured(metrics []string, want ...string) {
	e.t.Helper()
	if diff := cmp.Diff(want, testkit.Samples(e.t, e.metrics, metrics...)); diff != "" {
		e.t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// waiting lists the causes for which claims wait now, once for each claim.
func (e *env) waiting() []string {
	e.t.Helper()
	families, err := e.metrics.Gather()
	if err != nil {
		e.t.Fatal(err)
	}
	var causes []string
	for _, family := range families {
		if family.GetName() != "prebind_waiting_claims" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for range int(metric.GetGauge().GetValue()) {
				causes = append(causes, metric.GetLabel()[0].GetValue())
			}
		}
	}
	return causes
}

// waited returns the sum of prebind_volume_wait_seconds over all series, in whole
// seconds, and oldest the gauge of that name.
func (e *env) waited() (sum, oldest time.Duration) {
	e.t.Helper()
	families, err := e.metrics.Gather()
	if err != nil {
		e.t.Fatal(err)
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)).Round(time.Second) }
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			switch family.GetName() {
			case "prebind_volume_wait_seconds":
				sum += seconds(metric.GetHistogram().GetSampleSum())
			case "prebind_oldest_wait_seconds":
				oldest = seconds(metric.GetGauge().GetValue())
			}
		}
	}
	return sum, oldest
}

func TestMetricsOfWaits(t *testing.T) {
	half := testkit.Claim("data-0").Names("pv-1")
	bound := testkit.Claim("data-0").Bound("pv-1")
	dynamic := testkit.Claim("data-0").Class("fast")
	tests := map[string]struct {
		objects []runtime.Object
		waits   []string                      // for what, at first
		then    func(t *testing.T, e *env)    // ends the wait after three seconds
		want    string                        // of the histogram
		end     func(t *testing.T, err error) // nil: success
	}{
		"a static binding": {
			objects: []runtime.Object{testkit.Claim("data-0"), onNode7("pv-1")},
			waits:   []string{"pv_controller"},
			then:    func(_ *testing.T, e *env) { e.FinishBinding("pv-1") },
			want:    "class=local kind=static result=success",
		},
		"a provisioner": {
			objects: []runtime.Object{dynamic},
			waits:   []string{"provisioner"},
			then:    func(_ *testing.T, e *env) { e.Provision("data-0", onNode7("pv-new").Class("fast")) },
			want:    "class=fast kind=dynamic result=success",
		},
		"a provisioner that was asked before": {
			objects: []runtime.Object{testkit.Claim("data-0").Class("fast").Selected(node7)},
			waits:   []string{"provisioner"},
			then:    func(_ *testing.T, e *env) { e.Provision("data-0", onNode7("pv-new").Class("fast")) },
			want:    "class=fast kind=dynamic result=success",
		},
		"a binding that somebody has begun": {
			objects: []runtime.Object{half, onNode7("pv-1").ClaimedBy(half)},
			waits:   []string{"pv_controller"},
			then:    func(_ *testing.T, e *env) { e.FinishBinding("pv-1") },
			want:    "class=local kind=static result=success",
		},
		"a volume that the cache does not show yet": {
			objects: []runtime.Object{testkit.Claim("data-0").Class("fast").Selected(node7)},
			waits:   []string{"provisioner"},
			then: func(t *testing.T, e *env) {
				e.Hold("persistentvolumes")
				e.Provision("data-0", onNode7("pv-new").Class("fast"))
				synctest.Wait()
				if diff := cmp.Diff([]string{"volume"}, e.waiting()); diff != "" {
					t.Errorf("waiting claims (-want +got):\n%s", diff)
				}
				e.Release("persistentvolumes")
			},
			want: "class=fast kind=dynamic result=success",
		},
		"in vain": {
			objects: []runtime.Object{dynamic},
			waits:   []string{"provisioner"},
			then:    func(_ *testing.T, e *env) { e.ChangeClaim("data-0", unselect) },
			want:    "class=fast kind=dynamic result=error",
			end: func(t *testing.T, err error) {
				t.Helper()
				if err == nil {
					t.Error("no error")
				}
			},
		},
		"none, all is bound": {objects: []runtime.Object{bound, onNode7("pv-1").ClaimedBy(bound)}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, append(tc.objects, db0())...)
				call := e.call(db0())
				if diff := cmp.Diff(tc.waits, e.waiting()); diff != "" {
					t.Errorf("waiting claims (-want +got):\n%s", diff)
				}
				if tc.then == nil {
					call.ends("")
					e.measured([]string{"prebind_volume_wait_seconds"})
					return
				}
				time.Sleep(3 * time.Second)
				if sum, oldest := e.waited(); sum != 0 || oldest != 3*time.Second {
					t.Errorf("in the wait: sum %s, oldest %s", sum, oldest)
				}
				tc.then(t, e)
				<-call.done
				if tc.end == nil {
					wantText(t, call.err, "")
				} else {
					tc.end(t, call.err)
				}
				e.measured([]string{"prebind_volume_wait_seconds"}, "prebind_volume_wait_seconds{"+tc.want+"} 1")
				if sum, oldest := e.waited(); sum < 3*time.Second || sum > 4*time.Second || oldest != 0 {
					t.Errorf("after it: sum %s, oldest %s", sum, oldest)
				}
			})
		})
	}
}

// What a call waits for before the controllers have anything to do.
func TestMetricsOfWaitsForWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod, other := testkit.Pod("db-0").Uses("data-0", "log-0", "own-0"), testkit.Pod("db-1").Uses("log-0", "data-0")
		bound := testkit.Claim("own-0").Bound("pv-own")
		e := start(t, pod, other, testkit.Claim("data-0"), testkit.Claim("log-0").Class("fast"), bound,
			onNode7("pv-1"), onNode7("pv-own").ClaimedBy(bound))
		e.meanwhile(patchVolume, func() {
			if diff := cmp.Diff([]string{"api_write", "shared_claim"}, e.waiting()); diff != "" {
				t.Errorf("waiting claims in the first write (-want +got):\n%s", diff)
			}
		})
		call := e.call(pod)
		if diff := cmp.Diff([]string{"pv_controller", "shared_claim"}, e.waiting()); diff != "" {
			t.Errorf("waiting claims after it (-want +got):\n%s", diff)
		}
		e.FinishBinding("pv-1")
		call.waits()
		if diff := cmp.Diff([]string{"provisioner"}, e.waiting()); diff != "" {
			t.Errorf("waiting claims in the end (-want +got):\n%s", diff)
		}
		e.Provision("log-0", onNode7("pv-log").Class("fast"))
		call.ends("")
		e.measured([]string{"prebind_volume_wait_seconds"},
			"prebind_volume_wait_seconds{class=fast kind=dynamic result=success} 1",
			"prebind_volume_wait_seconds{class=local kind=static result=success} 1")
	})
}

func TestMetricsOfWrites(t *testing.T) {
	writes := []string{"prebind_api_writes_total", "prebind_api_write_retries_total", "prebind_volume_conflicts_total"}
	bubble(t, func(t *testing.T) {
		e := startWith(t, volumes.Config{CompleteClaims: true}, testkit.Pod("db-0").Uses("data-0", "log-0"),
			testkit.Claim("data-0"), onNode7("pv-1"), onNode7("pv-2").Size("20Gi"), testkit.Claim("log-0").Class("fast"))
		e.RunProvisioner(func(*v1.PersistentVolumeClaim) testkit.VolumeBuilder { return onNode7("pv-new").Class("fast") })
		e.meanwhile(patchVolume, func() { e.takes("pv-1", "other") })
		e.call(testkit.Pod("db-0").Uses("data-0", "log-0")).endsSoon("")
		e.measured(writes,
			"prebind_api_write_retries_total{after=conflict object=persistentvolumeclaims} 0",
			"prebind_api_write_retries_total{after=conflict object=persistentvolumes/status} 0",
			"prebind_api_write_retries_total{after=conflict object=persistentvolumes} 1",
			"prebind_api_writes_total{object=persistentvolumeclaims result=success} 2",
			"prebind_api_writes_total{object=persistentvolumes result=conflict} 1",
			"prebind_api_writes_total{object=persistentvolumes result=success} 1",
			"prebind_api_writes_total{object=persistentvolumes/status result=success} 1",
			"prebind_volume_conflicts_total{cause=reserved} 0",
			"prebind_volume_conflicts_total{cause=taken} 1")
	})
}

func TestMetricsOfFilterCalls(t *testing.T) {
	filtered := []string{"prebind_filter_nodes_total", "prebind_filter_rejections_total"}
	bound := testkit.Claim("data").Bound("pv-1")
	plain := testkit.Pod("db-0").Uses("data")
	tests := map[string]struct {
		pod     testkit.PodBuilder
		objects []runtime.Object
		want    []string // passed, refused, and rejections
	}{
		"a volume here": {
			plain,
			[]runtime.Object{testkit.Claim("data"), onNode7("pv-1")},
			[]string{"nodes_total{result=passed} 1", "nodes_total{result=refused} 3", "rejections_total{reason=NoVolume} 2", "rejections_total{reason=NodeNotFound} 1"},
		},
		"two reasons for a node": {
			testkit.Pod("db-0").Uses("data", "scratch"),
			[]runtime.Object{bound, onNode7("pv-1").ClaimedBy(bound), testkit.Claim("scratch")},
			[]string{"nodes_total{result=passed} 0", "nodes_total{result=refused} 4", "rejections_total{reason=NoVolume} 3", "rejections_total{reason=NodeConflict} 2", "rejections_total{reason=NodeNotFound} 1"},
		},
		"no capacity": {
			plain,
			[]runtime.Object{testkit.Driver("csi.example.com", true), testkit.Claim("data").Class("fast")},
			[]string{"nodes_total{result=passed} 0", "nodes_total{result=refused} 4", "rejections_total{reason=NoCapacity} 3", "rejections_total{reason=NodeNotFound} 1"},
		},
		"being provisioned": {
			plain,
			[]runtime.Object{testkit.Claim("data").Class("fast").Selected(node7)},
			[]string{"nodes_total{result=passed} 1", "nodes_total{result=refused} 3", "rejections_total{reason=NodeNotFound} 1", "rejections_total{reason=SelectedNodeConflict} 2"},
		},
		"two claims that are not there, and one that is": {
			testkit.Pod("db-0").Uses("a", "b", "data"),
			[]runtime.Object{testkit.Claim("data").Terminating()},
			[]string{"nodes_total{result=passed} 0", "nodes_total{result=refused} 4", "rejections_total{reason=ClaimNotFound} 4", "rejections_total{reason=ClaimTerminating} 4"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, append(tc.objects, testkit.Node("node-8"), testkit.Node("node-9"))...)
				<-e.filter(tc.pod, node7, "node-8", "ghost", "node-9").done
				for i := range tc.want {
					tc.want[i] = "prebind_filter_" + tc.want[i]
				}
				slices.Sort(tc.want)
				e.measured(filtered, tc.want...)
			})
		})
	}
}

func TestMetricsOfFilterWaits(t *testing.T) {
	waits := []string{"prebind_filter_wait_duration_seconds"}
	bubble(t, func(t *testing.T) {
		e := start(t, testkit.Claim("a"), testkit.Claim("b"), testkit.Claim("c").Class("none"), onNode7("pv-1"))
		e.filter(testkit.Pod("a").Uses("a"), node7).says(t, 0, "")
		e.measured(waits, "prebind_filter_wait_duration_seconds{cause=bind_call} 0", "prebind_filter_wait_duration_seconds{cause=watch} 0")
		e.filter(testkit.Pod("b").Uses("b"), node7).says(t, offerWait, "")
		e.measured(waits, "prebind_filter_wait_duration_seconds{cause=bind_call} 1", "prebind_filter_wait_duration_seconds{cause=watch} 0")
		<-e.filter(testkit.Pod("c").Uses("c"), node7).done
		e.measured(waits, "prebind_filter_wait_duration_seconds{cause=bind_call} 1", "prebind_filter_wait_duration_seconds{cause=watch} 1")
	})
}

func TestMetricsOfTheCaches(t *testing.T) {
	index := []string{"prebind_index_free_volumes", "prebind_index_volume_groups", "prebind_index_capacities", "prebind_volume_reservations"}
	bubble(t, func(t *testing.T) {
		taken := testkit.Claim("taken")
		e := start(t, db0(), testkit.Claim("data-0"), taken, onNode7("pv-1"), onNode7("pv-2"), testkit.Volume("pv-3").OnHost("node-8"),
			onNode7("pv-4").ClaimedBy(taken), testkit.Capacity("c", "fast", "1Gi").For(v1.LabelHostname, node7), testkit.Capacity("d", "fast", "1Gi").ForNobody())
		e.measured(index, "prebind_index_capacities{} 1", "prebind_index_free_volumes{} 3", "prebind_index_volume_groups{} 2", "prebind_volume_reservations{} 0")
		e.measured([]string{"prebind_cache_objects"},
			"prebind_cache_objects{resource=csidrivers} 0", "prebind_cache_objects{resource=csinodes} 0",
			"prebind_cache_objects{resource=csistoragecapacities} 2", "prebind_cache_objects{resource=nodes} 1",
			"prebind_cache_objects{resource=persistentvolumeclaims} 2", "prebind_cache_objects{resource=persistentvolumes} 4",
			"prebind_cache_objects{resource=pods} 1", "prebind_cache_objects{resource=storageclasses} 2")
		held, err := e.p.Reserve(t.Context(), e.pod(db0()), node7)
		wantText(t, err, "")
		e.measured(index, "prebind_index_capacities{} 1", "prebind_index_free_volumes{} 2", "prebind_index_volume_groups{} 2", "prebind_volume_reservations{} 1")
		e.p.Unreserve(held)
		updates := testkit.Samples(t, e.metrics, "prebind_index_update_duration_seconds")
		if len(updates) != 2 || strings.HasSuffix(updates[0], " 0") || strings.HasSuffix(updates[1], " 0") {
			t.Errorf("updates of the indices: %q", updates)
		}
	})
}

// The gauge of a cache is 0 until all that existed is there.
func TestMetricsOfCachesThatAreNotSynced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api, registry := testkit.NewAPI(t, testkit.Node(node7)), prometheus.NewRegistry()
		caches, err := volumes.NewCaches(api.Client)
		wantText(t, err, "")
		_, err = volumes.New(volumes.Config{Client: api.Client, Caches: caches, Metrics: registry})
		wantText(t, err, "")
		want := func(value string) {
			t.Helper()
			lines := testkit.Samples(t, registry, "prebind_cache_synced")
			if len(lines) != len(caches.Synced()) {
				t.Errorf("%d caches: %q", len(caches.Synced()), lines)
			}
			for _, line := range lines {
				if !strings.HasSuffix(line, "} "+value) {
					t.Errorf("%s, want %s", line, value)
				}
			}
		}
		want("0")
		ctx, cancel := context.WithCancel(t.Context())
		caches.Start(ctx)
		synctest.Wait()
		want("1")
		cancel()
		caches.Wait()
	})
}
