package e2e_test

import (
	"context"
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What other people do to the objects of a bind call.

// object is a JSON object of a merge patch.
type object = map[string]any

func (f *fixture) encode(patch object) []byte {
	f.t.Helper()
	data, err := json.Marshal(patch)
	f.must(err)
	return data
}

func (f *fixture) patchNode(name string, patch object) {
	f.t.Helper()
	_, err := f.client.CoreV1().Nodes().Patch(f.ctx, name, types.MergePatchType, f.encode(patch), metav1.PatchOptions{})
	f.must(err)
}

func (f *fixture) patchPod(name string, patch object) {
	f.t.Helper()
	_, err := f.client.CoreV1().Pods(f.ns).Patch(f.ctx, name, types.MergePatchType, f.encode(patch), metav1.PatchOptions{})
	f.must(err)
}

func (f *fixture) patchClaim(name string, patch object) {
	f.t.Helper()
	_, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).Patch(f.ctx, name, types.MergePatchType, f.encode(patch), metav1.PatchOptions{})
	f.must(err)
}

func (f *fixture) patchVolume(name string, patch object) {
	f.t.Helper()
	_, err := f.client.CoreV1().PersistentVolumes().Patch(f.ctx, name, types.MergePatchType, f.encode(patch), metav1.PatchOptions{})
	f.must(err)
}

func labelled(key string, value any) object {
	return object{"metadata": object{"labels": object{key: value}}}
}

func annotated(key string, value any) object {
	return object{"metadata": object{"annotations": object{key: value}}}
}

func finalized(names ...string) object {
	return object{"metadata": object{"finalizers": names}}
}

// The remove functions delete an object and whatever protects it, and return
// when it is gone.

func (f *fixture) removePod(name string) {
	f.t.Helper()
	pods := f.client.CoreV1().Pods(f.ns)
	f.must(pods.Delete(f.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	f.gone("pod "+name, func() error {
		_, err := pods.Get(f.ctx, name, metav1.GetOptions{})
		return err
	})
}

func (f *fixture) removeNode(name string) {
	f.t.Helper()
	f.must(f.client.CoreV1().Nodes().Delete(f.ctx, name, metav1.DeleteOptions{}))
}

func (f *fixture) removeClaim(name string) {
	f.t.Helper()
	claims := f.client.CoreV1().PersistentVolumeClaims(f.ns)
	f.must(claims.Delete(f.ctx, name, metav1.DeleteOptions{}))
	f.gone("claim "+name, func() error {
		_, err := claims.Patch(f.ctx, name, types.MergePatchType, f.encode(finalized()), metav1.PatchOptions{})
		return err
	})
}

func (f *fixture) removeVolume(name string) {
	f.t.Helper()
	volumes := f.client.CoreV1().PersistentVolumes()
	f.must(volumes.Delete(f.ctx, name, metav1.DeleteOptions{}))
	f.gone("volume "+name, func() error {
		_, err := volumes.Patch(f.ctx, name, types.MergePatchType, f.encode(finalized()), metav1.PatchOptions{})
		return err
	})
}

func (f *fixture) removeClass(name string) {
	f.t.Helper()
	f.must(f.client.StorageV1().StorageClasses().Delete(f.ctx, name, metav1.DeleteOptions{}))
}

func (f *fixture) gone(what string, touch func() error) {
	f.t.Helper()
	f.eventually(what+" is gone", func() bool {
		err := touch()
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			f.t.Fatal(err)
		}
		return apierrors.IsNotFound(err)
	})
}

// bindByHand assigns a pod as another scheduler would.
func (f *fixture) bindByHand(pod *v1.Pod, node string) {
	f.t.Helper()
	f.must(f.client.CoreV1().Pods(f.ns).Bind(f.ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}))
}

// claimRef makes a reference to a claim of the fixture; an empty uid means any
// claim of that name.
func (f *fixture) claimRef(name string, uid types.UID) *v1.ObjectReference {
	return &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: f.ns, Name: name, UID: uid}
}

// keep protects an object with a finalizer of its own until the test ends.
const keep = "example.com/keep"

// markVolumeForDeletion deletes a volume that somebody still protects.
func (f *fixture) markVolumeForDeletion(name string) {
	f.t.Helper()
	f.patchVolume(name, finalized(keep, "kubernetes.io/pv-protection"))
	f.cleanup(func(ctx context.Context) error {
		_, err := f.client.CoreV1().PersistentVolumes().Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	})
	f.must(f.client.CoreV1().PersistentVolumes().Delete(f.ctx, name, metav1.DeleteOptions{}))
}

// markPodForDeletion deletes a pod that somebody still protects.
func (f *fixture) markPodForDeletion(name string) {
	f.t.Helper()
	f.patchPod(name, finalized(keep))
	f.cleanup(func(ctx context.Context) error {
		_, err := f.client.CoreV1().Pods(f.ns).Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	})
	f.must(f.client.CoreV1().Pods(f.ns).Delete(f.ctx, name, metav1.DeleteOptions{}))
}

// selectedNode returns the node a claim is being provisioned for, or "".
func (f *fixture) selectedNode(claim string) string {
	f.t.Helper()
	return f.getClaim(claim).Annotations["volume.kubernetes.io/selected-node"]
}

// markClaimForDeletion deletes a claim that somebody still protects.
func (f *fixture) markClaimForDeletion(name string) {
	f.t.Helper()
	f.patchClaim(name, finalized(keep))
	f.cleanup(func(ctx context.Context) error {
		_, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	})
	f.must(f.client.CoreV1().PersistentVolumeClaims(f.ns).Delete(f.ctx, name, metav1.DeleteOptions{}))
}

// csiNode makes the node's CSINode; plugins are those migrated to CSI.
func (f *fixture) csiNode(node string, plugins ...string) {
	f.t.Helper()
	csiNodes := f.client.StorageV1().CSINodes()
	made := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if len(plugins) > 0 {
		made.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: strings.Join(plugins, ",")}
	}
	_, err := csiNodes.Create(f.ctx, made, metav1.CreateOptions{})
	f.must(err)
	f.cleanup(func(ctx context.Context) error { return csiNodes.Delete(ctx, node, metav1.DeleteOptions{}) })
}
