package volumes_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

// load fills caches for the pod and all nodes.
func load(t *testing.T, api *testkit.API, pod testkit.PodBuilder) (*volumes.Caches, []volumes.Lack) {
	t.Helper()
	caches, err := volumes.NewCaches(api.Client)
	if err != nil {
		t.Fatal(err)
	}
	lacks, err := caches.Load(t.Context(), api.Client, pod.Pod)
	if err != nil {
		t.Fatal(err)
	}
	more, err := caches.LoadNodes(t.Context(), api.Client, "")
	if err != nil {
		t.Fatal(err)
	}
	return caches, append(lacks, more...)
}

func refuse(api *testkit.API, verb, resource string) {
	api.Before(verb, resource, 0, func(r testkit.Request) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, r.Name, fmt.Errorf("no"))
	})
}

// What is asked for does not grow with the cluster, and what is not needed is not
// asked for at all.
func TestLoadAsksForLittle(t *testing.T) {
	many := make([]runtime.Object, 0, 300)
	for i := range 100 {
		many = append(many, testkit.Volume(fmt.Sprint("pv-", i)), testkit.Claim(fmt.Sprint("other-", i)), testkit.Node(fmt.Sprint("node-", i)))
	}
	base := []runtime.Object{testkit.Class("local"), testkit.Class("fast").Provisions("csi.example.com"), testkit.Class("odd").Provisions("example.com/odd")}
	tests := map[string]struct {
		claim  testkit.ClaimBuilder
		more   []runtime.Object
		refuse []string // lists that must not be asked for
		reads  []string
	}{
		"a bound claim needs its own volume alone": {
			testkit.Claim("data").Bound("pv-own"),
			[]runtime.Object{testkit.Volume("pv-own").ClaimedBy(testkit.Claim("data"))},
			[]string{"persistentvolumes", "csinodes", "csistoragecapacities"},
			[]string{"get persistentvolumeclaims/data", "get storageclasses/local", "get persistentvolumes/pv-own"},
		},
		"a claim that chooses needs the list of volumes": {
			testkit.Claim("data"), nil,
			[]string{"csinodes", "csistoragecapacities"},
			[]string{"get persistentvolumeclaims/data", "get storageclasses/local"},
		},
		"a claim to be provisioned needs the driver": {
			testkit.Claim("data").Class("fast"), nil,
			[]string{"csinodes", "csistoragecapacities"},
			[]string{"get persistentvolumeclaims/data", "get storageclasses/fast", "get csidrivers/csi.example.com (404)"},
		},
		"a provisioner's name that no driver can have is not asked for": {
			testkit.Claim("data").Class("odd"), nil,
			[]string{"csinodes", "csistoragecapacities"},
			[]string{"get persistentvolumeclaims/data", "get storageclasses/odd"},
		},
		"capacities are listed for a driver that wants them checked": {
			testkit.Claim("data").Class("fast"),
			[]runtime.Object{testkit.Driver("csi.example.com", true)},
			[]string{"csinodes"},
			[]string{"get persistentvolumeclaims/data", "get storageclasses/fast", "get csidrivers/csi.example.com"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			api := testkit.NewAPI(t, append(append(base, many...), tc.more...)...)
			api.Put(tc.claim)
			for _, resource := range tc.refuse {
				refuse(api, "list", resource)
			}
			_, lacks := load(t, api, testkit.Pod("web").Uses("data"))
			if len(lacks) > 0 {
				t.Errorf("asked for what is not needed: %v", lacks)
			}
			if diff := cmp.Diff(tc.reads, api.Reads()); diff != "" {
				t.Errorf("single objects asked for (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadTellsWhatItMayNotRead(t *testing.T) {
	tests := map[string]struct {
		claim          testkit.ClaimBuilder
		verb, resource string
		want           string
	}{
		"the claim":      {testkit.Claim("data"), "get", "persistentvolumeclaims", "get persistentvolumeclaims data"},
		"its volume":     {testkit.Claim("data").Bound("pv-1"), "get", "persistentvolumes", "get persistentvolumes pv-1"},
		"its class":      {testkit.Claim("data"), "get", "storageclasses", "get storageclasses fast"},
		"all volumes":    {testkit.Claim("data"), "list", "persistentvolumes", "list persistentvolumes"},
		"the driver":     {testkit.Claim("data"), "get", "csidrivers", "get csidrivers csi.example.com"},
		"its capacities": {testkit.Claim("data"), "list", "csistoragecapacities", "list csistoragecapacities"},
		"all nodes":      {testkit.Claim("data"), "list", "nodes", "list nodes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			api := testkit.NewAPI(
				t, testkit.Class("fast").Provisions("csi.example.com"), testkit.Driver("csi.example.com", true),
				testkit.Volume("pv-1"), testkit.Node("node-7"), tc.claim.Class("fast"),
			)
			refuse(api, tc.verb, tc.resource)
			_, lacks := load(t, api, testkit.Pod("web").Uses("data"))
			if len(lacks) != 1 || lacks[0].String() != tc.want || !apierrors.IsForbidden(lacks[0].Err) {
				t.Errorf("lacks %v, want %s", lacks, tc.want)
			}
		})
	}
	t.Run("an error of another kind is one", func(t *testing.T) {
		api := testkit.NewAPI(t, testkit.Claim("data"), testkit.Class("local"))
		api.Before("list", "persistentvolumes", 0, func(testkit.Request) error { return apierrors.NewServiceUnavailable("down") })
		caches, err := volumes.NewCaches(api.Client)
		if err != nil {
			t.Fatal(err)
		}
		_, err = caches.Load(t.Context(), api.Client, testkit.Pod("web").Uses("data").Pod)
		wantText(t, err, "APIError: list persistentvolumes: down")
	})
}
