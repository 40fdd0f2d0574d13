package differential

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	defaults "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"github.com/prebind/prebind/volumes"
)

// newPlugin returns the plugin as kube-scheduler makes it by default, whose
// scorer nobody else can make. What it reads from is replaced afterwards.
func newPlugin(t *testing.T, features feature.Features) *volumebinding.VolumeBinding {
	t.Helper()
	var out configv1.VolumeBindingArgs
	defaults.SetDefaults_VolumeBindingArgs(&out)
	args := &config.VolumeBindingArgs{BindTimeoutSeconds: *out.BindTimeoutSeconds}
	for _, point := range out.Shape {
		args.Shape = append(args.Shape, config.UtilizationShapePoint{Utilization: point.Utilization, Score: point.Score})
	}
	plugin, err := volumebinding.New(t.Context(), args, handle{client: fake.NewClientset()}, features)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*volumebinding.VolumeBinding)
}

// handle is what New asks for. Its informers are never started.
type handle struct {
	fwk.Handle
	client kubernetes.Interface
}

func (h handle) ClientSet() kubernetes.Interface { return h.client }

func (h handle) SharedInformerFactory() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactory(h.client, 0)
}

// score asks kube-scheduler for the node's score, 0 to 100.
func (u *upstream) score(ctx context.Context, pod *v1.Pod, node *v1.Node, order []string) (int64, error) {
	u.volumes.order, u.found = order, nil
	cycle, info := framework.NewCycleState(), framework.NewNodeInfo()
	info.SetNode(node)
	nodes := []fwk.NodeInfo{info}
	if _, status := u.plugin.PreFilter(ctx, cycle, pod, nodes); !status.IsSuccess() {
		return 0, status.AsError()
	}
	if status := u.plugin.Filter(ctx, cycle, pod, info); !status.IsSuccess() {
		return 0, status.AsError()
	}
	if status := u.plugin.PreScore(ctx, cycle, pod, nodes); !status.IsSuccess() {
		return 0, status.AsError()
	}
	score, status := u.plugin.Score(ctx, cycle, pod, info)
	return score, status.AsError()
}

// sameScores compares the scores of the nodes on which both come to the same
// plan, and that kube-scheduler does not choose at random.
func sameScores(ctx context.Context, ours *prebind, theirs *upstream, s *state, seen *tally) error {
	pod, _ := once(s.pod)
	nodes := make([]volumes.Node, len(s.nodes))
	for i, node := range s.nodes {
		nodes[i].Name = node.Name
	}
	scores, err := ours.Score(ctx, pod, nodes)
	if err != nil {
		return fmt.Errorf("scoring nodes: %w", err)
	}
	for i, node := range s.nodes {
		plan, order, err := ours.says(ctx, pod, node)
		if err != nil {
			return err
		}
		verdict := theirs.says(ctx, pod, node, order)
		if !plan.fits() || !verdict.fits() || len(plan.claims) == 0 || !maps.Equal(plan.claims, verdict.claims) || s.choosesCapacity() {
			continue
		}
		want, err := theirs.score(ctx, pod, node, order)
		if err != nil {
			return fmt.Errorf("node %s: kube-scheduler's score: %w", node.Name, err)
		}
		if got := scores[i]; got != (want+5)/10 {
			return fmt.Errorf("node %s: prebind's score is %d, kube-scheduler's %d of 100, for\n    %s", node.Name, got, want, plan)
		}
		if want > 0 {
			seen.count(scored)
		}
	}
	return nil
}

// choosesCapacity tells whether a class has several reports of capacity, of which
// kube-scheduler takes any, and prebind the one with the most room; or one
// without a capacity, on which kube-scheduler's score panics.
func (s *state) choosesCapacity() bool {
	classes := map[string]int{}
	for _, capacity := range s.capacities {
		classes[capacity.StorageClassName]++
	}
	return slices.ContainsFunc(slices.Collect(maps.Values(classes)), func(n int) bool { return n > 1 }) ||
		slices.ContainsFunc(s.capacities, func(c *storagev1.CSIStorageCapacity) bool { return c.Capacity == nil })
}
