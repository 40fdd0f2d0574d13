package volumes

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// history is what calls did, in which order as far as they can tell.
type history struct {
	clock atomic.Int64

	mu  sync.Mutex
	ops []porcupine.Operation
}

// run notes an operation with its result. It lets others go first now and
// then: operations that are this short would hardly ever meet.
func (h *history) run(client int, input any, run func() any) any {
	runtime.Gosched()
	called := h.clock.Add(1)
	runtime.Gosched()
	output := run()
	h.note(client, input, output, called, h.clock.Add(1))
	return output
}

func (h *history) note(client int, input, output any, called, returned int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: input, Output: output, Call: called, Return: returned})
}

// check fails the test if no order of the operations explains their results.
// A page that shows the history is left behind then.
func (h *history) check(t *testing.T, seed uint64, model porcupine.Model) {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(model, h.ops, time.Minute)
	switch result {
	case porcupine.Ok:
	case porcupine.Unknown:
		t.Errorf("seed %d: no answer within a minute for %d operations", seed, len(h.ops))
	case porcupine.Illegal:
		page := filepath.Join(t.ArtifactDir(), fmt.Sprintf("history-%d.html", seed))
		if err := porcupine.VisualizePath(model, info, page); err != nil {
			t.Error(err)
		}
		t.Fatalf("seed %d: no order of these %d operations explains their results; look at %s (go test -artifacts keeps it)\n%s", seed, len(h.ops), page, h.describe(model))
	}
}

func (h *history) describe(model porcupine.Model) string {
	text := ""
	for _, op := range h.ops {
		text += fmt.Sprintf("[%3d,%3d] %s\n", op.Call, op.Return, model.DescribeOperation(op.Input, op.Output))
	}
	return text
}

// modelSeeds yields the seeds of a run: as many as short says, or long with
// PREBIND_LONG=1, or the one of PREBIND_SEED.
func modelSeeds(t *testing.T, short, long uint64) iter.Seq[uint64] {
	first, count := uint64(1), short
	if os.Getenv("PREBIND_LONG") != "" {
		// Seeds that no run had before.
		first, count = uint64(time.Now().UnixNano()), long
	}
	if text := os.Getenv("PREBIND_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &first); err != nil {
			t.Fatalf("PREBIND_SEED: %v", err)
		}
		count = 1
	}
	t.Logf("seeds %d to %d; PREBIND_SEED=n runs one again", first, first+count-1)
	return func(yield func(uint64) bool) {
		for n := range count {
			if !yield(first + n) {
				return
			}
		}
	}
}
