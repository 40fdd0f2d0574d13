package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/faultproxy"
)

// bindTimeout is short, so that some waits end by it while a program is away.
const bindTimeout = 30 * time.Second

// replica is one prebind with the proxy between it and the API server.
type replica struct {
	prebind *controlplane.Prebind
	proxy   *faultproxy.Proxy
	trouble *watchTrouble
}

func startReplica(ctx context.Context, cp *controlplane.ControlPlane, name string, opts *Options) (*replica, error) {
	dice := dice(opts.Seed, name)
	proxy, err := faultproxy.Start(faultproxy.Options{Target: cp.AdminConfig(), Seed: dice.Uint64()})
	if err != nil {
		return nil, err
	}
	with := controlplane.PrebindOptions{Name: name, APIServer: proxy.URL(), BindTimeout: bindTimeout, Race: true}
	if opts.Direct {
		with.Config = "volumes: {staticCompletion: Direct}"
	}
	prebind, err := cp.StartPrebind(ctx, with)
	if err != nil {
		proxy.Stop()
		return nil, err
	}
	return &replica{prebind: prebind, proxy: proxy, trouble: &watchTrouble{proxy: proxy, dice: dice}}, nil
}

// atRest returns an error unless no call is running and no volume is reserved.
func (r *replica) atRest(ctx context.Context) error {
	metrics, err := r.metrics(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range []string{"prebind_bind_calls_in_flight", "prebind_volume_reservations"} {
		if value, ok := metrics[name]; !ok || value != 0 {
			errs = append(errs, fmt.Errorf("%s: %s is %g", r.prebind.Name(), name, value))
		}
	}
	return errors.Join(errs...)
}

// metrics returns those without labels.
func (r *replica) metrics(ctx context.Context) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.prebind.OpsURL()+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", r.prebind.Name(), err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", r.prebind.Name(), err)
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			values[name] = value
		}
	}
	return values, nil
}

// races returns the reports of the race detector in the replica's log.
func (r *replica) races() []string {
	log, err := os.ReadFile(r.prebind.Log())
	if err != nil {
		return []string{err.Error()}
	}
	if _, report, found := bytes.Cut(log, []byte("WARNING: DATA RACE")); found {
		return []string{fmt.Sprintf("%s has a data race:%.4000s", r.prebind.Name(), report)}
	}
	return nil
}
