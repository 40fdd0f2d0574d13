package volumes

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/instrument"
)

// persist brings one patch of the object named to an end: try sends it; after
// an answer that leaves the outcome open, or says that the object has changed,
// reread looks at the object as it is now and tells whether nothing is left to
// do. Nothing is sent again before a look has succeeded. Anything else is final.
func (p *Prebinder) persist(ctx context.Context, object instrument.Object, name func() string, try func() error, reread func() (settled bool, err error)) error {
	backoff := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 8, Cap: 2 * time.Second}
	open := false  // what was sent may or may not have been done
	var sent error // what became of it
	for first := true; ; first = false {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var err error
		if open {
			var settled bool
			if settled, err = reread(); settled {
				return nil
			}
			if err == nil {
				open = false
				continue
			}
		} else {
			if sent != nil {
				p.metrics.writes.Again(object, sent)
			}
			if err = try(); err == nil {
				return nil
			}
			sent = err
		}
		if final(err) || backoff.Steps == 0 {
			return asFault(err, string(object), name())
		}
		open = true
		// The first conflict is settled at once: a lagging cache is its
		// usual cause.
		if pause := backoff.Step(); !first || !apierrors.IsConflict(err) {
			if !sleep(ctx, pause) {
				return context.Cause(ctx)
			}
		}
	}
}

// final tells whether an error of a write can not be mended by looking again.
func final(err error) bool {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e.Code != fault.APIError || final(errors.Unwrap(e))
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		code := status.Status().Code
		return code < 500 && code != 409 && code != 404 && code != 429 && code != 408
	}
	return false // no answer at all: refused, cut, timed out
}

func asFault(err error, resource, name string) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return fault.FromAPI(err, "patch", resource, name)
}

// sleep waits for d, and tells whether ctx was still there at its end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
