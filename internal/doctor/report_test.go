package doctor

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample has a check of each status.
func sample() *Report {
	report := &Report{}
	report.add("cluster", outcome{summary: "https://10.0.0.1 answers"})
	report.add("rbac", outcome{summary: "2 of 28 rights are missing", findings: []Finding{
		{Severity: Advice, Object: "events", What: "may not list events", Why: "Errors tell less.", Mend: "Apply the rules."},
		{Severity: Fault, Object: "persistentvolumes", What: "may not patch persistentvolumes", Why: "No pod gets a volume.", Mend: "Apply the rules; check with\nkubectl auth can-i patch persistentvolumes"},
	}})
	report.add("endpoint", skipped("no %s", "--endpoint"))
	report.add("wired-in", outcome{summary: "no call", findings: []Finding{{Severity: Advice, What: "no call yet", Why: "Maybe " + strings.Repeat("long ", 30), Mend: "Wait:\n1. " + strings.Repeat("step ", 25)}}})
	return report
}

func TestReportJSON(t *testing.T) {
	var out bytes.Buffer
	if err := sample().WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	// Written out: programs of others rely on these keys.
	var want any
	err := json.Unmarshal([]byte(`{"checks":[
		{"name":"cluster","status":"ok","summary":"https://10.0.0.1 answers","findings":[]},
		{"name":"rbac","status":"fault","summary":"2 of 28 rights are missing","findings":[
			{"severity":"advice","object":"events","what":"may not list events","why":"Errors tell less.","mend":"Apply the rules."},
			{"severity":"fault","object":"persistentvolumes","what":"may not patch persistentvolumes","why":"No pod gets a volume.","mend":"Apply the rules; check with\nkubectl auth can-i patch persistentvolumes"}]},
		{"name":"endpoint","status":"skipped","summary":"no --endpoint","findings":[]},
		{"name":"wired-in","status":"advice","summary":"no call","findings":[
			{"severity":"advice","object":"","what":"no call yet","why":"Maybe `+strings.Repeat("long ", 30)+`","mend":"Wait:\n1. `+strings.Repeat("step ", 25)+`"}]}],
		"faults":1,"advice":2}`), &want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

func TestReportText(t *testing.T) {
	want := `✓ cluster   https://10.0.0.1 answers
✗ rbac      2 of 28 rights are missing
    advice: events: may not list events
      why:  Errors tell less.
      mend: Apply the rules.
    fault: persistentvolumes: may not patch persistentvolumes
      why:  No pod gets a volume.
      mend: Apply the rules; check with
            kubectl auth can-i patch persistentvolumes
- endpoint  skipped: no --endpoint
! wired-in  no call
    advice: no call yet
      why:  Maybe long long long long long long long long long long long long long long long long long long
            long long long long long long long long long long long long
      mend: Wait:
            1. step step step step step step step step step step step step step step step step step step
               step step step step step step step

1 fault, 2 advice: 4 checks, 1 ok, 1 skipped.
`
	var plain, coloured bytes.Buffer
	if err := sample().WriteText(&plain, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, plain.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if err := sample().WriteText(&coloured, true); err != nil {
		t.Fatal(err)
	}
	bare := coloured.String()
	for _, code := range []string{"0", "2", "31", "32", "33"} {
		if !strings.Contains(bare, "\x1b["+code+"m") {
			t.Errorf("colour %s is not used:\n%q", code, bare)
		}
		bare = strings.ReplaceAll(bare, "\x1b["+code+"m", "")
	}
	if bare != want {
		t.Errorf("colours change the text:\n%s", cmp.Diff(want, bare))
	}
}
