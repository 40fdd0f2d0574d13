package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"k8s.io/component-helpers/storage/volume"
	csitranslation "k8s.io/csi-translation-lib"
)

// stock is what a class's verdict rests on.
type stock struct {
	class       *storagev1.StorageClass
	volumes     int // of the class
	free        int // of these, without a claimRef
	waiting     int // claims of the class that have no volume
	provisioned int // volumes that its provisioner has made
}

// checkClasses looks for classes that bind with the pod and whose claims
// nobody can satisfy.
func (e *exam) checkClasses(ctx context.Context) outcome {
	if e.cluster == nil {
		return skipped("%s", e.noCluster)
	}
	client := e.cluster.client
	classes, err := client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return skipped("%s", explain(err, "list", "storageclasses"))
	}
	drivers, err := client.StorageV1().CSIDrivers().List(ctx, metav1.ListOptions{})
	if err != nil {
		return skipped("%s", explain(err, "list", "csidrivers"))
	}
	stocks := map[string]*stock{}
	for i := range classes.Items {
		if class := &classes.Items[i]; class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer {
			stocks[class.Name] = &stock{class: class}
		}
	}
	if err := e.countVolumes(ctx, stocks); err != nil {
		return skipped("%s", explain(err, "list", "persistentvolumes"))
	}
	if err := e.countClaims(ctx, stocks); err != nil {
		return skipped("%s", explain(err, "list", "persistentvolumeclaims"))
	}
	known := map[string]bool{}
	for _, driver := range drivers.Items {
		known[driver.Name] = true
	}
	out := outcome{summary: fmt.Sprintf("%d of %s bind with the pod (WaitForFirstConsumer)", len(stocks), classCount(len(classes.Items)))}
	for _, class := range classes.Items { // in the order of their names
		if s := stocks[class.Name]; s != nil {
			out.findings = append(out.findings, judgeClass(*s, known)...)
		}
	}
	return out
}

func (e *exam) countVolumes(ctx context.Context, stocks map[string]*stock) error {
	provisioners := map[string]int{}
	list := func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return e.cluster.client.CoreV1().PersistentVolumes().List(ctx, opts)
	}
	err := eachPage(ctx, list, func(pv *corev1.PersistentVolume) {
		provisioners[pv.Annotations[volume.AnnDynamicallyProvisioned]]++
		if s := stocks[volume.GetPersistentVolumeClass(pv)]; s != nil {
			s.volumes++
			if pv.Spec.ClaimRef == nil && pv.DeletionTimestamp == nil {
				s.free++
			}
		}
	})
	for _, s := range stocks {
		s.provisioned = provisioners[s.class.Provisioner]
	}
	return err
}

func (e *exam) countClaims(ctx context.Context, stocks map[string]*stock) error {
	list := func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return e.cluster.client.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, opts)
	}
	return eachPage(ctx, list, func(claim *corev1.PersistentVolumeClaim) {
		if s := stocks[volume.GetPersistentVolumeClaimClass(claim)]; s != nil && claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil {
			s.waiting++
		}
	})
}

// eachPage lists in pages of 500 objects, so that a large cluster costs neither
// side much memory at once.
func eachPage[T runtime.Object](ctx context.Context, list func(context.Context, metav1.ListOptions) (runtime.Object, error), do func(T)) error {
	return pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if item, ok := object.(T); ok {
			do(item)
		}
		return nil
	})
}

// judgeClass says whether a class's claims can get volumes. drivers are the
// names of the cluster's CSIDrivers.
func judgeClass(s stock, drivers map[string]bool) []Finding {
	name := s.class.Provisioner
	finding := Finding{Severity: Advice, Object: "storageclass " + s.class.Name}
	waiting := ""
	if s.waiting > 0 {
		waiting = fmt.Sprintf("; %s of the class without a volume now", has(s.waiting, "claim"))
	}
	switch {
	case name == volume.NotSupportedProvisioner:
		if s.free > 0 {
			return nil
		}
		finding.What = fmt.Sprintf("it has no provisioner, and none of its %s is free%s", plural(s.volumes, "volume"), waiting)
		finding.Why = "A pod with a new claim of this class finds no node, and waits."
		finding.Mend = "Create volumes of this class, or release some: a volume whose claim is gone keeps its claimRef under the policy Retain until somebody removes that."
	case strings.HasPrefix(name, "kubernetes.io/"):
		csi, err := csitranslation.New().GetCSINameFromInTreeName(name)
		if err == nil && (drivers[csi] || s.provisioned > 0) {
			return nil
		}
		finding.What = fmt.Sprintf("its in-tree provisioner %s is no part of Kubernetes any more%s", name, waiting)
		finding.Why = "A pod with a claim of this class waits for its volume until prebind's bindTimeout, over and over."
		finding.Mend = "Use a class of a CSI driver."
		if err == nil {
			finding.What = fmt.Sprintf("its in-tree provisioner %s is served by the CSI driver %s, which is not installed%s", name, csi, waiting)
			finding.Mend = "Install the driver " + csi + "."
		}
	case drivers[name] || s.provisioned > 0:
		return nil
	default:
		finding.What = fmt.Sprintf("there is no CSIDriver named %s, and no volume that it has made%s", name, waiting)
		finding.Why = "If nothing provisions for that name, a pod with a claim of this class waits for its volume until prebind's bindTimeout, over and over."
		finding.Mend = "Install the driver, or correct the class's provisioner. A provisioner that is no CSI driver has no such object: with its first volume this advice goes away."
	}
	return []Finding{finding}
}

func classCount(n int) string {
	if n == 1 {
		return "1 class"
	}
	return fmt.Sprintf("%d classes", n)
}

// has counts with the verb: "1 claim is", "2 claims are".
func has(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return fmt.Sprintf("%d %ss are", n, noun)
}

// some are the first names of a list.
func some(names []string) string {
	const most = 3
	slices.Sort(names)
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
