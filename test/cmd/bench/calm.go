package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prebind/prebind/test/controlplane"
)

const (
	// calmShare is the share of a core that programs at rest use together.
	calmShare = 0.2
	calmLook  = time.Second
	// calmTimeout is how long to wait for it: with 100,000 volumes the PV
	// controller looks at each of them first.
	calmTimeout = 2 * time.Minute
)

// calm returns when the programs have come to rest after their start, as their
// use of the processor shows. Where the kernel does not tell, or if they never
// rest, it returns after a while.
func (l *lab) calm(ctx context.Context) error {
	programs := []*controlplane.Process{l.cp.Etcd(), l.cp.APIServer(), l.cp.ControllerManager(), l.cp.Scheduler()}
	if l.prebind != nil {
		programs = append(programs, l.prebind.Process)
	}
	used, told := processorTime(programs)
	for began := time.Now(); time.Since(began) < calmTimeout; {
		if err := pause(ctx, time.Now().Add(calmLook)); err != nil {
			return err
		}
		if !told {
			return nil
		}
		now, _ := processorTime(programs)
		share := float64(now-used) / float64(calmLook)
		if share < calmShare {
			return nil
		}
		used = now
		l.out.Status("  waiting for the programs to come to rest, %.1f cores in use", share)
	}
	l.out.Printf("  the programs have not come to rest after %s", calmTimeout)
	return nil
}

// processorTime is what programs have used together; false: the kernel does not
// tell it.
func processorTime(programs []*controlplane.Process) (time.Duration, bool) {
	total := time.Duration(0)
	for _, p := range programs {
		used, told := processTime(p.PID())
		if !told {
			return 0, false
		}
		total += used
	}
	return total, true
}

// processTime is what one process has used; false: the kernel does not tell it.
func processTime(pid int) (time.Duration, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	return statTime(string(text)), true
}

// statTime reads user and system time from /proc/PID/stat, where they are fields
// 14 and 15, in hundredths of a second. The second field may contain blanks.
func statTime(stat string) time.Duration {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64) // 0 if the kernel has changed its format
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}
