package chaos

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReportIsOKIfNoCheckFailsAndNamesWhatDoes(t *testing.T) {
	report := &Report{
		Seed: 7, Kills: map[string]int{"etcd": 1, "prebind-a": 3, "kube-scheduler": 3}, Requests: 200, Faults: map[string]int{"cut": 10},
		Checks: []Check{{Name: "nothing is wrong"}},
	}
	if !report.OK() {
		t.Error("a report without failures is not OK")
	}
	report.Checks = append(report.Checks, Check{Name: "all is well", Failures: []string{"pod db is not", "pod web is not"}})
	if report.OK() {
		t.Error("a report with failures is OK")
	}
	var text strings.Builder
	report.Write(&text)
	for _, want := range []string{
		"seed         7\n", "killed       kube-scheduler 3, prebind-a 3, etcd 1\n", "ended alone  -\n", "200, 10 of them disturbed (5.0 %)\n",
		"nothing is wrong  ok\n", "all is well       FAILED (2)\n", "FAILED: all is well: pod web is not\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &text)
		}
	}
}

func TestCallsAreCountedByOutcomeAndRetriesByPod(t *testing.T) {
	calls := bindCalls{outcomes: map[string]int{}}
	tried := map[any]bool{}
	for _, line := range []map[string]any{
		{"msg": "bind", "uid": "1", "outcome": "error", "reason": "NoVolume"},
		{"msg": "bind", "uid": "1", "outcome": "error", "reason": "NoVolume", "joined": true},
		{"msg": "bind", "uid": "2", "outcome": "bound"},
		{"msg": "wrote claimRef", "uid": "1"},
		{"text": "SIGQUIT"},
		{"msg": "bind", "uid": "1", "outcome": "bound"},
	} {
		calls.count(line, tried)
	}
	want := bindCalls{outcomes: map[string]int{"NoVolume": 1, "bound": 2}, retries: 1}
	if diff := cmp.Diff(want, calls, cmp.AllowUnexported(bindCalls{})); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
