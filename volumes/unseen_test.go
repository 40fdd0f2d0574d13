package volumes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
)

// Of more than a hundred nodes the scheduler shows some. The pod is sent back for
// the others, but not for ever.
func TestFilterSendsBackForNodesThatWereNotShown(t *testing.T) {
	const all = 250
	name := func(n int) string { return fmt.Sprintf("host-%03d", n) }
	var objects []runtime.Object
	var names []string
	for n := range all {
		names = append(names, name(n))
		objects = append(objects, testkit.Node(name(n)))
	}
	objects = append(objects, testkit.Claim("data"), testkit.Claim("none").Class("empty"), testkit.Class("empty"), testkit.Volume("pv-1").OnHost(name(200)))
	pod := testkit.Pod("db-0").Uses("data")
	bubble(t, func(t *testing.T) {
		e := start(t, objects...)
		refused := func(pod testkit.PodBuilder, nodes []string) {
			t.Helper()
			call := e.filter(pod, nodes...)
			<-call.done
			if call.err != nil || len(call.reasons) != len(nodes) {
				t.Errorf("pod %s on %d nodes: error %v, %d reasons, want a refusal", pod.Name, len(nodes), call.err, len(call.reasons))
			}
		}
		refused(pod, names[:99]) // so few are all
		for n := range 3 * 3 {   // 250 nodes are three times 100
			call := e.filter(pod, names[:100]...)
			<-call.done
			if fault.CodeOf(call.err) != fault.NodesUnseen || !strings.Contains(call.err.Error(), name(200)) {
				t.Fatalf("call %d: error %v, want NodesUnseen with %s", n, call.err, name(200))
			}
		}
		e.measured([]string{"prebind_filter_nodes_total"}, "prebind_filter_nodes_total{result=passed} 0", "prebind_filter_nodes_total{result=refused} 999")
		refused(pod, names[:100])
		e.filter(pod, name(199), name(200)).says(t, 0, wantNoVolume, "")
		time.Sleep(11 * time.Minute)
		call := e.filter(pod, names[:100]...)
		<-call.done
		if fault.CodeOf(call.err) != fault.NodesUnseen {
			t.Errorf("after eleven minutes: error %v, want NodesUnseen", call.err)
		}

		refused(testkit.Pod("db-1").Uses("none"), names[:100]) // no node has a volume
		refused(testkit.Pod("db-2").Uses("missing"), names[:100])
	})
}
