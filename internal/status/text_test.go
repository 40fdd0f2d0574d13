package status_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prebind/prebind/internal/status"
)

// noon is when the instances of these tests answer.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

// busy is an instance about which there is much to say.
func busy() status.Status {
	return status.Status{
		APIVersion: status.APIVersion, Kind: status.Kind, Time: noon,
		Instance: status.Instance{Name: "kube-system/prebind-7d9f-x2x4p", Host: "prebind-7d9f-x2x4p", Version: "v0.1.0", Started: ago(27*time.Hour + time.Minute)},
		Running: []status.Running{{
			Pod: "shop/db-0", Node: "node-7", Stage: "preBind", Since: ago(72 * time.Second), AgeSeconds: 72, ClaimsTotal: 2, Claims: []status.WaitingClaim{
				{Claim: "shop/data-0", Class: "fast", Cause: "provisioner", WaitsFor: "provisioner csi.example.com to make a volume for node node-7"},
				{Claim: "shop/log-0", Class: "local", Cause: "pv_controller", WaitsFor: "the PV controller to finish the binding to volume pv-1"},
			},
		}, {
			Pod: "shop/many", Node: "node-11", Stage: "preBind", Since: ago(2500 * time.Millisecond), AgeSeconds: 2.5, ClaimsTotal: 9, Claims: []status.WaitingClaim{
				{Claim: "shop/many-0", Cause: "volume", WaitsFor: "volume pv-2 to appear"},
			},
		}, {
			Pod: "shop/db-1", Node: "node-7", Stage: "bind", Since: ago(12 * time.Millisecond), AgeSeconds: 0.012,
		}},
		RunningTotal: 4,
		Reservations: []status.Reservation{
			{Claim: "shop/data-0", Node: "node-7", Since: ago(72 * time.Second), Written: true},
			{Claim: "shop/log-0", Volume: "pv-1", Node: "node-7", Since: ago(900 * time.Millisecond)},
		},
		ReservationsTotal: 2,
		Failed: []status.Ended{{
			Pod: "shop/db-2", Node: "node-8", Outcome: "error", Reason: "ProvisioningFailed", Began: ago(3 * time.Hour), DurationMS: 2100, Joined: true,
			Error:  "ProvisioningFailed: claim shop/data-2 (class fast): node-8: quota \x1b[31mexceeded\nfor \u202egood",
			Stages: []status.Stage{{Name: "preBind", DurationMS: 2099}},
		}},
		Bound: []status.Ended{{
			Pod: "shop/db-1", Node: "node-7", Outcome: "bound", Began: ago(12*time.Second + 31*time.Millisecond), DurationMS: 31.4,
			Stages: []status.Stage{{Name: "admit", DurationMS: 0.013}, {Name: "reserve", DurationMS: 0.2}, {Name: "preBind", DurationMS: 15.799}, {Name: "bind", DurationMS: 13.311}},
		}},
		Caches: []status.Cache{{Name: "nodes", Objects: 3, Synced: true}, {Name: "pods", Objects: 12, Synced: true}, {Name: "storageclasses"}},
	}
}

// idle is one that has nothing to do.
func idle() status.Status {
	return status.Status{
		APIVersion: status.APIVersion, Kind: status.Kind, Time: noon,
		Instance: status.Instance{Name: "127.0.0.1:8889", Host: "node-1", Version: "devel", Started: ago(5 * time.Second)},
		Caches:   []status.Cache{{Name: "nodes", Objects: 3, Synced: true}},
	}
}

// golden compares with a file of testdata; UPDATE_GOLDEN=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := "testdata/" + name
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestWriteText(t *testing.T) {
	failing := busy()
	for n := range 12 { // each twice
		failing.Failed = append(failing.Failed, slices.Repeat([]status.Ended{{
			Pod: fmt.Sprintf("shop/db-1%d", n), Node: "node-11", Outcome: "error", Reason: "NoVolume", Began: ago(30 * time.Hour), DurationMS: 0.3,
			Error: "NoVolume: claim shop/data-3 (class local): none",
		}}, 2)...)
	}
	for name, all := range map[string][]status.Status{"busy.txt": {failing, idle()}, "idle.txt": {idle()}, "none.txt": nil} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			if err := status.WriteText(&text, all); err != nil {
				t.Fatal(err)
			}
			golden(t, name, text.String())
			if strings.ContainsAny(text.String(), "\x1b\r\t\u202e") {
				t.Errorf("there are control characters in %q", text.String())
			}
		})
	}
}

// The keys are a contract.
func TestJSON(t *testing.T) {
	text, err := json.MarshalIndent(busy(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "busy.json", string(text)+"\n")
}
