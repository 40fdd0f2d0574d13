package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/server"
	"github.com/prebind/prebind/volumes"
)

// judge is a Nodes that refuses nodes by name, and remembers what it was asked.
type judge struct {
	against map[string]string
	scores  map[string]int64
	err     error

	pod   *v1.Pod
	nodes []volumes.Node
	calls int
	seen  []string
}

func (j *judge) Seen(pod *v1.Pod) { j.seen = append(j.seen, pod.Name) }

func (j *judge) Filter(_ context.Context, pod *v1.Pod, nodes []volumes.Node) ([]string, error) {
	j.calls, j.pod, j.nodes = j.calls+1, pod, nodes
	reasons := make([]string, len(nodes))
	for i := range nodes {
		reasons[i] = j.against[nodes[i].Name]
	}
	return reasons, j.err
}

func (j *judge) Score(_ context.Context, pod *v1.Pod, nodes []volumes.Node) ([]int64, error) {
	j.calls, j.pod, j.nodes = j.calls+1, pod, nodes
	scores := make([]int64, len(nodes))
	for i := range nodes {
		scores[i] = j.scores[nodes[i].Name]
	}
	return scores, j.err
}

const (
	claimPod = `{"metadata":{"name":"db-0","namespace":"shop","uid":"u-1","labels":{"a":"b"}},"spec":{"containers":[{"name":"c"}],` +
		`"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data-0"}},{"name":"x","ephemeral":{"volumeClaimTemplate":{"spec":{}}}},{"name":"e","emptyDir":{}}]}}`
	plainPod = `{"metadata":{"name":"web","namespace":"shop","uid":"u-2"},"spec":{"volumes":[{"name":"e","emptyDir":{}}]}}`
)

func names(list string) string {
	return `{"Pod":` + claimPod + `,"Nodes":null,"NodeNames":` + list + `}`
}

// filter posts a body to /v1/filter and decodes the answer as kube-scheduler
// does, but strictly.
func (i *instance) filter(t testing.TB, body string) (extenderv1.ExtenderFilterResult, string) {
	t.Helper()
	got := i.do(t, http.MethodPost, i.url+"/v1/filter", body, nil)
	if got.code != http.StatusOK {
		t.Fatalf("status %d, body %s", got.code, got.body)
	}
	var result *extenderv1.ExtenderFilterResult
	decoder := json.NewDecoder(strings.NewReader(got.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&result); err != nil || result == nil || decoder.More() {
		t.Fatalf("200 with %q, which is no ExtenderFilterResult (%v)", got.body, err)
	}
	if result.Error == "" && (result.NodeNames == nil) == (result.Nodes == nil) {
		t.Fatalf("want one list of nodes: %s", got.body)
	}
	return *result, got.body
}

func TestFilterByName(t *testing.T) {
	const reason = `node(s) didn't find "any" volume <ü>`
	tests := map[string]struct {
		nodes string
		keep  []string
		fail  []string
	}{
		"some fit":         {`["a","b","c","d"]`, []string{"a", "c"}, []string{"b", "d"}},
		"all fit":          {`["a","c"]`, []string{"a", "c"}, nil},
		"none fits":        {`["b"]`, []string{}, []string{"b"}},
		"none is asked of": {`[]`, []string{}, nil},
		"white space":      {"[ \"a\" ,\n\"b\" ]", []string{"a"}, []string{"b"}},
		"escapes":          {`["a\u0062","\"","b"]`, []string{"ab", `"`}, []string{"b"}},
		"no ASCII":         {`["ä","b"]`, []string{"ä"}, []string{"b"}},
		"empty names":      {`["","a"]`, []string{"", "a"}, nil},
		"a comma in one":   {`["a,b","c"]`, []string{"a,b", "c"}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			j := &judge{against: map[string]string{"b": reason, "d": reason}}
			result, _ := start(t, server.Config{Binder: bindFunc(strictBinder), Nodes: j}).filter(t, names(tc.nodes))
			want := extenderv1.ExtenderFilterResult{
				NodeNames: &tc.keep, FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{},
			}
			for _, node := range tc.fail {
				want.FailedAndUnresolvableNodes[node] = reason
			}
			if diff := cmp.Diff(want, result); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if j.pod.Name != "db-0" || j.pod.Namespace != "shop" || j.pod.UID != "u-1" ||
				!slices.Equal(volumes.ClaimNames(j.pod), []string{"shop/data-0", "shop/db-0-x"}) {
				t.Errorf("pod %+v with claims %v", j.pod.ObjectMeta, volumes.ClaimNames(j.pod))
			}
			for _, node := range j.nodes {
				if node.Sent {
					t.Errorf("node %s counts as sent whole", node.Name)
				}
			}
		})
	}
}

// Nodes sent whole come back byte for byte, and their labels count.
func TestFilterWholeNodes(t *testing.T) {
	a := `{"metadata":{"name":"a","labels":{"zone":"<z>"}},"spec":{"unschedulable" : true}, "status":{}}`
	b := `{"metadata":{"name":"b"}}`
	j := &judge{against: map[string]string{"b": "no"}}
	i := start(t, server.Config{Binder: bindFunc(strictBinder), Nodes: j})
	for pod, keep := range map[string]string{claimPod: a, plainPod: a + "," + b} {
		result, body := i.filter(t, `{"Pod":`+pod+`,"Nodes":{"metadata":{},"items":[`+a+`,`+b+`]},"NodeNames":null}`)
		if !strings.Contains(body, `"items":[`+keep+`]`) {
			t.Errorf("answered %s, want the items %s", body, keep)
		}
		if want := strings.Count(keep, "metadata"); len(result.Nodes.Items) != want || len(result.FailedAndUnresolvableNodes) != 2-want {
			t.Errorf("%d nodes kept, %v refused", len(result.Nodes.Items), result.FailedAndUnresolvableNodes)
		}
	}
	want := []volumes.Node{{Name: "a", Labels: map[string]string{"zone": "<z>"}, Sent: true}, {Name: "b", Sent: true}}
	if diff := cmp.Diff(want, j.nodes); diff != "" || j.calls != 1 {
		t.Errorf("%d calls; nodes (-want +got):\n%s", j.calls, diff)
	}
}

// A pod without claims is answered without a look at any node.
func TestPodsWithoutClaims(t *testing.T) {
	j := &judge{}
	i := start(t, server.Config{Binder: bindFunc(strictBinder), Nodes: j})
	body := `{"Pod":` + plainPod + `,"Nodes":null,"NodeNames":["a", "b"]}`
	result, _ := i.filter(t, body)
	if want := []string{"a", "b"}; !slices.Equal(*result.NodeNames, want) {
		t.Errorf("nodes %v, want %v", *result.NodeNames, want)
	}
	if got := i.do(t, http.MethodPost, i.url+"/v1/prioritize", body, nil); got.code != http.StatusOK || strings.TrimSpace(got.body) != "[]" {
		t.Errorf("prioritize answered %d %s, want 200 []", got.code, got.body)
	}
	if j.calls != 0 {
		t.Errorf("the nodes were looked at %d times", j.calls)
	}
	for _, want := range []string{`count{path="/v1/filter"} 1`, `count{path="/v1/prioritize"} 1`} {
		if text := i.do(t, http.MethodGet, i.opsURL+"/metrics", "", nil).body; !strings.Contains(text, "prebind_nodes_call_duration_seconds_"+want) {
			t.Errorf("the metrics lack %s:\n%s", want, text)
		}
	}
}

func TestPrioritize(t *testing.T) {
	j := &judge{scores: map[string]int64{"a": 10, "b": 3}}
	i := start(t, server.Config{Binder: bindFunc(strictBinder), Nodes: j})
	got := i.do(t, http.MethodPost, i.url+"/v1/prioritize", names(`["a","b","c"]`), nil)
	var list extenderv1.HostPriorityList
	if err := json.Unmarshal([]byte(got.body), &list); err != nil || got.code != http.StatusOK {
		t.Fatalf("%d %s: %v", got.code, got.body, err)
	}
	want := extenderv1.HostPriorityList{{Host: "a", Score: 10}, {Host: "b", Score: 3}, {Host: "c", Score: 0}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

func TestFilterAndPrioritizeErrors(t *testing.T) {
	noPod := `{"Pod":null,"Nodes":null,"NodeNames":[]}`
	tests := map[string]struct{ body, want string }{
		"a fault":           {names(`["a"]`), "Internal: the disk is gone"},
		"no pod":            {noPod, "InvalidRequest: the argument Pod is missing"},
		"no nodes":          {names("null"), "InvalidRequest: the arguments NodeNames and Nodes are both missing"},
		"no list":           {names(`{"a":1}`), "InvalidRequest: decoding NodeNames: a list of strings is needed"},
		"a list of numbers": {names(`["a",1]`), "InvalidRequest: decoding NodeNames: a list of strings is needed: json: cannot unmarshal number into Go value of type string"},
		"names in the pod":  {`{"Pod":{"spec":{"a":1,"NodeNames":["a"]}`, "InvalidRequest: decoding the body: unexpected end of JSON input"},
		"a control byte":    {names("[\"a\x01\"]"), "InvalidRequest: decoding the body: invalid character '\\x01' in string literal"},
		"a list of lists":   {names(`[["a","b"]]`), "InvalidRequest: decoding NodeNames: a list of strings is needed: json: cannot unmarshal array into Go value of type string"},
		"a nameless pod":    {strings.Replace(names(`["a"]`), `"name":"db-0"`, `"name":""`, 1), "InvalidRequest: the pod has claims, but no name, no namespace or no UID"},
		"empty":             {"", "InvalidRequest: the body is empty, a JSON object is needed"},
		"half":              {`{"Pod":`, "InvalidRequest: decoding the body: unexpected end of JSON input"},
		"a bad node":        {`{"Pod":` + claimPod + `,"Nodes":{"items":[{},7]}}`, "InvalidRequest: decoding Nodes.items[1]: json: cannot unmarshal number into Go value of type struct { Metadata struct { Name string \"json:\\\"name\\\"\"; Labels map[string]string \"json:\\\"labels\\\"\" } \"json:\\\"metadata\\\"\" }"},
		"oversized":         {`{"Pod":"` + strings.Repeat("x", 100<<10) + `"}`, "InvalidRequest: reading the body: it is larger than 102400 bytes"},
	}
	i := start(t, server.Config{Binder: bindFunc(strictBinder), MaxFilterBytes: 100 << 10, Nodes: &judge{err: fault.New(fault.Internal, "the disk is gone")}})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if result, _ := i.filter(t, tc.body); result.Error != tc.want {
				t.Errorf("Error = %q, want %q", result.Error, tc.want)
			}
			got := i.do(t, http.MethodPost, i.url+"/v1/prioritize", tc.body, nil)
			var failed struct{ Error string }
			if err := json.Unmarshal([]byte(got.body), &failed); err != nil || got.code != http.StatusInternalServerError || failed.Error != tc.want {
				t.Errorf("prioritize answered %d %s, want 500 with %q", got.code, got.body, tc.want)
			}
		})
	}
}

// While prebind is not ready an attempt to schedule fails, and comes again.
func TestFilterNotReady(t *testing.T) {
	i := start(t, server.Config{Binder: bindFunc(strictBinder), Checks: []server.Check{{Name: "cache-pods", Check: func() error { return errors.New("not synced yet") }}}})
	if result, _ := i.filter(t, names(`["a"]`)); !strings.HasPrefix(result.Error, "NotReady: ") || result.NodeNames != nil {
		t.Errorf("answered %+v, want NotReady", result)
	}
}

// FuzzFilterBody: no body makes the handler panic, and names that are kept were
// sent.
func FuzzFilterBody(f *testing.F) {
	for _, seed := range []string{"", "null", "{}", names(`["a"]`), names(`["a\u0000","b"]`), names(`"a"`), names(`[ "a","b" ]`), names(`["a","b"`), names(`["\ud800"]`), `{"Pod":{"metadata":{"name":"a"},"NodeNames":["a"]}}`, `{"Pod":{},"NodeNames":["a"],"NodeNames":["b","c"]}`} {
		f.Add(seed)
	}
	i := start(f, server.Config{Binder: bindFunc(strictBinder), MaxFilterBytes: 4 << 10})
	f.Fuzz(func(t *testing.T, body string) {
		result, text := i.filter(t, body)
		var args extenderv1.ExtenderArgs
		if result.Error == "" && result.NodeNames != nil && json.Unmarshal(bytes.TrimSpace([]byte(body)), &args) == nil && args.NodeNames != nil {
			if diff := cmp.Diff(*args.NodeNames, *result.NodeNames); diff != "" {
				t.Errorf("names (-sent +kept):\n%s%s", diff, text)
			}
		}
		if i.logs.FilterMessage("panic in a handler").Len() > 0 {
			t.Error("a handler panicked")
		}
		i.logs.TakeAll()
	})
}
