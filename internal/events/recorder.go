package events

import (
	"context"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/cache"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/prebind/prebind/internal/instrument"
)

const (
	// QPS is how many requests are sent in a second at most.
	QPS = 20
	// Burst is how many may exceed QPS for a moment.
	Burst = 100
	// maxQueued is how many events may wait for their turn.
	maxQueued = 1000
)

// What became of an event: the label "result" of prebind_events_total.
const (
	resultWritten  = "written"  // as an event of its own, or as one more of its series
	resultRepeated = "repeated" // counted in its series, which is written with a later one
	resultDropped  = "dropped"  // too many waited already, or prebind stopped
	resultPaused   = "paused"   // not sent: the last request got no answer, or was forbidden
	resultFailed   = "failed"   // sent, and refused or not answered
)

// Config is what a Recorder needs.
type Config struct {
	// Client needs the right to create and patch events.events.k8s.io, and no rate
	// limit of its own.
	Client typedeventsv1.EventsV1Interface
	Logger *zap.Logger
	// Metrics is where the Recorder's metric is registered. Nil: nowhere.
	Metrics prometheus.Registerer
}

// Recorder writes events in the background. A nil Recorder records nothing.
type Recorder struct {
	queue   chan *Event
	results *prometheus.CounterVec

	// What follows is Run's alone.
	client   typedeventsv1.EventsV1Interface
	logger   *zap.Logger
	instance string
	limit    flowcontrol.RateLimiter
	told     *cache.LRUExpireCache // topic -> *told
	paused   time.Time             // until when nothing is sent
	refused  map[string]bool       // verbs whose refusal has been logged
}

// New returns a Recorder; nothing is written before Run.
func New(cfg Config) (*Recorder, error) {
	host, _ := os.Hostname() // empty is no harm
	r := &Recorder{
		queue: make(chan *Event, maxQueued),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prebind_events_total",
			Help: "Events about pods and claims, by result (written, repeated, dropped, paused, failed); the last three were lost.",
		}, []string{"result"}),
		client: cfg.Client, logger: cfg.Logger, instance: Controller + "-" + host,
		limit: flowcontrol.NewTokenBucketRateLimiter(QPS, Burst),
		told:  cache.NewLRUExpireCache(maxTold), refused: map[string]bool{},
	}
	for _, result := range []string{resultWritten, resultRepeated, resultDropped, resultPaused, resultFailed} {
		r.count(result, 0)
	}
	return r, instrument.Register(cfg.Metrics, r.results)
}

// Record takes the event up, or leaves it out when too many wait already. It
// never blocks, and may be called before, while and after Run runs.
func (r *Recorder) Record(event Event) {
	if r == nil {
		return
	}
	event.at, event.Note = time.Now(), cut(event.Note)
	select {
	case r.queue <- &event:
	default:
		r.count(resultDropped, 1)
	}
}

// Run writes what is recorded until ctx is done; what still waits then is left
// out. Call it once.
func (r *Recorder) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case event := <-r.queue:
			r.count(r.take(ctx, event), 1)
		case <-ctx.Done():
		}
	}
	if n := len(r.queue); n > 0 {
		r.count(resultDropped, n)
		r.logger.Info("stopping with events that were not written", zap.Int("events", n))
	}
}

func (r *Recorder) count(result string, n int) { r.results.WithLabelValues(result).Add(float64(n)) }
