package programs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/prebind/prebind/test/internal/console"
)

// lock takes the lock file, waiting for its holder as long as ctx lasts. The
// kernel releases it when its holder ends, however that happens.
func lock(ctx context.Context, name string, out *console.Console) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	take := func(context.Context) (bool, error) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			out.Status("waiting for another build of the programs")
			return false, nil
		}
		return err == nil, err
	}
	if err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, take); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", name, err), file.Close())
	}
	return func() { _ = file.Close() }, nil // closing unlocks
}
