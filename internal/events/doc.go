// Package events writes Kubernetes events (events.k8s.io/v1) about pods and
// claims, so that `kubectl describe` tells what prebind waits for and why it
// failed.
//
// It owns four promises. Whoever records an event never waits: the queue is
// bounded, and what does not fit is left out. The API server is spared: one
// request at a time, a few a second at most, none for a while after one that got
// no answer; the same event again is a series, which costs a request now and
// then. What was left out is counted, in prebind_events_total. And nothing
// depends on an event: a right that is missing is logged once.
//
// Why not with client-go's recorder (tools/events): docs/adr/0015-events.md.
//
//	recorder, err := events.New(events.Config{Client: client.EventsV1(), Logger: logger, Metrics: registry})
//	go recorder.Run(ctx)
//
//	recorder.Record(events.Event{
//		Regarding: events.Pod("shop", "db-0", uid), Related: events.Claim(claim),
//		Reason: "WaitingForVolume", Action: "BindVolumes", Note: "claim shop/data-0 waits for ...",
//	})
//
// A [Recorder] is safe for parallel use, and a nil one records nothing.
package events
