package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/status"
	"github.com/prebind/prebind/internal/version"
	"github.com/prebind/prebind/volumes"
)

// statusReader puts the state of the process together.
type statusReader struct {
	binder   *binder.Binder
	volumes  *volumes.Prebinder
	caches   *volumes.Caches
	instance status.Instance
}

func newStatus(b *binder.Binder, p *volumes.Prebinder, caches *volumes.Caches) *statusReader {
	host, _ := os.Hostname() // empty is no harm
	build := version.Get()
	return &statusReader{b, p, caches, status.Instance{
		Host: host, Version: build.Version, Commit: build.Commit, Started: time.Now().UTC(),
	}}
}

// read is called in parallel.
func (r *statusReader) read() status.Status {
	now := time.Now().UTC()
	waits := map[types.UID][]volumes.WaitingClaim{} // by pod, which has one bind call at a time
	for _, wait := range r.volumes.Waits() {
		waits[wait.UID] = wait.Claims
	}
	running, held := r.binder.Running(), r.volumes.Reservations()
	return status.Status{
		APIVersion: status.APIVersion, Kind: status.Kind, Time: now, Instance: r.instance,
		Running:           convert(running, func(c binder.Running) status.Running { return readRunning(c, waits[c.Request.UID], now) }),
		RunningTotal:      len(running),
		Reservations:      convert(held, func(h volumes.Held) status.Reservation { return readHeld(h, now) }),
		ReservationsTotal: len(held),
		Failed:            convert(r.binder.Failed(), readEnded),
		Bound:             convert(r.binder.Bound(), readEnded),
		Caches:            r.readCaches(),
	}
}

// convert makes a list of what goes into an answer; it is never null.
func convert[From, To any](list []From, one func(From) To) []To {
	converted := make([]To, 0, min(len(list), status.MaxItems))
	for _, item := range list[:min(len(list), status.MaxItems)] {
		converted = append(converted, one(item))
	}
	return converted
}

func readRunning(c binder.Running, waits []volumes.WaitingClaim, now time.Time) status.Running {
	return status.Running{
		Pod: nameOf(c.Request), UID: string(c.Request.UID), Node: c.Request.Node, RequestID: c.Request.ID,
		Since: c.Began.UTC(), AgeSeconds: now.Sub(c.Began).Seconds(), Stage: string(c.Stage),
		Claims: convert(waits[:min(len(waits), status.MaxClaims)], func(w volumes.WaitingClaim) status.WaitingClaim {
			return status.WaitingClaim{
				Claim: c.Request.Namespace + "/" + w.Name, Class: w.Class, Cause: w.Cause, WaitsFor: shorten(w.For),
			}
		}),
		ClaimsTotal: len(waits),
	}
}

func readHeld(h volumes.Held, now time.Time) status.Reservation {
	return status.Reservation{
		Claim: h.Claim.String(), Volume: h.Volume, Node: h.Node,
		Since: h.Since.UTC(), AgeSeconds: now.Sub(h.Since).Seconds(), Written: h.Written,
	}
}

func readEnded(c binder.Ended) status.Ended {
	return status.Ended{
		Began: c.Began.UTC(), DurationMS: inMilliseconds(c.Took), RequestID: c.Request.ID,
		Pod: nameOf(c.Request), UID: string(c.Request.UID), Node: c.Request.Node,
		Outcome: c.Outcome, Reason: string(c.Reason), Error: shorten(c.Error), Joined: c.Joined,
		Claims: convert(c.Claims, func(name string) string { return name }),
		Stages: convert(c.Stages, func(s binder.StageTime) status.Stage {
			return status.Stage{Name: string(s.Stage), DurationMS: inMilliseconds(s.Took)}
		}),
	}
}

func (r *statusReader) readCaches() []status.Cache {
	objects, synced := r.caches.Objects(), r.caches.Synced()
	all := make([]status.Cache, 0, len(objects))
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		all = append(all, status.Cache{Name: name, Objects: objects[name], Synced: synced[name]()})
	}
	return all
}

func nameOf(r binder.Request) string { return r.Namespace + "/" + r.Name }

func inMilliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// shorten keeps the beginning of a text, where the cause is.
func shorten(text string) string {
	if len(text) <= status.MaxText {
		return text
	}
	return strings.ToValidUTF8(text[:status.MaxText], "") + "..."
}
