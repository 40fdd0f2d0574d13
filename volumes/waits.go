package volumes

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// waitCause is what a claim waits for: the label "cause".
type waitCause string

const (
	// waitForWrite: for our own write, which is to be sent or under way.
	waitForWrite waitCause = "api_write"
	// waitForShared: for another claim of the pod, which other pods use too and
	// which is bound first.
	waitForShared waitCause = "shared_claim"
	// waitForController: for the PV controller to finish the binding.
	waitForController waitCause = "pv_controller"
	// waitForProvisioner: for the provisioner to make the volume.
	waitForProvisioner waitCause = "provisioner"
	// waitForVolume: for the volume that the claim names to appear, or to be its own.
	waitForVolume waitCause = "volume"
)

// waitForTurn: to be provisioned. It is no cause of the metrics: the plugin
// ProvisioningLimit has its own.
const waitForTurn waitCause = "provisioning_limit"

func waitCauses() []waitCause {
	return []waitCause{waitForWrite, waitForShared, waitForController, waitForProvisioner, waitForVolume}
}

// words follow "waits for", until the claim has been looked at.
func (c waitCause) words() string {
	switch c {
	case waitForWrite:
		return "prebind's own write to be answered by the API server"
	case waitForShared:
		return "another claim of the pod, which other pods use too, to be bound first"
	case waitForController:
		return "the PV controller to finish the binding"
	case waitForProvisioner:
		return "its provisioner to make a volume"
	default:
		return "its volume to appear"
	}
}

// Kinds of a claim: the label "kind".
const (
	kindStatic  = "static"
	kindDynamic = "dynamic"
)

// waits are the claims that running bind calls have begun with and that are not
// fully bound yet.
type waits struct {
	metrics        *metrics
	claims, oldest *prometheus.Desc

	// mu guards cause and what of the waits as well. The call that a wait belongs to
	// is alone in changing them, and reads them without it.
	mu  sync.Mutex
	all map[*claimWait]struct{}
}

// claimWait is one of them.
type claimWait struct {
	call  *waitingCall
	claim *v1.PersistentVolumeClaim // as it was at first
	cause waitCause
	what  string // the cause in words
}

// waitingCall is a bind call whose claims are being bound.
type waitingCall struct {
	pod   *v1.Pod
	node  string
	since time.Time
	turns []*claimWait // see replace
}

var _ prometheus.Collector = (*waits)(nil)

func newWaits(m *metrics) *waits {
	return &waits{
		metrics: m,
		claims:  prometheus.NewDesc("prebind_waiting_claims", "Claims that bind calls wait for now, by cause.", []string{"cause"}, nil),
		oldest:  prometheus.NewDesc("prebind_oldest_wait_seconds", "Time since which the longest of these waits goes on; 0 if there is none.", nil, nil),
		all:     map[*claimWait]struct{}{},
	}
}

// begin is called when a bind call turns to its claims. Those that are bound already
// are no wait.
func (w *waits) begin(pod *v1.Pod, r *Reservation) *waitingCall {
	call := &waitingCall{pod: pod, node: r.node, since: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range r.items {
		cause := waitForWrite
		if i.underWay(r.node) {
			cause = i.waitsFor()
		}
		if cause == "" {
			continue
		}
		i.wait = &claimWait{call: call, claim: i.claim, cause: cause, what: cause.words()}
		w.all[i.wait] = struct{}{}
	}
	return call
}

// mark sets the cause of the claims that are still to be written for.
func (w *waits) mark(r *Reservation, cause waitCause) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range r.items {
		if i.wait != nil && !i.underWay(r.node) {
			i.wait.cause, i.wait.what = cause, cause.words()
		}
	}
}

// looked is called when a claim was looked at, and nothing is wrong with it: it is
// fully bound, or waits for what the words say.
func (w *waits) looked(i *item, what string) {
	switch cause := i.waitsFor(); {
	case i.wait == nil || (i.wait.cause == cause && i.wait.what == what):
	case cause == "":
		w.over(i, "success")
	default:
		w.mu.Lock()
		defer w.mu.Unlock()
		i.wait.cause, i.wait.what = cause, what
	}
}

// end is called when the bind call is over. What still waits then has waited in
// vain.
func (w *waits) end(r *Reservation) {
	for _, i := range r.items {
		if i.wait != nil {
			w.over(i, "error")
		}
	}
}

// replace lists what a call waits for that has not begun with its claims.
func (w *waits) replace(call *waitingCall, waiting []pending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, old := range call.turns {
		delete(w.all, old)
	}
	call.turns = call.turns[:0]
	for _, p := range waiting {
		turn := &claimWait{call: call, claim: p.item.claim, cause: waitForTurn, what: p.what}
		call.turns = append(call.turns, turn)
		w.all[turn] = struct{}{}
	}
}

func (w *waits) over(i *item, result string) {
	kind := kindStatic
	if i.provisioned() {
		kind = kindDynamic
	}
	class := w.metrics.classes.Label(volume.GetPersistentVolumeClaimClass(i.claim))
	w.metrics.wait.WithLabelValues(class, kind, result).Observe(time.Since(i.wait.call.since).Seconds())
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, i.wait)
	i.wait = nil
}

// waitsFor tells what keeps the item from being fully bound, as [boundWait.judge]
// does, whose verdict it is that waiting helps.
func (i *item) waitsFor() waitCause {
	switch {
	case i.claim.Spec.VolumeName == "" && i.kind == itemDynamic:
		return waitForProvisioner
	case i.claim.Spec.VolumeName == "":
		return waitForController
	case i.volume == nil || !owns(i.claim, i.volume):
		return waitForVolume
	case !completed(i.claim):
		return waitForController
	default:
		return ""
	}
}

// provisioned tells whether the item's volume is made for its claim.
func (i *item) provisioned() bool {
	switch {
	case i.kind == itemDynamic:
		return true
	case i.kind == itemStatic:
		return false
	case i.volume != nil:
		return metav1.HasAnnotation(i.volume.ObjectMeta, volume.AnnDynamicallyProvisioned)
	default:
		return metav1.HasAnnotation(i.claim.ObjectMeta, volume.AnnSelectedNode)
	}
}

// Describe implements prometheus.Collector.
func (w *waits) Describe(descs chan<- *prometheus.Desc) {
	descs <- w.claims
	descs <- w.oldest
}

// Collect implements prometheus.Collector.
func (w *waits) Collect(samples chan<- prometheus.Metric) {
	counts, oldest := w.now()
	for _, cause := range waitCauses() {
		samples <- prometheus.MustNewConstMetric(w.claims, prometheus.GaugeValue, float64(counts[cause]), string(cause))
	}
	samples <- prometheus.MustNewConstMetric(w.oldest, prometheus.GaugeValue, oldest.Seconds())
}

// now counts the waits, and tells how long the longest has taken.
func (w *waits) now() (counts map[waitCause]int, oldest time.Duration) {
	counts = map[waitCause]int{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for wait := range w.all {
		if wait.cause == waitForTurn {
			continue
		}
		counts[wait.cause]++
		oldest = max(oldest, time.Since(wait.call.since))
	}
	return counts, oldest
}
