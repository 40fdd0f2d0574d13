package faults_test

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/faultproxy"
)

// What others write while prebind is at work. These return errors, because
// they are mostly called by a proxy's goroutine.

// before makes an action of what others do just before a request arrives.
func (f *fixture) before(do func() error) faultproxy.Action {
	return faultproxy.Before(func(faultproxy.Request) { f.report(do()) })
}

func (f *fixture) report(err error) {
	if err != nil {
		f.t.Errorf("doing what others do: %v", err)
	}
}

func (f *fixture) patchClaim(name, patch string) error {
	_, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).Patch(f.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func (f *fixture) patchVolume(name, patch string) error {
	_, err := f.client.CoreV1().PersistentVolumes().Patch(f.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// selectNode is what another binder writes.
func (f *fixture) selectNode(claim, node string) error {
	return f.patchClaim(claim, `{"metadata":{"annotations":{"`+volume.AnnSelectedNode+`":"`+node+`"}}}`)
}

// rivalTakes claims the volume for another claim, as another binder does.
func (f *fixture) rivalTakes(pv string) error {
	now, err := f.client.CoreV1().PersistentVolumes().Get(f.ctx, pv, metav1.GetOptions{})
	if err != nil {
		return err
	}
	now.Spec.ClaimRef = &v1.ObjectReference{
		Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: f.ns, Name: "rival", UID: "rival-uid",
	}
	_, err = f.client.CoreV1().PersistentVolumes().Update(f.ctx, now, metav1.UpdateOptions{})
	return err
}

// rivalKeeps checks that the volume is still the rival's.
func (f *fixture) rivalKeeps(pv string) {
	f.t.Helper()
	if ref := f.getVolume(pv).Spec.ClaimRef; ref == nil || ref.UID != "rival-uid" || ref.Name != "rival" {
		f.t.Fatalf("volume %s, which claim rival had taken, is claimed by %v", pv, ref)
	}
}

func (f *fixture) deleteVolume(pv string) error {
	return f.client.CoreV1().PersistentVolumes().Delete(f.ctx, pv, metav1.DeleteOptions{})
}

func (f *fixture) deletePod(name string) error {
	return f.client.CoreV1().Pods(f.ns).Delete(f.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
}

// replacePod deletes the pod and makes one of the same name and claims.
func (f *fixture) replacePod(name string, claims ...string) error {
	if err := f.deletePod(name); err != nil {
		return err
	}
	pod := build.Pod(f.ns, name).Scheduler(nobody).Claim(claims...).Obj()
	_, err := f.client.CoreV1().Pods(f.ns).Create(f.ctx, pod, metav1.CreateOptions{})
	return err
}

// replaceClaim deletes the claim, whatever protects it, and makes it anew.
func (f *fixture) replaceClaim(name string) error {
	claims := f.client.CoreV1().PersistentVolumeClaims(f.ns)
	old, err := claims.Get(f.ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := claims.Delete(f.ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := f.patchClaim(name, `{"metadata":{"finalizers":null}}`); err != nil {
		return err
	}
	young := build.Claim(f.ns, name).Class(*old.Spec.StorageClassName).Obj()
	_, err = claims.Create(f.ctx, young, metav1.CreateOptions{})
	return err
}

// rivalBinds assigns the pod, as another scheduler does.
func (f *fixture) rivalBinds(pod *v1.Pod, node string) error {
	return f.client.CoreV1().Pods(f.ns).Bind(f.ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}
