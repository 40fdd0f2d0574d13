package chaos

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prebind/prebind/test/faultproxy"
)

// faultShare is the part of the requests that are disturbed.
const faultShare = 0.05

// disturb makes the proxy disturb faultShare of all requests, of each kind of
// request with each fault that can happen to it equally often.
func disturb(proxy *faultproxy.Proxy) {
	refusals := []faultproxy.Action{
		faultproxy.AnswerRetryAfter(http.StatusTooManyRequests, time.Second),
		faultproxy.Answer(http.StatusInternalServerError),
		faultproxy.Answer(http.StatusServiceUnavailable),
		faultproxy.Cut(),
	}
	slow := faultproxy.Delay(700 * time.Millisecond)
	faults := map[string][]faultproxy.Action{
		faultproxy.Writes: append([]faultproxy.Action{
			slow, faultproxy.Answer(http.StatusConflict), faultproxy.Lose(), faultproxy.LoseAs(http.StatusGatewayTimeout),
		}, refusals...),
		faultproxy.Reads: append([]faultproxy.Action{slow, faultproxy.Answer(http.StatusGatewayTimeout)}, refusals...),
		"watch":          refusals,
	}
	for _, verb := range []string{faultproxy.Writes, faultproxy.Reads, "watch"} {
		for _, action := range faults[verb] {
			share := faultShare / float64(len(faults[verb]))
			proxy.Disturb(faultproxy.Rule{Match: faultproxy.Match{Verb: verb}, Share: share, Do: action})
		}
	}
}

// watchTrouble cuts the watches of one replica and makes them lag.
type watchTrouble struct {
	proxy *faultproxy.Proxy
	dice  *rand.Rand

	cuts, lags atomic.Int64
}

// run works until ctx ends.
func (t *watchTrouble) run(ctx context.Context) {
	resources := []string{"pods", "persistentvolumeclaims", "persistentvolumes", "nodes"}
	for pause(ctx, between(t.dice, time.Second, 8*time.Second)) {
		watches := faultproxy.Match{Resource: resources[t.dice.IntN(len(resources))]}
		if t.dice.IntN(2) == 0 {
			t.cuts.Add(int64(t.proxy.CutWatches(watches)))
			continue
		}
		hold := t.proxy.HoldWatches(watches)
		t.lags.Add(1)
		pause(ctx, between(t.dice, 200*time.Millisecond, 4*time.Second))
		hold.Release()
	}
}
