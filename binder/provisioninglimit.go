package binder

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/prebind/prebind/internal/ctxlog"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/instrument"
	"github.com/prebind/prebind/volumes"
)

// ProvisioningLimitName is the plugin's name in the configuration.
const ProvisioningLimitName = "ProvisioningLimit"

// turnRecheck is how often a call that waits for its turn asks whether it still
// needs it, beside the changes of its pod, node and claims that wake it: a volume
// may have become free.
const turnRecheck = 10 * time.Second

// ProvisioningLimits are how many claims of a storage class may be in provisioning
// at once. 0 is no limit.
type ProvisioningLimits struct {
	// PerClass is for each class that Classes does not name.
	PerClass int
	Classes  map[string]int
}

func (l ProvisioningLimits) of(class string) int {
	if limit, ok := l.Classes[class]; ok {
		return limit
	}
	return l.PerClass
}

// provisioningLimit delays a pod until there is a place for each of its claims that
// have to be provisioned. Which these are, a plan tells at first: nothing is
// reserved for a pod that waits. What is reserved then may differ from the plan,
// since others reserve at the same time; so it is reviewed, and what is more than
// was permitted goes back into the line, with the pod's old turn.
type provisioningLimit struct {
	volumes *volumes.Prebinder
	limits  ProvisioningLimits
	places  *places
}

var _ PermitReviewer = (*provisioningLimit)(nil)

func newProvisioningLimit(h Handle) (Plugin, error) {
	l := &provisioningLimit{
		volumes: h.Volumes, limits: h.ProvisioningLimits,
		places: newPlaces(h.ProvisioningLimits.of, h.BindTimeout+turnKept),
	}
	err := h.Caches.OnProvisioning(func(p volumes.Provision, over bool) { l.places.seen(wantFor(p), p.UnderWay, over) })
	if err != nil {
		return nil, fmt.Errorf("listening to changes of claims: %w", err)
	}
	return l, instrument.Register(h.Metrics, newPlacesMetrics(l.places))
}

func (*provisioningLimit) Name() string { return ProvisioningLimitName }

// Permit returns when the pod has its places, or needs none.
func (l *provisioningLimit) Permit(ctx context.Context, call *Call) error {
	if !volumes.HasClaims(call.Pod) {
		return nil
	}
	t, reviewed := call.Get(ProvisioningLimitName).(*ticket)
	if !reviewed { // else Review has asked, for what was reserved
		t = l.places.ticket(call.Pod.UID)
		call.Put(ProvisioningLimitName, t)
		call.OnEnd(func() { l.places.leave(t) })
		if err := l.ask(ctx, call, t); err != nil {
			return nil //nolint:nilerr // the caches may lag: Reserve asks the API server, and tells
		}
	}
	select {
	case <-t.ready:
		return nil
	default:
		return l.wait(ctx, call, t)
	}
}

// Review asks for the places of what has been reserved, and gives back those of what
// turned out not to be provisioned.
func (l *provisioningLimit) Review(call *Call) bool {
	t, waits := call.Get(ProvisioningLimitName).(*ticket)
	reservation, reserved := call.Get(VolumeBindingName).(*volumes.Reservation)
	if !waits || !reserved {
		return true
	}
	underWay, others := split(reservation.Provisions())
	return l.places.ask(t, underWay, others)
}

// ask asks for the places of what would be provisioned now.
func (l *provisioningLimit) ask(ctx context.Context, call *Call, t *ticket) error {
	provisions, err := l.volumes.Provisions(ctx, call.Pod, call.Node)
	if err != nil {
		return err
	}
	underWay, others := split(provisions)
	l.places.ask(t, underWay, others)
	return nil
}

// split parts the claims in those that are with their provisioner already, and the
// others.
func split(provisions []volumes.Provision) (underWay, others []want) {
	for _, p := range provisions {
		if p.UnderWay {
			underWay = append(underWay, wantFor(p))
		} else {
			others = append(others, wantFor(p))
		}
	}
	return underWay, others
}

func wantFor(p volumes.Provision) want {
	return want{claim: p.Claim.UID, name: p.Claim.Namespace + "/" + p.Claim.Name, class: p.Class}
}

// wait returns when it is the pod's turn, when nothing is left to wait for, or when
// waiting is of no use.
func (l *provisioningLimit) wait(ctx context.Context, call *Call, t *ticket) error {
	watch := l.volumes.Watch(call.Pod, call.Node)
	defer watch.Close()
	recheck := time.NewTicker(turnRecheck)
	defer recheck.Stop()
	call.ExpectWait()
	began, claims := time.Now(), zap.Strings("claims", l.places.claims(t))
	ctxlog.From(ctx).Debug("waiting for the turn to provision", claims)
	for woken, verify := false, false; ; woken = true {
		if err := watch.Check(ctx, verify); err != nil {
			return err
		}
		if err := l.ask(ctx, call, t); err != nil && woken {
			return nil // what is in the pod's way now is for Reserve to tell, not after the wait
		}
		verify = false
		watch.WaitsFor(l.turns(t))
		select {
		case <-watch.Notice():
			watch.Tell()
		case <-t.ready:
			ctxlog.From(ctx).Info("waited for the turn to provision", claims, zap.Float64("waitedMs", milliseconds(time.Since(began))))
			return nil
		case <-watch.Changed():
		case <-recheck.C:
			verify = true
		case <-ctx.Done():
			return l.ended(ctx, t)
		}
	}
}

// ended explains a wait that its context cut off.
func (l *provisioningLimit) ended(ctx context.Context, t *ticket) error {
	cause := context.Cause(ctx)
	if fault.CodeOf(cause) == fault.CallerGone {
		return cause // nobody reads it
	}
	lines := l.places.lines(t)
	if len(lines) == 0 { // its turn came at the same moment
		return cause
	}
	return fault.New(fault.CodeOf(cause), "%s; %s", strings.Join(l.describe(lines), "; "), fault.Detail(cause))
}

// turns says, for each claim by name, what it waits for.
func (l *provisioningLimit) turns(t *ticket) map[string]string {
	turns := map[string]string{}
	for _, w := range l.places.wants(t) {
		_, name, _ := strings.Cut(w.name, "/")
		turns[name] = fmt.Sprintf("its turn to be provisioned: at most %d of class %s at once (provisioningLimit)", l.limits.of(w.class), w.class)
	}
	return turns
}

// describe says, for each class, what a pod waits for.
func (l *provisioningLimit) describe(lines []line) []string {
	texts := make([]string, 0, len(lines))
	for _, line := range lines {
		texts = append(texts, fmt.Sprintf("claim %s (class %s) waits for its turn to be provisioned: in provisioning %d, limit %d (provisioningLimit), pods ahead %d",
			strings.Join(line.claims, ", "), line.class, line.inUse, l.limits.of(line.class), line.ahead))
	}
	return texts
}
