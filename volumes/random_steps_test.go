package volumes_test

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
)

var (
	nodeNames = []string{"n-0", "n-1", "n-2"}
	watched   = []string{"persistentvolumes", "persistentvolumeclaims", "nodes", "pods"}
)

// step is one thing that happens. What A, B and C mean depends on Do; each is
// taken modulo what there is.
type step struct {
	Do      string
	A, B, C int
	Settle  bool // everybody comes to rest before the next step
}

func pick(names []string, n int) string {
	if len(names) == 0 {
		return ""
	}
	return names[n%len(names)]
}

// do makes a step happen. One that makes no sense now does nothing.
func (w *world) do(s step) {
	claims, pvs := w.Names("persistentvolumeclaims"), w.Names("persistentvolumes")
	r := w.replicas[s.C%len(w.replicas)]
	switch s.Do {
	case "call":
		if pod := w.Pod(pick(w.Names("pods"), s.A)); pod != nil && pod.Spec.NodeName == "" {
			w.call(pod, nodeNames[s.B%len(nodeNames)], r)
		}
	case "cancel":
		if len(w.calls) > 0 {
			w.calls[s.A%len(w.calls)].cancel(fault.New(fault.CallerGone, "the scheduler has hung up"))
		}
	case "sync volume":
		w.pvs.SyncVolume(pick(pvs, s.A))
	case "sync claim":
		w.pvs.SyncClaim(pick(claims, s.A))
	case "restart controller":
		w.audit.lost(w.pvs)
		w.pvs = w.NewPVController()
	case "provision":
		w.provision(pick(claims, s.A), s.B%4 != 0)
	case "hold":
		r.hold(watched[s.A%len(watched)])
	case "renew unseen": // rare by chance, and where a bound claim is mistaken
		r.hold("persistentvolumeclaims")
		w.meddle(step{Do: "renew claim"}, pick(claims, s.A), "")
	case "advance":
		r.client.Advance(watched[s.A%len(watched)], 1+s.B)
	case "release":
		r.release(watched[s.A%len(watched)])
	case "restart":
		w.restart(s.C % len(w.replicas))
	case "time":
		time.Sleep([]time.Duration{5 * time.Millisecond, 50 * time.Millisecond, time.Second, 11 * time.Second}[s.A%4])
	default:
		w.meddle(s, pick(claims, s.A), pick(pvs, s.A))
	}
}

// meddle is what others do to the objects.
func (w *world) meddle(s step, claim, pv string) {
	w.made++
	label := fmt.Sprint("edit-", w.made)
	switch s.Do {
	case "label claim":
		if claim != "" {
			w.ChangeClaim(claim, func(c *v1.PersistentVolumeClaim) { c.Labels = map[string]string{"foreign": label} })
		}
	case "label volume":
		if pv != "" {
			w.ChangeVolume(pv, func(v *v1.PersistentVolume) { metav1.SetMetaDataLabel(&v.ObjectMeta, "foreign", label) })
		}
	case "take volume":
		if now := w.Volume(pv); now != nil && now.Spec.ClaimRef == nil {
			w.ChangeVolume(pv, func(v *v1.PersistentVolume) {
				testkit.VolumeBuilder{PersistentVolume: v}.ClaimedByUID("foreign", types.UID(label))
				if s.B%2 == 0 { // else it was another scheduler
					v.Status.Phase = v1.VolumeBound
				}
			})
		}
	case "reset volume": // only what is not finished, or was a foreigner's
		if now := w.Volume(pv); now != nil && now.Spec.ClaimRef != nil && !w.finished(now) {
			w.ChangeVolume(pv, func(v *v1.PersistentVolume) {
				v.Spec.ClaimRef = nil // the phase is the PV controller's
				delete(v.Annotations, volume.AnnBoundByController)
			})
		}
	case "delete volume":
		if now := w.Volume(pv); now != nil && !w.finished(now) {
			w.Remove("persistentvolumes", pv)
			if s.B%2 == 0 {
				renewed := testkit.Volume(pv).OnHost(nodeNames[s.B%len(nodeNames)]).Phase(v1.VolumePending)
				renewed.UID = types.UID(label)
				w.Put(renewed)
			}
		}
	case "renew claim":
		if now := w.Claim(claim); now != nil {
			w.Remove("persistentvolumeclaims", claim)
			renewed := testkit.Claim(claim).WithUID(types.UID(label)).Class(*now.Spec.StorageClassName)
			renewed.Spec.Resources, renewed.OwnerReferences = now.Spec.Resources, now.OwnerReferences
			w.Put(renewed)
		}
	case "renew pod":
		if now := w.Pod(pick(w.Names("pods"), s.A)); now != nil && now.Spec.NodeName == "" {
			w.Remove("pods", now.Name)
			now.UID = types.UID(label)
			w.Put(now)
		}
	case "relabel node":
		w.putNode(s.A%len(nodeNames), s.B)
	case "delete node":
		if node := nodeNames[s.A%len(nodeNames)]; len(w.Names("nodes")) > 1 && pick(w.Names("nodes"), s.A) == node {
			w.Remove("nodes", node)
		}
	default:
		panic("unknown step " + s.Do)
	}
}

// putNode gives a node the labels that node number like has at first.
func (w *world) putNode(n, like int) {
	w.Put(testkit.Node(nodeNames[n]).Label(v1.LabelHostname, nodeNames[like%len(nodeNames)]).
		Label(v1.LabelTopologyZone, zones[like%len(zones)]))
}

var zones = []string{"z-0", "z-1"}

func (w *world) finished(pv *v1.PersistentVolume) bool {
	if pv.Spec.ClaimRef == nil {
		return false
	}
	claim := w.Claim(pv.Spec.ClaimRef.Name)
	return claim != nil && claim.UID == pv.Spec.ClaimRef.UID && (claim.Spec.VolumeName == pv.Name || pv.Status.Phase == v1.VolumeBound)
}

// provision lets the provisioner look at the claim: it makes a volume, or
// gives the claim back.
func (w *world) provision(name string, willing bool) {
	claim := w.Claim(name)
	if claim == nil || claim.Spec.VolumeName != "" {
		return
	}
	selected, asked := claim.Annotations[volume.AnnSelectedNode]
	if !asked {
		return
	}
	pv := "pvc-" + string(claim.UID)
	if w.Volume(pv) != nil {
		w.pvs.SyncVolume(pv)
		return
	}
	node := w.node(selected)
	if node == nil || !willing {
		w.ChangeClaim(name, func(c *v1.PersistentVolumeClaim) { delete(c.Annotations, volume.AnnSelectedNode) })
		return
	}
	size := claim.Spec.Resources.Requests[v1.ResourceStorage]
	w.Put(testkit.Volume(pv).Class(*claim.Spec.StorageClassName).Size(size.String()).OnHost(node.Labels[v1.LabelHostname]).
		ClaimedByUID(name, claim.UID).Annotate(volume.AnnDynamicallyProvisioned, "csi.example.com").Phase(v1.VolumePending))
	w.pvs.SyncVolume(pv)
}

func (w *world) node(name string) *v1.Node {
	states := w.States("nodes", name, w.Version(), w.Version())
	node, _ := states[0].(*v1.Node)
	return node
}

// trouble lists what can go wrong with a request.
var trouble = []testkit.Fault{
	{},
	{Refuse: apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "x", errors.New("modified"))},
	{Refuse: apierrors.NewInternalError(errors.New("etcd leader changed"))},
	{Refuse: apierrors.NewServiceUnavailable("down")},
	{Refuse: apierrors.NewTimeoutError("slow", 1)},
	{Refuse: apierrors.NewTooManyRequestsError("slow down")},
	{Refuse: errors.New("connect: connection refused")},
	{Lose: apierrors.NewTimeoutError("request timed out", 1)},
	{Lose: errors.New("read: connection reset by peer")},
	{Delay: 30 * time.Millisecond},
	{Delay: 3 * time.Second},
	{Delay: 3 * time.Second, Lose: errors.New("read: connection reset by peer")},
}
