package controlplane_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/controlplane"
)

func TestPrebindBindsInModeBindAndComesBackOnItsPorts(t *testing.T) {
	ctx := testContext(t)
	prebind, err := plane.StartPrebind(ctx, controlplane.PrebindOptions{
		BindTimeout: time.Minute,
		Config:      "clientConnection: {qps: 100}",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plane.StartPrebind(ctx, controlplane.PrebindOptions{}); err == nil {
		t.Error("a second prebind of the same name was started")
	}
	if err := plane.StartScheduler(ctx, controlplane.SchedulerOptions{Mode: controlplane.ModeBind, URL: prebind.URL()}); err != nil {
		t.Fatal(err)
	}
	ns := namespace(ctx, t)
	node := ns + "-node"
	err = plane.Create(ctx,
		build.Node(node).Obj(),
		build.Class(ns).Obj(),
		build.Volume(ns+"-disk").Class(ns).OnNode(node).Obj(),
		build.Claim(ns, "data").Class(ns).Obj(),
		build.Pod(ns, "web").Claim("data").OnHost(node).Scheduler(plane.SchedulerName()).Obj(),
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plane.WaitBound(ctx, ns, "web"); err != nil {
		t.Fatal(err)
	}
	if !plane.Existing() {
		bindings, err := plane.Audit(ctx, controlplane.AuditFilter{User: controlplane.PrebindUser, Verbs: controlplane.Writes(), Subresource: "binding", Namespace: ns})
		if err != nil {
			t.Fatal(err)
		}
		if len(bindings) != 1 {
			t.Errorf("%d Bindings by prebind, want 1:\n%s", len(bindings), controlplane.DescribeAudit(bindings))
		}
	}

	if err := prebind.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := prebind.Start(ctx); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, prebind.OpsURL()+"/livez", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Errorf("/livez answered %s after a restart", response.Status)
	}
	if err := prebind.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err := prebind.Err(); err != nil {
		t.Errorf("prebind ended with %v", err)
	}
	lines, err := prebind.Logs()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if text, isText := line["text"].(string); isText && len(line) == 1 {
			t.Errorf("log line is no JSON: %s", text)
		}
	}
	if err := plane.StartScheduler(ctx, controlplane.SchedulerOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestPrebindThatCannotStartTellsWhy(t *testing.T) {
	ctx := testContext(t)
	_, err := plane.StartPrebind(ctx, controlplane.PrebindOptions{Name: "broken", Config: "nonsense: true"})
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("error = %v, want one with the end of prebind's log", err)
	}
}
