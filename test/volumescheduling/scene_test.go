package volumescheduling_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/prebind/prebind/test/build"
)

// sceneLabel carries the namespace of the scene that an object without a
// namespace belongs to. Pods go to the nodes of their own scene alone.
const sceneLabel = "scene"

// scene is one scenario's corner of the shared control plane: a namespace, and
// nodes, classes and volumes whose names begin with it.
type scene struct {
	registration
	t      *testing.T
	ctx    context.Context
	client kubernetes.Interface
	ns     string
	nodes  []string
}

func newScene(t *testing.T, r registration, nodes int) *scene {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	s := &scene{registration: r, t: t, ctx: ctx, client: shared.cp.Client()}
	var err error
	s.ns, err = shared.cp.CreateNamespace(s.ctx, "scene")
	s.must(err)
	t.Cleanup(s.remove)
	var objects []runtime.Object
	for i := range nodes {
		s.nodes = append(s.nodes, s.name(fmt.Sprintf("node%d", i)))
		objects = append(objects, s.node(i).Obj())
	}
	s.create(objects...)
	return s
}

// remove takes the scene away, so that what is left of it costs the scheduler
// nothing. An error only means that a thing was gone.
func (s *scene) remove() {
	if s.t.Failed() {
		s.t.Logf("the end of prebind's log:\n%s", shared.prebind.Tail(20))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	mine := metav1.ListOptions{LabelSelector: sceneLabel + "=" + s.ns}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	_ = s.client.CoreV1().Pods(s.ns).DeleteCollection(ctx, now, metav1.ListOptions{})
	_ = s.client.CoreV1().Nodes().DeleteCollection(ctx, now, mine)
	_ = s.client.CoreV1().Namespaces().Delete(ctx, s.ns, metav1.DeleteOptions{})
	_ = s.client.CoreV1().PersistentVolumes().DeleteCollection(ctx, now, mine)
	_ = s.client.StorageV1().StorageClasses().DeleteCollection(ctx, now, mine)
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// name makes a cluster-wide name of a short one.
func (s *scene) name(short string) string { return s.ns + "-" + short }

// create creates objects in parallel.
func (s *scene) create(objects ...runtime.Object) {
	s.t.Helper()
	group, ctx := errgroup.WithContext(s.ctx)
	group.SetLimit(16)
	for _, object := range objects {
		group.Go(func() error { return shared.cp.Create(ctx, object) })
	}
	s.must(group.Wait())
}

func (s *scene) node(i int) *build.NodeBuilder { return build.Node(s.nodes[i]).Label(sceneLabel, s.ns) }

// class builds a class of static volumes that binds with the pod.
func (s *scene) class(name string) *build.ClassBuilder {
	b := build.Class(s.name(name))
	metav1.SetMetaDataLabel(&b.Obj().ObjectMeta, sceneLabel, s.ns)
	return b
}

// volume builds a local volume of 1Gi on a node.
func (s *scene) volume(name, class string, node int) *build.VolumeBuilder {
	return build.Volume(s.name(name)).Class(s.name(class)).Capacity("1Gi").OnNode(s.nodes[node]).Label(sceneLabel, s.ns)
}

// claim builds a claim for 1Gi.
func (s *scene) claim(name, class string) *build.ClaimBuilder {
	return build.Claim(s.ns, name).Class(s.name(class))
}

// pod builds a pod that the scheduler may take to the scene's nodes only.
func (s *scene) pod(name string, claims ...string) *build.PodBuilder {
	return build.Pod(s.ns, name).Claim(claims...).NodeSelector(sceneLabel, s.ns).
		Label(sceneLabel, s.ns).Scheduler(shared.cp.SchedulerName())
}

// eventually waits until missing returns "", else tells what it returned last.
func (s *scene) eventually(missing func() string) {
	s.t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(s.ctx, 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = missing()
		return last == "", nil
	})
	if err != nil {
		s.t.Fatalf("%s (%v)", last, err)
	}
}

// bound waits until the pods are bound and returns them in order.
func (s *scene) bound(names ...string) []*v1.Pod {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	pods := make([]*v1.Pod, len(names))
	errs := make([]error, len(names))
	var group errgroup.Group
	for i, name := range names {
		group.Go(func() error {
			pods[i], errs[i] = shared.cp.WaitBound(ctx, s.ns, name)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs, all of them
	s.must(errors.Join(errs...))
	return pods
}

// notAtOnce is what the scheduler says of a claim that binds without its pod and
// is not bound.
const notAtOnce = "pod has unbound immediate PersistentVolumeClaims"

// unschedulable waits until the scheduler says of the pod that no node suits
// it, with all the words.
func (s *scene) unschedulable(name string, words ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	_, err := shared.cp.WaitPod(ctx, s.ns, name, "unschedulable because of "+strings.Join(words, ", "), func(pod *v1.Pod) bool {
		if pod == nil {
			return false
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable {
				return containsAll(c.Message, words)
			}
		}
		return false
	})
	s.must(err)
}

func containsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func (s *scene) getClaim(name string) *v1.PersistentVolumeClaim {
	s.t.Helper()
	claim, err := s.client.CoreV1().PersistentVolumeClaims(s.ns).Get(s.ctx, name, metav1.GetOptions{})
	s.must(err)
	return claim
}

// claimsAre waits until the claims have the phase, which the PV controller
// writes last.
func (s *scene) claimsAre(phase v1.PersistentVolumeClaimPhase, names ...string) {
	s.t.Helper()
	s.eventually(func() string {
		list, err := s.client.CoreV1().PersistentVolumeClaims(s.ns).List(s.ctx, metav1.ListOptions{})
		s.must(err)
		have := map[string]v1.PersistentVolumeClaimPhase{}
		for _, claim := range list.Items {
			have[claim.Name] = claim.Status.Phase
		}
		return difference("claim", have, names, phase)
	})
}

// volumesAre waits until the volumes, by their short names, have the phase.
func (s *scene) volumesAre(phase v1.PersistentVolumePhase, names ...string) {
	s.t.Helper()
	s.eventually(func() string {
		list, err := s.client.CoreV1().PersistentVolumes().List(s.ctx, metav1.ListOptions{LabelSelector: sceneLabel + "=" + s.ns})
		s.must(err)
		have := map[string]v1.PersistentVolumePhase{}
		for _, volume := range list.Items {
			have[strings.TrimPrefix(volume.Name, s.ns+"-")] = volume.Status.Phase
		}
		return difference("volume", have, names, phase)
	})
}

// difference tells the first name that has not the phase.
func difference[P ~string](kind string, have map[string]P, names []string, want P) string {
	for _, name := range names {
		if got, ok := have[name]; !ok {
			return fmt.Sprintf("there is no %s %s", kind, name)
		} else if got != want {
			return fmt.Sprintf("%s %s is %q, want %q", kind, name, got, want)
		}
	}
	return ""
}
