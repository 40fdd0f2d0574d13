package main

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/config"
	"github.com/prebind/prebind/internal/testkit"
)

// BenchmarkBindCall is a bind call for a pod without claims, from admission to the
// Binding, without HTTP on either side: what the cycle itself costs.
func BenchmarkBindCall(b *testing.B) {
	api := testkit.NewAPI(b, testkit.Node("node-7"))
	engine, err := newBinder(config.Default(), clients{api.Client, api.Client, api.Client.EventsV1()}, zap.NewNop(), prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
	for _, check := range engine.checks {
		poll(func() bool { return check.Check() == nil })
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		name := podName(n)
		n++
		b.StopTimer()
		api.Put(testkit.Pod(name))
		b.StartTimer()
		err := engine.binder.Bind(ctx, binder.Request{ID: "r-1", Namespace: testkit.Namespace, Name: name, UID: testkit.UID(name), Node: "node-7"})
		if err != nil {
			b.Fatal(err)
		}
	}
}
