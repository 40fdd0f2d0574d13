package explain_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/prebind/prebind/internal/explain"
	"github.com/prebind/prebind/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write testdata anew; look at the difference")

// now is when these tests happen.
const now = 1_000_000

// scene is a cluster and the question about pod shop/db-0.
type scene struct {
	pod     testkit.PodBuilder
	objects []runtime.Object
	forbid  []string // "list nodes"
	options explain.Options
}

// db0 is the pod that is explained; the scheduler has refused it.
func db0(claims ...string) testkit.PodBuilder {
	pod := testkit.Pod("db-0").Uses(claims...)
	pod.Spec.SchedulerName = "default-scheduler"
	pod.CreationTimestamp = metav1.Unix(now-300, 0)
	return pod
}

// unschedulable has the scheduler say why.
func unschedulable(pod testkit.PodBuilder, message string) testkit.PodBuilder {
	pod.Status.Conditions = []v1.PodCondition{{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: message, LastTransitionTime: metav1.Unix(now-90, 0),
	}}
	return pod
}

// api makes the cluster, with classes and three nodes in two zones.
func (s scene) api(t *testing.T) *testkit.API {
	t.Helper()
	api := testkit.NewAPI(
		t, s.pod, testkit.Class("local"), testkit.Class("fast").Provisions("csi.example.com"), testkit.Class("now").Provisions("csi.example.com").Immediate(),
		testkit.Node("n1").Label(v1.LabelTopologyZone, "a"), testkit.Node("n2").Label(v1.LabelTopologyZone, "a"), testkit.Node("n3").Label(v1.LabelTopologyZone, "b"),
	)
	api.Put(s.objects...)
	for _, right := range s.forbid {
		verb, resource, _ := strings.Cut(right, " ")
		api.Before(verb, resource, 0, func(r testkit.Request) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, r.Name, fmt.Errorf("no"))
		})
	}
	return api
}

func (s scene) run(t *testing.T) (*explain.Report, error) {
	t.Helper()
	api := s.api(t)
	options := s.options
	options.Client, options.Namespace, options.Now = api.Client, testkit.Namespace, time.Unix(now, 0)
	if options.Pod == "" {
		options.Pod = "db-0"
	}
	report, err := explain.Run(t.Context(), options)
	if writes := api.Writes(); len(writes) > 0 {
		t.Errorf("it wrote: %v", writes)
	}
	return report, err
}

func (s scene) mustRun(t *testing.T) *explain.Report {
	t.Helper()
	report, err := s.run(t)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// golden compares with a file of testdata, or writes it.
func golden(t *testing.T, file string, write func(*bytes.Buffer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (-want +got; go test -update writes it):\n%s", file, diff)
	}
}
