package doctor

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// now is when these tests happen.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wantFindings wants one finding for each element of want: its severity, a
// colon and words that must stand, separated by "|", in its object or what.
// Every finding must say why and how to mend.
func wantFindings(t *testing.T, got []Finding, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d findings, want %d (%q): %+v", len(got), len(want), want, got)
	}
	for i, finding := range got {
		if finding.Why == "" || finding.Mend == "" {
			t.Errorf("finding %d lacks why or mend: %+v", i, finding)
		}
		severity, words, _ := strings.Cut(want[i], ":")
		if string(finding.Severity) != severity {
			t.Errorf("finding %d is %s, want %s: %+v", i, finding.Severity, severity, finding)
		}
		for word := range strings.SplitSeq(words, "|") {
			if !strings.Contains(finding.Object+" "+finding.What, word) {
				t.Errorf("finding %d lacks %q: %+v", i, word, finding)
			}
		}
	}
}
