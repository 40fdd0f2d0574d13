package doctor

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// find returns the result of a check.
func (r *Report) find(t *testing.T, name string) Result {
	t.Helper()
	at := slices.IndexFunc(r.Checks, func(c Result) bool { return c.Name == name })
	if at < 0 {
		t.Fatalf("no check %s in %+v", name, r.Checks)
	}
	return r.Checks[at]
}

func run(t *testing.T, opts Options) *Report {
	t.Helper()
	report, err := Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestRunOnFilesAlone(t *testing.T) {
	var told []string
	report := run(t, Options{
		SchedulerConfig: "../../examples/scheduler-config.yaml", Config: "../../examples/prebind.yaml", NoCluster: "there is none",
		Progress: func(check string) { told = append(told, check) },
	})
	if report.Faults != 0 {
		t.Errorf("the examples have faults: %+v", report)
	}
	var names []string
	for _, check := range report.Checks {
		names = append(names, check.Name)
		if ofFiles := strings.HasSuffix(check.Name, "-config"); ofFiles == (check.Status == Skipped) {
			t.Errorf("check %s is %s: %s", check.Name, check.Status, check.Summary)
		}
	}
	if !slices.Equal(told, append(names, "")) {
		t.Errorf("progress told %q, want %q and the end", told, names)
	}
}

func TestRunBadFiles(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("kind: Pod\nserver: {address: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	report := run(t, Options{SchedulerConfig: bad, Config: bad})
	for _, check := range []string{"scheduler-config", "prebind-config"} {
		if got := report.find(t, check); got.Status != Fault || got.Findings[0].Why == "" {
			t.Errorf("%+v", got)
		}
	}
	if n := len(report.find(t, "prebind-config").Findings); n != 2 {
		t.Errorf("%d mistakes in prebind's file, want 2", n)
	}
	for _, opts := range []Options{{SchedulerConfig: bad + "x"}, {Config: bad + "x"}} {
		if _, err := Run(t.Context(), opts); err == nil || !strings.Contains(err.Error(), bad+"x") {
			t.Errorf("a file that is not there: %v", err)
		}
	}
}

func TestBeforeUninstallWithoutAnything(t *testing.T) {
	report := run(t, Options{BeforeUninstall: true, SchedulerConfig: "../../examples/scheduler-config.yaml"})
	wantFindings(t, report.find(t, "before-uninstall").Findings, "fault:cannot be known", "fault:still needs prebind (mode bind)")

	restored := filepath.Join(t.TempDir(), "restored.yaml")
	if err := os.WriteFile(restored, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	report = run(t, Options{BeforeUninstall: true, SchedulerConfig: restored})
	wantFindings(t, report.find(t, "before-uninstall").Findings, "fault:cannot be known")
	if got := report.find(t, "scheduler-config"); got.Status == Fault {
		t.Errorf("that prebind is not registered is no fault before it is uninstalled: %+v", got)
	}
	if got := run(t, Options{SchedulerConfig: restored}).find(t, "scheduler-config"); got.Status != Fault {
		t.Errorf("that prebind is not registered is a fault else: %+v", got)
	}
}

// answering plays an API server that gives the same answer to everything.
func answering(t *testing.T, handler http.HandlerFunc) *rest.Config {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func TestClusterCannotBeReached(t *testing.T) {
	down := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "etcd is away", http.StatusInternalServerError)
	})
	asked := run(t, Options{Cluster: down, ClusterChosen: true})
	wantFindings(t, asked.find(t, "cluster").Findings, "fault:"+down.Host+"|does not answer")
	byChance := run(t, Options{Cluster: down, SchedulerConfig: "../../examples/scheduler-config.yaml"})
	if byChance.Faults != 0 || byChance.find(t, "cluster").Status != Skipped || byChance.find(t, "rbac").Status != Skipped {
		t.Errorf("nobody asked for the cluster, yet: %+v", byChance)
	}
}

func TestNothingMayBeRead(t *testing.T) {
	strict := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			_, _ = w.Write([]byte(`{"major":"1","minor":"37","gitVersion":"v1.37.2"}`))
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
	})
	report := run(t, Options{Cluster: strict, ClusterChosen: true})
	if report.Faults != 0 {
		t.Errorf("faults without a look: %+v", report)
	}
	for _, check := range []string{"rbac", "replicas", "storage-classes", "pods-waiting", "wired-in"} {
		if got := report.find(t, check); got.Status != Skipped || !strings.Contains(got.Summary, "you may not") {
			t.Errorf("%+v", got)
		}
	}
}

// TestTimeOut: a server that hangs costs no more than the time that is given.
func TestTimeOut(t *testing.T) {
	released := make(chan struct{})
	hanging := answering(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-released:
		case <-r.Context().Done():
		}
	})
	defer close(released)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	report, err := Run(ctx, Options{Cluster: hanging, ClusterChosen: true, StepTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	wantFindings(t, report.find(t, "cluster").Findings, "fault:does not answer")
}
