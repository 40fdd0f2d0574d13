package e2e_test

import (
	"flag"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// moreParallel lets more tests run at once than there are processors: most of
// their time they wait for controllers. A -parallel on the command line counts.
func moreParallel() error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", "8")
}

// What prebind has been shown. A call that comes before the watch has shown a
// deletion may rightly go on; the tests of what must be refused for it first
// make sure of that.

// nodeSeenGone returns when prebind knows that the node is gone.
func (f *fixture) nodeSeenGone(node string) {
	f.t.Helper()
	probes := 0
	f.eventually("prebind knows that node "+node+" is gone", func() bool {
		probes++
		text := f.bind(f.pod(newPod(fmt.Sprintf("probe-%d", probes), nobody)), node)
		return strings.HasPrefix(text, "NodeNotFound: ")
	})
}

// podsSeen returns when prebind has been shown all changes of pods until now:
// its watch shows them in order, so a call that ends by a later deletion tells.
func (f *fixture) podsSeen() {
	f.t.Helper()
	node := f.node("probe", nil)
	f.claim(newClaim("probe", f.class(newClass("probe", "nobody.example/none", storagev1.VolumeBindingWaitForFirstConsumer))))
	answer := f.start(f.pod(newPod("probe", nobody, "probe")), node)
	f.eventually("the probe waits", func() bool { return f.selectedNode("probe") == node })
	f.removePod("probe")
	f.endedWith(f.answer(answer), "PodTerminating", "PodNotFound")
}

// awaitBound waits until the PV controller has bound a claim. It looks at a
// claim that has not changed every 15 seconds only.
func (f *fixture) awaitBound(claim string) {
	f.t.Helper()
	looks := 0
	f.eventually("claim "+claim+" is bound", func() bool {
		if f.getClaim(claim).Status.Phase == v1.ClaimBound {
			return true
		}
		if looks%25 == 10 {
			f.patchClaim(claim, annotated("pv.kubernetes.io/look-again", fmt.Sprint(looks)))
		}
		looks++
		return false
	})
	if claim := f.getClaim(claim); !metav1.HasAnnotation(claim.ObjectMeta, "pv.kubernetes.io/bind-completed") {
		f.t.Fatalf("claim %s is in phase Bound without bind-completed", claim.Name)
	}
}
