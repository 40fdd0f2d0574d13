package faults_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/faultproxy"
)

// hastyTimeout is long enough for a call that nothing holds up, even on a
// loaded machine, and short enough to wait for.
const hastyTimeout = 4 * time.Second

// stand is one replica of prebind with the fault proxy that stands between it
// and the API server.
type stand struct {
	name    string
	proxy   *faultproxy.Proxy
	prebind *controlplane.Prebind
}

// standsMade numbers the stands of single tests.
var standsMade atomic.Int32

// startStand starts proxy and prebind. The program runs with the race detector.
func startStand(ctx context.Context, opts controlplane.PrebindOptions) (*stand, error) {
	proxy, err := faultproxy.Start(faultproxy.Options{Target: shared.cp.AdminConfig()})
	if err != nil {
		return nil, err
	}
	opts.APIServer, opts.Race = proxy.URL(), true
	prebind, err := shared.cp.StartPrebind(ctx, opts)
	if err != nil {
		proxy.Stop()
		return nil, err
	}
	return &stand{name: opts.Name, proxy: proxy, prebind: prebind}, nil
}

// ownStand starts a replica for one test, and checks at its end that it is at
// rest and stops in order.
func ownStand(t *testing.T) *stand {
	t.Helper()
	return ownStandWith(t, controlplane.PrebindOptions{})
}

// ownStandWith does so with options; the name is given.
func ownStandWith(t *testing.T, opts controlplane.PrebindOptions) *stand {
	t.Helper()
	opts.Name = fmt.Sprintf("own-%d", standsMade.Add(1))
	s, err := startStand(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.proxy.Calm()
		if err := s.checkAtRest(context.Background()); err != nil {
			t.Error(err)
		}
		if err := s.prebind.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		s.proxy.Stop()
	})
	return s
}

// restart kills prebind as a lost machine would and starts it anew.
func (s *stand) restart(t *testing.T) {
	t.Helper()
	if err := s.prebind.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.prebind.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// checkAtRest checks what every test could have left behind in prebind.
func (s *stand) checkAtRest(ctx context.Context) error {
	log, err := os.ReadFile(s.prebind.Log())
	if err != nil {
		return err
	}
	for _, bad := range []string{"WARNING: DATA RACE", `"panic in a bind call"`} {
		if _, report, found := bytes.Cut(log, []byte(bad)); found {
			return fmt.Errorf("prebind %s: %s%.4000s", s.name, bad, report)
		}
	}
	var last string
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		_, text, err := send(ctx, http.MethodGet, s.prebind.OpsURL()+"/metrics", nil)
		last = string(text)
		return err == nil && strings.Contains(last, "\nprebind_volume_reservations 0\n") &&
			strings.Contains(last, "\nprebind_bind_calls_in_flight 0\n"), nil
	})
	if err != nil {
		return fmt.Errorf("prebind %s is not at rest: %w\n%s", s.name, err, last)
	}
	return nil
}
