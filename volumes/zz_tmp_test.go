package volumes_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/prebind/prebind/internal/testkit"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestF1LaggingPod(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0().WithUID("old"), testkit.Claim("data-0"), onNode7("pv-1"))
		e.Hold("pods")
		e.Remove("pods", "db-0")
		e.Put(db0())
		e.RunPVController()
		call := e.call(db0())
		<-call.done
		call.ends("")
	})
}

func TestF2LagBoth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0())
		e.Hold("persistentvolumeclaims")
		e.Hold("persistentvolumes")
		e.Put(testkit.Claim("data-0"), onNode7("pv-1"))
		e.RunPVController()
		call := e.call(db0())
		<-time.After(10*time.Millisecond)
		e.Release("persistentvolumeclaims")
		e.Release("persistentvolumes")
		<-call.done
		call.ends("")
	})
}

func TestF3NodeLiveFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"))
		r, err := e.p.Reserve(t.Context(), e.Pod("db-0"), node7)
		wantText(t, err, "")
		defer e.p.Unreserve(r)
		e.Remove("nodes", node7)
		time.Sleep(time.Second)
		e.Before("get", "nodes", 1, func(testkit.Request) error { return apierrors.NewInternalError(errors.New("boom")) })
		wantText(t, e.p.Bind(t.Context(), e.Pod("db-0"), r), "")
	})
}

func TestF4SharedClaimConflict(t *testing.T) {
	bubble(t, func(t *testing.T) {
		other := testkit.Pod("db-1").Uses("data-0")
		e := start(t, db0(), other, testkit.Claim("data-0"), onNode7("pv-1"), onNode7("pv-2").Size("20Gi"))
		r1, err := e.p.Reserve(t.Context(), e.Pod("db-0"), node7)
		wantText(t, err, "")
		r2, err := e.p.Reserve(t.Context(), e.Pod("db-1"), node7)
		wantText(t, err, "")
		e.Hold("persistentvolumes")
		e.takes("pv-1", "other")
		e.RunPVController()
		e1 := e.p.Bind(t.Context(), e.Pod("db-0"), r1)
		wantText(t, e1, "")
		e.p.Unreserve(r1)
		e.p.Unreserve(r2)
		e.Release("persistentvolumes")
	})
}

func TestF5NamesSecondVolume(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"), onNode7("pv-2").Size("20Gi"))
		e.meanwhile(patchVolume, func() { e.takes("pv-1", "other"); e.Before("patch", patchVolume, 0, func(r testkit.Request) error {if r.Name == "pv-2" {return apierrors.NewInvalid(schema.GroupKind{Kind:"x"}, "pv-2", nil)}; return nil}) })
		call := e.call(db0())
		<-call.done
		call.ends("")
	})
}
func TestF6HalfBoundReset(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := testkit.Claim("data-0").Names("pv-1")
		e := start(t, db0(), c, onNode7("pv-1").ClaimedBy(c))
		call := e.callWithin(db0(), time.Minute)
		e.ChangeVolume("pv-1", release)
		<-call.done
		call.ends("x")
	})
}
func TestF7BoundVolumeDeleted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := testkit.Claim("data-0").Bound("pv-1")
		e := start(t, testkit.Pod("db-0").Uses("data-0", "data-1"), testkit.Claim("data-1"), onNode7("pv-2"), c, onNode7("pv-1").ClaimedBy(c))
		call := e.callWithin(testkit.Pod("db-0").Uses("data-0", "data-1"), time.Minute)
		e.Remove("persistentvolumes", "pv-1")
		<-call.done
		call.ends("x")
	})
}
func TestF8CancelDuringReserve(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"))
		call := e.callWithin(db0(), 0)
		<-call.done
		call.ends("x")
	})
}
func TestF9ForeignRefSameClaimTwoVolumes(t *testing.T) {
	// another replica bound the claim to pv-2 while our PV watch lags
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"), onNode7("pv-2").Size("20Gi"))
		e.Hold("persistentvolumes"); e.Hold("persistentvolumeclaims")
		e.takes("pv-2", "data-0")
		call := e.callWithin(db0(), time.Minute)
		e.FinishBinding("pv-2")
		e.Release("persistentvolumes"); e.Release("persistentvolumeclaims")
		<-call.done
		call.ends("x")
		t.Log(e.Writes(), e.claimant("pv-1"))
	})
}
var _ runtime.Object
var _ v1.Pod
