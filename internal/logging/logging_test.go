package logging_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/prebind/prebind/internal/logging"
)

// lines decodes JSON log lines, without their time.
func lines(t *testing.T, text string) []map[string]any {
	t.Helper()
	var decoded []map[string]any
	for line := range strings.Lines(text) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("line %q is no JSON: %v", line, err)
		}
		if ts, _ := entry["ts"].(string); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(ts) {
			t.Errorf("ts = %q", ts)
		}
		delete(entry, "ts")
		decoded = append(decoded, entry)
	}
	return decoded
}

func TestNew(t *testing.T) {
	var out bytes.Buffer
	logger, err := logging.New("info", logging.JSON, &out)
	if err != nil {
		t.Fatal(err)
	}
	logger.Debug("hidden")
	logger.Named("binder").Info("bound",
		logging.Pod("shop", "db-0"), logging.Claim("shop", "data-db-0"),
		zap.Duration("tookMs", 1234567*time.Nanosecond))
	want := []map[string]any{{
		"level": "info", "logger": "binder", "msg": "bound", "pod": "shop/db-0", "claim": "shop/data-db-0",
		"tookMs": 1.234567,
	}}
	if diff := cmp.Diff(want, lines(t, out.String())); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestNewConsole(t *testing.T) {
	var out bytes.Buffer
	logger, err := logging.New("warn", logging.Console, &out)
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("hidden")
	logger.Warn("seen", logging.Pod("shop", "db-0"))
	if got := out.String(); !strings.HasSuffix(got, "\twarn\tseen\t{\"pod\": \"shop/db-0\"}\n") {
		t.Errorf("line = %q", got)
	}
}

func TestNewMistakes(t *testing.T) {
	for name, tc := range map[string]struct{ level, format, want string }{
		"level":  {"loud", logging.JSON, "loud"},
		"format": {"info", "xml", `unknown log format "xml", known ones: json, console`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := logging.New(tc.level, tc.format, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("New() error = %v, want %q in it", err, tc.want)
			}
		})
	}
}

// TestBridgeKlog is not parallel: klog's state is global.
func TestBridgeKlog(t *testing.T) {
	ref := klog.KRef("shop", "db-0")
	logAll := func() {
		klog.InfoS("global", "pod", ref)
		klog.V(4).InfoS("verbose", "pod", ref)
		klog.V(5).InfoS("too verbose")
		ctx := klog.NewContext(t.Context(), klog.Background().WithValues("pod", ref).WithName("reflector"))
		klog.FromContext(ctx).V(4).Info("contextual", "claim", types.NamespacedName{Namespace: "shop", Name: "data"})
		klog.ErrorS(errors.New("no"), "failed", "pod", ref)
	}
	global := map[string]any{"level": "info", "logger": "klog", "msg": "global", "pod": "shop/db-0"}
	failed := map[string]any{"level": "error", "logger": "klog", "msg": "failed", "pod": "shop/db-0", "error": "no"}
	tests := map[string][]map[string]any{
		"error": {failed},
		"info":  {global, failed},
		"debug": {
			global,
			{"level": "debug", "logger": "klog", "msg": "verbose", "pod": "shop/db-0"},
			{"level": "debug", "logger": "klog.reflector", "msg": "contextual", "pod": "shop/db-0", "claim": "shop/data"},
			failed,
		},
	}
	for level, want := range tests {
		t.Run(level, func(t *testing.T) {
			state := klog.CaptureState()
			defer state.Restore()
			var out bytes.Buffer
			logger, err := logging.New(level, logging.JSON, &out)
			if err != nil {
				t.Fatal(err)
			}
			if err := logging.BridgeKlog(logger); err != nil {
				t.Fatal(err)
			}
			logAll()
			klog.Flush()
			if diff := cmp.Diff(want, lines(t, out.String())); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}
