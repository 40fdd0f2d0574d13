package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/test/controlplane"
)

// scaleOptions say how large the cluster is in which prebind is started.
type scaleOptions struct {
	World  world `json:"world"`
	Claims int   `json:"claims"`
	// Starts is how often prebind is started.
	Starts int `json:"starts"`
	// SecondLook is how long after it is ready its memory is looked at again. Go
	// collects garbage every two minutes at the latest.
	SecondLook time.Duration `json:"secondLookNanoseconds"`
}

func scaleDefaults(quick bool) scaleOptions {
	if quick {
		return scaleOptions{World: world{500, 20}, Claims: 10_000, Starts: 1, SecondLook: 5 * time.Second}
	}
	return scaleOptions{World: world{5000, 20}, Claims: 100_000, Starts: 2, SecondLook: 130 * time.Second}
}

// The goals at the default size.
const (
	askedMiB     = 600
	askedSeconds = 20
	fullClaims   = 100_000
)

// scale is how much memory and time prebind needs for a large cluster.
type scale struct {
	scaleOptions
	Runs []scaleRun `json:"runs"`
}

// scaleRun is one start of prebind.
type scaleRun struct {
	ReadySeconds float64 `json:"readySeconds"` // from its start to /readyz
	ReadyMiB     float64 `json:"readyMiB"`     // resident when ready
	LaterMiB     float64 `json:"laterMiB"`     // resident at the second look
	PeakMiB      float64 `json:"peakMiB"`      // most resident at any time
	HeapMiB      float64 `json:"heapMiB"`      // on the heap at the second look
	CPUSeconds   float64 `json:"cpuSeconds"`   // until ready
}

// measureScale makes the cluster and starts prebind in it. Claims are as large as
// bound ones (they name a volume and have the annotations), and the volumes are
// free all the same, so that the index holds each: more than either state needs.
// No controller runs that would object.
func (l *lab) measureScale(ctx context.Context, opts scaleOptions) (*scale, error) {
	l.out.Printf("scale: %s, %s claims", opts.World, thousands(opts.Claims))
	if err := l.cp.ControllerManager().Kill(); err != nil {
		return nil, err
	}
	if err := l.grow(ctx, opts.World); err != nil {
		return nil, err
	}
	if err := l.createScaleClaims(ctx, opts.Claims); err != nil {
		return nil, err
	}
	s := &scale{scaleOptions: opts}
	for range opts.Starts {
		one, err := l.scaleStart(ctx, opts.SecondLook)
		if err != nil {
			return nil, err
		}
		l.out.Printf("  ready after %.1f s with %.0f MiB, later %.0f MiB, at most %.0f MiB", one.ReadySeconds, one.ReadyMiB, one.LaterMiB, one.PeakMiB)
		s.Runs = append(s.Runs, one)
	}
	return s, nil
}

func (l *lab) createScaleClaims(ctx context.Context, count int) error {
	namespace, err := l.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "scale-"},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making claims: %w", err)
	}
	err = l.parallel(ctx, "claims made", count, func(ctx context.Context, i int) error {
		claim := l.claim(namespace.Name, fmt.Sprintf("data-%06d", i), i)
		claim.Spec.VolumeName = l.volume(i%l.world.Nodes, i/l.world.Nodes%l.world.PerNode).Name
		claim.Annotations = map[string]string{
			"pv.kubernetes.io/bind-completed":        "yes",
			"pv.kubernetes.io/bound-by-controller":   "yes",
			"volume.kubernetes.io/selected-node":     nodeNameOf(i % l.world.Nodes),
			"volume.kubernetes.io/storage-resizer":   className,
			"example.com/some-tool-has-written-this": "2026-11-30T12:00:00Z",
		}
		_, err := l.client.CoreV1().PersistentVolumeClaims(namespace.Name).Create(ctx, claim, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("making claims: %w", err)
	}
	return nil
}

// scaleStart starts prebind, looks at it twice, and stops it.
func (l *lab) scaleStart(ctx context.Context, second time.Duration) (scaleRun, error) {
	if err := l.startPrebind(ctx, variant{controlplane.ModeFull, controller}); err != nil {
		return scaleRun{}, err
	}
	run := scaleRun{ReadySeconds: l.took["prebind"].Seconds()}
	run.ReadyMiB, _ = memory(l.prebind.Process)
	ready, err := l.prebindMetrics(ctx)
	if err != nil {
		return run, err
	}
	run.CPUSeconds = ready.sum("process_cpu_seconds_total", nil)
	if err := pause(ctx, time.Now().Add(second)); err != nil {
		return run, err
	}
	later, err := l.prebindMetrics(ctx)
	if err != nil {
		return run, err
	}
	run.HeapMiB = later.sum("go_memstats_heap_alloc_bytes", nil) / (1 << 20)
	run.LaterMiB, run.PeakMiB = memory(l.prebind.Process)
	return run, l.stop(ctx)
}

func (l *lab) prebindMetrics(ctx context.Context) (families, error) {
	text, err := l.prebind.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	return parseMetrics(text)
}

func (s *scale) table() table {
	t := table{
		title:  fmt.Sprintf("scale: prebind started beside %s and %s claims", s.World, thousands(s.Claims)),
		header: []string{"start", "ready s", "resident MiB when ready", fmt.Sprintf("%s later MiB", s.SecondLook), "of these on the heap MiB", "peak MiB", "CPU s until ready"},
	}
	for i, r := range s.Runs {
		t.rows = append(t.rows, []string{
			fmt.Sprint(i + 1), fmt.Sprintf("%.1f", r.ReadySeconds), fmt.Sprintf("%.0f", r.ReadyMiB), fmt.Sprintf("%.0f", r.LaterMiB),
			fmt.Sprintf("%.0f", r.HeapMiB), fmt.Sprintf("%.0f", r.PeakMiB), fmt.Sprintf("%.1f", r.CPUSeconds),
		})
	}
	return t
}

// goalRows compare the worst start with the goals, at the size they are for.
func (s *scale) goalRows() [][]string {
	if s.Claims < fullClaims || s.World.volumes() < fullClaims {
		return nil
	}
	var worst scaleRun
	for _, r := range s.Runs {
		worst.ReadySeconds, worst.PeakMiB = max(worst.ReadySeconds, r.ReadySeconds), max(worst.PeakMiB, r.PeakMiB)
	}
	what := fmt.Sprintf("%s volumes, %s claims", thousands(s.World.volumes()), thousands(s.Claims))
	verdict := func(x, most float64) string {
		if x <= most {
			return "yes"
		}
		return "**no**"
	}
	return [][]string{
		{what + ", peak memory", "", "", fmt.Sprintf("%.0f MiB", worst.PeakMiB), "", fmt.Sprintf("at most %d MiB", askedMiB), verdict(worst.PeakMiB, askedMiB)},
		{what + ", start to ready", "", "", fmt.Sprintf("%.1f s", worst.ReadySeconds), "", fmt.Sprintf("at most %d s", askedSeconds), verdict(worst.ReadySeconds, askedSeconds)},
	}
}
