package volumes

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/fault"
)

// lagGrace is how long a pod for which no volume is free waits for the watch
// of volumes to catch up: the scheduler, with a watch of its own, has just
// seen one.
const lagGrace = 500 * time.Millisecond

// maxPlans bounds how often a call plans anew because others were faster. Each
// time somebody else got on, so nothing near it is ever needed; it keeps a
// fault of ours from burning a processor.
const maxPlans = 1000

// Config is what a Prebinder needs.
type Config struct {
	Client kubernetes.Interface
	// Caches must not be started yet: New adds its event handlers.
	Caches *Caches
	// CompleteClaims lets the Prebinder write the claim's side of a static
	// binding, and the volume's phase, where that is safe, instead of waiting for
	// the PV controller to do so. It needs the right to patch
	// persistentvolumes/status. Optional.
	CompleteClaims bool
	// Metrics is where the metrics of claims, filter calls, caches and the index are
	// registered. Nil: nowhere.
	Metrics prometheus.Registerer
	// Events is told what people should see on pods and claims. Nil is nobody.
	Events Recorder
}

// Prebinder binds the claims of pods. One instance serves all bind calls;
// every method may be called in parallel.
type Prebinder struct {
	client       kubernetes.Interface
	caches       *Caches
	signals      *signals
	reservations *reservations
	graces       graces
	offers       offers
	unseen       unseen
	metrics      *metrics
	waits        *waits
	lookups      chan struct{} // holds one for each list of events under way
	handled      map[string]cache.ResourceEventHandlerRegistration

	completeClaims  bool
	controllerFirst atomic.Bool // the PV controller was faster the last time
	claimedBefore   claimedBefore

	events Recorder
}

// New returns a Prebinder that listens to the caches.
func New(cfg Config) (*Prebinder, error) {
	p := &Prebinder{
		client:       cfg.Client,
		caches:       cfg.Caches,
		signals:      newSignals(),
		reservations: newReservations(cfg.Caches, cfg.Caches.free),
		lookups:      make(chan struct{}, eventLookups),
		handled:      map[string]cache.ResourceEventHandlerRegistration{},

		completeClaims: cfg.CompleteClaims,
		claimedBefore:  claimedBefore{uids: map[types.UID]struct{}{}},

		events: cfg.Events,
	}
	if err := p.registerMetrics(cfg.Metrics); err != nil {
		return nil, err
	}
	for resource, handler := range p.handlers() {
		registration, err := cfg.Caches.informer[resource].AddEventHandler(handler)
		if err != nil {
			return nil, fmt.Errorf("listening to changes of %s: %w", resource, err)
		}
		p.handled[resource] = registration
	}
	return p, nil
}

// Reserved returns how many claims have a volume or a node promised to them at
// this moment that the cache does not show yet. At rest it is 0.
func (p *Prebinder) Reserved() int { return p.reservations.count() }

// Reservation is a plan whose volumes are held for the pod's claims. It
// belongs to one call and is not safe for parallel use.
type Reservation struct {
	node  string
	items []*item
}

// item is one claim on its way to fully bound.
type item struct {
	kind        itemKind
	provisioner string
	// claim and volume are the newest known to the call, which can be newer
	// than the cache: read live, or answered to our own write.
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
	hold   *hold // our share of the reservation for claim; nil: none
	owned  bool  // volume was seen claimed by the claim, and the claim names it
	// completable: the claimRef is our own write, on a version of the volume
	// which allows to complete the claim.
	completable bool

	wait *claimWait // nil: the call does not wait for the claim, or not yet
}

type itemKind int

const (
	itemNamed   itemKind = iota // spec.volumeName is set: bound, or about to be
	itemStatic                  // to be bound to item.volume
	itemDynamic                 // to be provisioned on the node
)

// Reserve plans the pod's claims on the node and holds the volumes chosen.
// Nothing is written. The caches are asked first; whatever they say against
// the pod is checked with the API server before it becomes an error. On
// success the caller must call Unreserve in the end, whatever comes between.
func (p *Prebinder) Reserve(ctx context.Context, pod *v1.Pod, node string) (*Reservation, error) {
	if !HasClaims(pod) {
		return &Reservation{node: node}, nil
	}
	held, err := p.planAndHold(ctx, pod, node, false)
	p.offers.taken(pod.UID)
	if err == nil {
		return held, nil
	}
	if held, err = p.reserveLate(ctx, pod, node); err != nil {
		p.tellUnfit(ctx, pod, node)
	}
	return held, err
}

// reserveLate is Reserve where the caches, as they were, speak against the pod.
func (p *Prebinder) reserveLate(ctx context.Context, pod *v1.Pod, node string) (*Reservation, error) {
	watch := p.signals.subscribe(p.poolKeys(pod)...)
	defer watch.close()
	reservation, err := p.planAndHold(ctx, pod, node, true)
	grace := time.NewTimer(lagGrace)
	defer grace.Stop()
	for fault.CodeOf(err) == fault.NoVolume {
		select {
		case <-watch.wake:
			if again, planErr := p.planAndHold(ctx, pod, node, false); planErr == nil {
				return again, nil
			}
		case <-grace.C:
			return p.planAndHold(ctx, pod, node, true)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return reservation, err
}

// poolKeys names the volumes that the pod's claims could take.
func (p *Prebinder) poolKeys(pod *v1.Pod) []string {
	var keys []string
	for _, c := range claimNames(pod) {
		if claim, err := p.caches.Claims.PersistentVolumeClaims(pod.Namespace).Get(c.Name); err == nil {
			keys = append(keys, poolKey(volume.GetPersistentVolumeClaimClass(claim)))
		}
	}
	return keys
}

func (p *Prebinder) planAndHold(ctx context.Context, pod *v1.Pod, node string, live bool) (*Reservation, error) {
	for range maxPlans {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		plan, err := p.plan(ctx, pod, node, live)
		if err != nil {
			return nil, err
		}
		// A refusal means that another call was faster; the next plan knows
		// what it holds, so this ends.
		reservation := newReservation(node, plan)
		if p.hold(node, reservation.toHold()) {
			return reservation, nil
		}
		p.metrics.conflicts.WithLabelValues(conflictReserved).Inc()
	}
	return nil, fault.New(fault.Conflict, "pod %s/%s: node %s: each of %d plans was overtaken by another pod's", pod.Namespace, pod.Name, node, maxPlans)
}

func newReservation(node string, plan *Plan) *Reservation {
	r := &Reservation{node: node}
	add := func(kind itemKind, bindings []Binding) {
		for _, b := range bindings {
			r.items = append(r.items, &item{
				kind: kind, claim: b.Claim, volume: b.Volume, provisioner: b.Provisioner,
				owned: kind == itemNamed,
			})
		}
	}
	add(itemNamed, plan.Bound)
	add(itemNamed, plan.Completing)
	add(itemStatic, plan.Static)
	add(itemDynamic, plan.Dynamic)
	return r
}

// toHold returns the items for which something has to be reserved in memory. A
// volume that is pre-bound to the claim is nobody else's candidate.
func (r *Reservation) toHold() []*item {
	var items []*item
	for _, i := range r.items {
		switch i.kind {
		case itemStatic:
			if !volume.IsVolumeBoundToClaim(i.volume, i.claim) {
				items = append(items, i)
			}
		case itemDynamic:
			if !i.underWay(r.node) {
				items = append(items, i)
			}
		case itemNamed:
		}
	}
	return items
}

// hold reserves for all the items, or for none.
func (p *Prebinder) hold(node string, items []*item) bool {
	bindings := make([]Binding, 0, len(items))
	for _, i := range items {
		bindings = append(bindings, Binding{Claim: i.claim, Volume: i.volume})
	}
	holds, ok := p.reservations.reserve(node, bindings)
	for n := range holds {
		items[n].hold = holds[n]
	}
	return ok
}

// Unreserve gives the volumes back that were not written. API writes are
// never undone: the next attempt finds them and goes on from there. It may be
// called more than once.
func (p *Prebinder) Unreserve(r *Reservation) {
	for _, item := range r.items {
		p.unhold(item)
	}
}

func (p *Prebinder) unhold(i *item) {
	if i.hold != nil {
		p.reservations.release(i.hold)
		i.hold = nil
	}
}

// confirm reads the claims live for which nothing is to be written, because
// the cache shows them bound or under way. One that was deleted and made anew
// while the watch lags still looks so there, and the pod would run without its
// volume. A claim that is written for needs no such read: what the wait sees of
// it then is newer than the write.
func (p *Prebinder) confirm(ctx context.Context, r *Reservation) error {
	var group errgroup.Group
	for _, i := range r.items {
		if i.underWay(r.node) {
			group.Go(guarded(func() error { return p.refreshClaim(ctx, i) }))
		}
	}
	return group.Wait()
}

// underWay tells whether the claim needs no write.
func (i *item) underWay(node string) bool {
	switch i.kind {
	case itemStatic:
		return owns(i.claim, i.volume)
	case itemDynamic:
		return i.claim.Annotations[volume.AnnSelectedNode] == node
	default:
		return true
	}
}

// guarded makes an error of a panic: in a goroutine of its own nobody else
// could, and it would end the process with all its calls.
func guarded(run func() error) func() error {
	return func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fault.New(fault.Internal, "panic: %v\n%s", p, debug.Stack())
			}
		}()
		return run()
	}
}

// Bind writes what the plan asks for, one claim and then the others in parallel,
// and waits until every claim of the pod is fully bound to a volume that the node
// can reach.
// Claims that other pods wait for too come first, see split. The wait ends with
// ctx; the cause of ctx says why. Errors are faults.
func (p *Prebinder) Bind(ctx context.Context, pod *v1.Pod, r *Reservation) error {
	if len(r.items) == 0 {
		return nil
	}
	call := p.waits.begin(pod, r)
	defer p.waits.end(r)
	wait := p.newWait(call, r)
	defer wait.watch.close()
	if err := p.confirm(ctx, r); err != nil {
		return err
	}
	shared, rest, err := p.split(pod, r)
	if err != nil {
		return err
	}
	for _, one := range shared {
		p.waits.mark(r, waitForShared)
		if err := p.bindFirst(ctx, call, one); err != nil {
			return err
		}
	}
	if err := p.write(ctx, rest); err != nil {
		return err
	}
	return wait.run(ctx)
}

func (p *Prebinder) bindFirst(ctx context.Context, call *waitingCall, r *Reservation) error {
	wait := p.newWait(call, r)
	defer wait.watch.close()
	if err := p.write(ctx, r); err != nil {
		return err
	}
	return wait.run(ctx)
}
