package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/prebind/prebind/config"
	"github.com/prebind/prebind/internal/logging"
	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/server"
)

// BenchmarkWaitingCall tells what one bind call costs in memory while it waits
// for a provisioner, from its connection to its place in the signals. Run it as
//
//	go test ./cmd/prebind -run '^$' -bench WaitingCall -benchtime 4000x
//
// Over plain HTTP the callers are bare connections, over HTTPS they are another
// process, and the claims have their node already, so that next to nothing of
// what is counted is theirs or the fake API server's. The time says nothing.
func BenchmarkWaitingCall(b *testing.B) {
	b.Run("http", func(b *testing.B) {
		measureWaiting(b, nil, func(address string, calls int) {
			var dialer net.Dialer
			for n := range calls {
				conn, err := dialer.DialContext(b.Context(), "tcp", address)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = conn.Close() })
				sendBind(b, conn, podName(n))
			}
		})
	})
	b.Run("https", func(b *testing.B) {
		tls := selfSigned(b)
		measureWaiting(b, tls, func(address string, calls int) { callFromOutside(b, tls, address, calls) })
	})
}

// measureWaiting has b.N calls wait, which call sends.
func measureWaiting(b *testing.B, tls *server.TLS, call func(address string, calls int)) {
	api := testkit.NewAPI(b, testkit.Node("node-7"), testkit.Class("fast").Provisions("csi.example.com"))
	for n := range b.N {
		name := podName(n)
		api.Put(testkit.Pod(name).Uses(name), testkit.Claim(name).Class("fast").Selected("node-7"))
	}
	logger, err := logging.New("info", logging.JSON, io.Discard)
	if err != nil {
		b.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	engine, err := newBinder(config.Default(), clients{api.Client, api.Client, api.Client.EventsV1()}, logger, registry)
	if err != nil {
		b.Fatal(err)
	}
	srv, err := server.New(server.Config{
		Address: "127.0.0.1:0", OpsAddress: "127.0.0.1:0", TLS: tls, Binder: engine.binder, Nodes: engine.nodes, Checks: engine.checks,
		Drain: engine.drain, Logger: zap.NewNop(), Registry: registry,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- runBoth(ctx, srv.Run, engine.run) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
	for _, check := range engine.checks {
		poll(func() bool { return check.Check() == nil })
	}
	before := memoryInUse()
	call(srv.Addr().String(), b.N)
	poll(func() bool { return callsInFlight(b, registry) == b.N })
	after := memoryInUse()
	b.ReportMetric((after.heap-before.heap)/float64(b.N), "heap-B/call")
	b.ReportMetric((after.stacks-before.stacks)/float64(b.N), "stack-B/call")
}

func podName(n int) string { return fmt.Sprintf("db-%d", n) }

// sendBind sends what kube-scheduler sends.
func sendBind(b *testing.B, conn net.Conn, pod string) {
	b.Helper()
	body := fmt.Sprintf(`{"PodName":%q,"PodNamespace":%q,"PodUID":%q,"Node":"node-7"}`, pod, testkit.Namespace, testkit.UID(pod))
	_, err := fmt.Fprintf(conn, "POST /v1/bind HTTP/1.1\r\nHost: %s\r\nUser-Agent: Go-http-client/1.1\r\n"+
		"Content-Length: %d\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n%s", conn.RemoteAddr(), len(body), body)
	if err != nil {
		b.Fatal(err)
	}
}

// poll returns when the condition holds.
func poll(condition func() bool) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		<-ticker.C
	}
}

// inUse is memory in bytes.
type inUse struct{ heap, stacks float64 }

// memoryInUse measures when garbage has gone and stacks have shrunk: each
// collection halves those that have grown too large.
func memoryInUse() inUse {
	for range 8 {
		runtime.GC()
	}
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return inUse{float64(samples[0].Value.Uint64()), float64(samples[1].Value.Uint64())}
}

func callsInFlight(b *testing.B, registry *prometheus.Registry) int {
	b.Helper()
	families, err := registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "prebind_bind_calls_in_flight" {
			return int(family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	b.Fatal("no gauge of calls in flight")
	return 0
}
