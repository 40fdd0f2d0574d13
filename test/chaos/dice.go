package chaos

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// dice returns the random numbers of one actor: what one does must not depend on
// how often another has asked.
func dice(seed uint64, actor string) *rand.Rand {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(actor))
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

// between is a time between two.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

// pause waits for d and tells whether ctx was still there at its end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
