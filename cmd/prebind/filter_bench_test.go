package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/prebind/prebind/config"
	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/server"
)

// benchNodes, each with benchVolumes local volumes of 1 to 20 Gi.
const benchNodes, benchVolumes = 5_000, 20

// BenchmarkFilterCall is a filter call as kube-scheduler makes it, for the names of
// 5,000 nodes: over HTTP, with the caller's share of JSON, in one process.
func BenchmarkFilterCall(b *testing.B) {
	var objects []kruntime.Object
	var names []string
	for n := range benchNodes {
		host := fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", n/250, n%250)
		names = append(names, host)
		objects = append(objects, testkit.Node(host).Label(v1.LabelHostname, host).Label(v1.LabelTopologyZone, "eu-central-1a"))
		for i := range benchVolumes {
			objects = append(objects, testkit.Volume(fmt.Sprintf("pv-%d-%d", n, i)).Size(fmt.Sprintf("%dGi", 1+i)).OnHost(host))
		}
	}
	taken := testkit.Claim("data-bound")
	objects = append(objects, testkit.Class("local"), testkit.Claim("data-free").Size("5Gi"), testkit.Claim("data-large").Size("50Gi"),
		testkit.Claim("data-none").Class("none"), taken.Bound("pv-bound"), testkit.Volume("pv-bound").OnHost(names[7]).ClaimedBy(taken))
	url := serveBench(b, objects)
	// A pod as a StatefulSet makes it has a few KB.
	pod := func(claims ...string) *v1.Pod {
		pod := testkit.Pod("db-0").Uses(claims...).UsesEmptyDir("tmp").Pod
		pod.Annotations = map[string]string{"note": string(bytes.Repeat([]byte("x"), 3000))}
		return pod
	}
	for _, tc := range []struct {
		name, verb string
		pod        *v1.Pod
		fits       int
	}{
		{"no claims", "filter", pod(), benchNodes},
		{"one static claim", "filter", pod("data-free"), benchNodes},
		{"one static claim that fits nowhere", "filter", pod("data-large"), 0},
		{"one bound claim", "filter", pod("data-bound"), 1},
		{"two static claims", "filter", pod("data-free", "data-large"), 0},
		{"scores of one static claim", "prioritize", pod("data-free"), benchNodes},
	} {
		args := &extenderv1.ExtenderArgs{Pod: tc.pod, NodeNames: &names}
		b.Run(tc.name+"/with the caller's share", func(b *testing.B) {
			timed(b, func() {
				if fits := fitting(b, tc.verb, post(b, url+"/v1/"+tc.verb, encode(b, args))); fits != tc.fits {
					b.Fatalf("the pod fits %d nodes, want %d", fits, tc.fits)
				}
			})
		})
		body := encode(b, args)
		b.Run(tc.name+"/without", func(b *testing.B) {
			timed(b, func() { post(b, url+"/v1/"+tc.verb, body) })
		})
	}
}

// timed reports the shortest call, which is what the machine can do when nothing
// else keeps it busy, the median and the 99th percentile.
func timed(b *testing.B, call func()) {
	var took []time.Duration
	b.ReportAllocs()
	runtime.GC()
	for b.Loop() {
		began := time.Now()
		call()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	for name, at := range map[string]int{"min-ms": 0, "p50-ms": len(took) / 2, "p99-ms": len(took) * 99 / 100} {
		b.ReportMetric(float64(took[at].Microseconds())/1000, name)
	}
}

func encode(b *testing.B, args *extenderv1.ExtenderArgs) []byte {
	body, err := json.Marshal(args)
	if err != nil {
		b.Fatal(err)
	}
	return body
}

// post returns the answer.
func post(b *testing.B, url string, body []byte) *bytes.Buffer {
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer := bytes.NewBuffer(make([]byte, 0, resp.ContentLength+bytes.MinRead))
	if _, err := answer.ReadFrom(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		b.Fatal(resp.Status, err)
	}
	return answer
}

// fitting decodes as kube-scheduler's HTTPExtender does. It returns the number of
// nodes that are left, or scored.
func fitting(b *testing.B, verb string, answer *bytes.Buffer) int {
	var scores extenderv1.HostPriorityList
	var result extenderv1.ExtenderFilterResult
	into := any(&result)
	if verb == "prioritize" {
		into = &scores
	}
	if err := json.NewDecoder(answer).Decode(into); err != nil || result.Error != "" {
		b.Fatal(err, result.Error)
	}
	if verb == "prioritize" {
		return len(scores)
	}
	return len(*result.NodeNames)
}

// serveBench serves the objects as `prebind serve` does, and returns the URL.
func serveBench(b *testing.B, objects []kruntime.Object) string {
	b.Helper()
	api := testkit.NewAPI(b)
	api.Put(objects...)
	registry := prometheus.NewRegistry()
	engine, err := newBinder(config.Default(), clients{api.Client, api.Client, api.Client.EventsV1()}, zap.NewNop(), registry)
	if err != nil {
		b.Fatal(err)
	}
	srv, err := server.New(server.Config{
		Address: "127.0.0.1:0", OpsAddress: "127.0.0.1:0", Binder: engine.binder, Nodes: engine.nodes, Checks: engine.checks, Registry: registry,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runBoth(ctx, srv.Run, engine.run) }()
	b.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	for _, check := range engine.checks {
		poll(func() bool { return check.Check() == nil })
	}
	return "http://" + srv.Addr().String()
}
