package e2e_test

import (
	"slices"
	"strings"
	"testing"
)

// bindLines returns the log lines of bind calls for the pod's UID.
func (w *world) bindLines(f *fixture, uid string) []map[string]any {
	f.t.Helper()
	lines, err := w.prebind.Logs()
	f.must(err)
	var found []map[string]any
	for _, line := range lines {
		if line["msg"] == "bind" && line["uid"] == uid {
			found = append(found, line)
		}
	}
	return found
}

// awaitBindLine waits for the line of a call that ended with one of the
// reasons.
func (w *world) awaitBindLine(f *fixture, uid string, reasons ...string) {
	f.t.Helper()
	f.eventually("the bind call ends with "+strings.Join(reasons, " or "), func() bool {
		return slices.ContainsFunc(w.bindLines(f, uid), func(line map[string]any) bool {
			reason, _ := line["reason"].(string)
			return slices.Contains(reasons, reason)
		})
	})
}

func TestOneLogLineForABindCall(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("a", class, node))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	f.mustBind(pod, node)

	lines := shared.bindLines(f, string(pod.UID))
	if len(lines) != 1 {
		t.Fatalf("%d lines for one call: %v", len(lines), lines)
	}
	line := lines[0]
	for key, want := range map[string]any{"outcome": "bound", "level": "info", "pod": f.ns + "/web", "node": node} {
		if line[key] != want {
			t.Errorf("%s = %v, want %v", key, line[key], want)
		}
	}
	for _, key := range []string{"requestID", "durationMs", "claims", "ts"} {
		if line[key] == nil || line[key] == "" {
			t.Errorf("the line lacks %s: %v", key, line)
		}
	}
	stages, _ := line["stagesMs"].(map[string]any)
	for _, stage := range []string{"admit", "reserve", "preBind", "bind"} {
		if _, ok := stages[stage]; !ok {
			t.Errorf("no time of stage %s in %v", stage, line["stagesMs"])
		}
	}

	all, err := shared.prebind.Logs()
	f.must(err)
	writes := 0
	for _, line := range all {
		if text, _ := line["claim"].(string); text == f.ns+"/data" && line["level"] == "debug" {
			writes++
			if line["requestID"] != lines[0]["requestID"] || !strings.HasPrefix(line["msg"].(string), "wrote ") {
				t.Errorf("line of a write: %v", line)
			}
		}
	}
	if writes != 1 {
		t.Errorf("%d debug lines for one write", writes)
	}
}
