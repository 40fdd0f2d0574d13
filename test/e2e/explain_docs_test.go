package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/internal/explain"
	"github.com/prebind/prebind/test/controlplane"
)

// shows compares what people see with the example of this name in docs/explain.md;
// with UPDATE_DOCS set it writes the example. Names are shown without what the fixture
// puts in front of them. It is for tests that are not parallel: nodes and volumes of
// others would be in the picture.
func (e *explainer) shows(example string, pod *v1.Pod, args ...string) {
	e.t.Helper()
	if os.Getenv(controlplane.KubeconfigVariable) != "" {
		return // somebody's cluster
	}
	code, output, errs := e.explain(append([]string{e.ns + "/" + pod.Name, "-o", "json"}, args...)...)
	if code != 0 {
		e.t.Fatalf("exit code %d: %s", code, errs)
	}
	short := strings.NewReplacer(e.ns+"-", "", e.ns, "shop")
	report := &explain.Report{}
	e.must(json.Unmarshal([]byte(short.Replace(output)), report))
	var text bytes.Buffer
	command := append([]string{"$ prebind explain pod", report.Pod}, args...)
	text.WriteString(short.Replace(strings.Join(command, " ")) + "\n")
	e.must(report.WriteText(&text))

	file := filepath.Join("..", "..", "docs", "explain.md")
	page, err := os.ReadFile(file)
	e.must(err)
	mark := "<!-- " + example + " -->\n```console\n"
	before, rest, found := strings.Cut(string(page), mark)
	documented, after, closed := strings.Cut(rest, "```\n")
	if !found || !closed {
		e.t.Fatalf("%s has no example %s", file, example)
	}
	if os.Getenv("UPDATE_DOCS") != "" {
		e.must(os.WriteFile(file, []byte(before+mark+text.String()+"```\n"+after), 0o644))
		return
	}
	if diff := cmp.Diff(shape(documented), shape(text.String())); diff != "" {
		e.t.Errorf("the example %s in %s is out of date; UPDATE_DOCS=1 writes it (-docs +now):\n%s", example, file, diff)
	}
}

var (
	varying = regexp.MustCompile(`\b\d+s ago\b|\bc-[a-z0-9]{5}\b|[0-9a-f-]{36}`) // ages, a generated name, UIDs
	events  = regexp.MustCompile(`(?m)^( {2}events .*\n( {13}.*\n)*|\nEvents of the pod\n( {2}.*\n)*)`)
	// others are the volumes that tests before have left for a moment.
	others = regexp.MustCompile(`\d+ in the cluster(, none fits)?|there are none in the cluster|\d+ volumes? (is|are) of another class`)
)

// shape is an explanation, word by word, without what differs from run to run. Where
// a line breaks depends on that, too.
func shape(text string) []string {
	text = events.ReplaceAllString(text, "")
	return strings.Fields(varying.ReplaceAllString(others.ReplaceAllString(text, ""), "..."))
}
