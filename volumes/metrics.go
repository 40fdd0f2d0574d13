package volumes

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/prebind/prebind/internal/instrument"
)

// Why a volume that was chosen is not taken: the label "cause".
const (
	conflictReserved = "reserved" // another call of this process was faster
	conflictTaken    = "taken"    // the API has it as another claim's, or no more
)

// What a filter call waits for: the label "cause".
const (
	filterWaitBindCall = "bind_call"
	filterWaitWatch    = "watch"
)

// metrics of this package. No label ever holds the name of an object, but for
// that of a StorageClass.
type metrics struct {
	writes *instrument.Writes
	// wait is of claims, see waits.
	wait      *prometheus.HistogramVec
	classes   instrument.Classes
	conflicts *prometheus.CounterVec

	nodes      *prometheus.CounterVec
	rejections *prometheus.CounterVec
	filterWait *prometheus.HistogramVec

	indexUpdate *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		wait: prometheus.NewHistogramVec(instrument.Histogram("prebind_volume_wait_seconds",
			"Time that bind calls spent on a claim that was not bound yet, the writes included, by class, kind (static, dynamic) and result (success, error).",
			instrument.Waits()), []string{"class", "kind", "result"}),
		conflicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prebind_volume_conflicts_total",
			Help: "Volumes chosen for a claim that were somebody else's by then, by cause: reserved by another call of this replica, or taken as the API shows it.",
		}, []string{"cause"}),
		nodes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prebind_filter_nodes_total",
			Help: "Nodes judged in filter calls for pods with claims, by result (passed, refused).",
		}, []string{"result"}),
		rejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prebind_filter_rejections_total",
			Help: "Nodes refused in filter calls, by reason. One with several reasons counts for each.",
		}, []string{"reason"}),
		filterWait: prometheus.NewHistogramVec(instrument.Histogram("prebind_filter_wait_duration_seconds",
			"Time that filter calls waited, if they did, by cause: the bind call of the pod before, or the watch since no node was left.",
			instrument.Steps()), []string{"cause"}),
		indexUpdate: prometheus.NewHistogramVec(instrument.Histogram("prebind_index_update_duration_seconds",
			"Time that an index took to follow its cache, by index (volumes, capacities).", instrument.Steps()), []string{"index"}),
	}
	var err error
	if m.writes, err = instrument.NewWrites(registry, instrument.Volumes, instrument.VolumeStatus, instrument.Claims); err != nil {
		return nil, err
	}
	m.startAtZero()
	return m, instrument.Register(registry, m.wait, m.conflicts, m.nodes, m.rejections, m.filterWait, m.indexUpdate)
}

// startAtZero makes the series that are known before anything happens.
func (m *metrics) startAtZero() {
	for _, cause := range []string{conflictReserved, conflictTaken} {
		m.conflicts.WithLabelValues(cause)
	}
	for _, result := range []string{nodePassed, nodeRefused} {
		m.nodes.WithLabelValues(result)
	}
	for _, cause := range []string{filterWaitBindCall, filterWaitWatch} {
		m.filterWait.WithLabelValues(cause)
	}
}

// registerMetrics makes all that this package has to tell known to the registry, which
// may be nil.
func (p *Prebinder) registerMetrics(registry prometheus.Registerer) (err error) {
	if p.metrics, err = newMetrics(registry); err == nil {
		free, room := p.caches.free, p.caches.room
		free.took = p.metrics.indexUpdate.WithLabelValues("volumes")
		room.took = p.metrics.indexUpdate.WithLabelValues("capacities")
		p.waits = newWaits(p.metrics)
		err = instrument.Register(registry, p.waits, newCacheMetrics(p.caches),
			gauge("prebind_volume_reservations", "Claims with a volume, or a node to be provisioned for, promised to them that the cache does not show yet; 0 at rest.", p.Reserved),
			gauge("prebind_index_free_volumes", "Volumes that any claim may take: free, and not reserved.", func() int { volumes, _ := free.size(); return volumes }),
			gauge("prebind_index_volume_groups", "Groups of free volumes: of one class, and reachable from the same nodes.", func() int { _, groups := free.size(); return groups }),
			gauge("prebind_index_capacities", "Reports of storage capacity that a node can use.", room.size))
	}
	if err != nil {
		return fmt.Errorf("registering the metrics of volumes: %w", err)
	}
	return nil
}

func gauge(name, help string, value func() int) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
}

// observeSince tells how long something took that began then. o may be nil.
func observeSince(o prometheus.Observer, began time.Time) {
	if o != nil {
		o.Observe(time.Since(began).Seconds())
	}
}
