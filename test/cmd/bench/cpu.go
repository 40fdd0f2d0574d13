package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prebind/prebind/test/controlplane"
)

// cpuTimes are processor times in milliseconds, by program.
type cpuTimes map[string]float64

// stolen is what the programs wanted and another guest of the same host had.
const stolen = "stolen"

// programNames are the columns of the processor table, in its order.
func programNames() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "prebind", "bench"}
}

// cpuTimes reads how much each program has used so far.
func (l *lab) cpuTimes() cpuTimes {
	times := cpuTimes{
		"etcd":                    processorMilliseconds(l.cp.Etcd().PID()),
		"kube-apiserver":          processorMilliseconds(l.cp.APIServer().PID()),
		"kube-controller-manager": processorMilliseconds(l.cp.ControllerManager().PID()),
		"bench":                   processorMilliseconds(os.Getpid()),
		stolen:                    stolenMilliseconds(),
	}
	for name, process := range map[string]*controlplane.Process{"kube-scheduler": l.cp.Scheduler(), "prebind": l.prebindProcess()} {
		if process != nil {
			times[name] = processorMilliseconds(process.PID())
		}
	}
	return times
}

func (l *lab) prebindProcess() *controlplane.Process {
	if l.prebind == nil {
		return nil
	}
	return l.prebind.Process
}

// perPod is what was used since earlier, by each pod.
func (t cpuTimes) perPod(earlier cpuTimes, pods int) cpuTimes {
	used := cpuTimes{}
	for name, now := range t {
		used[name] = (now - earlier[name]) / float64(pods)
	}
	return used
}

func (t cpuTimes) sum() float64 {
	total := 0.0
	for name, used := range t {
		if name != stolen {
			total += used
		}
	}
	return total
}

// processorMilliseconds is what a process has used; 0 where the kernel does not
// tell it.
func processorMilliseconds(pid int) float64 {
	used, _ := processTime(pid)
	return float64(used) / float64(time.Millisecond)
}

// stolenMilliseconds is what all processors of the machine have been denied since
// it started; 0 where the kernel does not tell it.
func stolenMilliseconds() float64 {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal
	if len(fields) < 9 {
		return 0
	}
	ticks, err := strconv.ParseFloat(fields[8], 64)
	if err != nil {
		return 0
	}
	return ticks * 10
}

// cpuTable is where the machine's time went in each burst.
func (r *report) cpuTable() (table, bool) {
	t := table{title: "Processor time in bursts, ms a pod, from the first pod's creation to the last one's binding", header: []string{"scenario", "variant"}}
	t.header = append(t.header, programNames()...)
	t.header = append(t.header, "sum", "of the machine", stolen)
	for i := range r.Scenarios {
		for _, m := range r.Scenarios[i].Series {
			if len(m.CPU) == 0 || m.PodsPerSecond == 0 {
				continue
			}
			row := []string{r.Scenarios[i].Name, m.Variant.String()}
			for _, name := range programNames() {
				row = append(row, fmt.Sprintf("%.1f", m.CPU[name]))
			}
			share := m.CPU.sum() / 1000 * m.PodsPerSecond / float64(r.Processors)
			denied := "" // not measured
			if ms, ok := m.CPU[stolen]; ok {
				denied = fmt.Sprintf("%.1f", ms)
			}
			t.rows = append(t.rows, append(row, fmt.Sprintf("%.1f", m.CPU.sum()), fmt.Sprintf("%.0f %%", share*100), denied))
		}
	}
	return t, len(t.rows) > 0
}
