package binder

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// line is what there is to say of a ticket's wait for the places of one class.
type line struct {
	class  string
	claims []string // namespace/name
	inUse  int      // places
	ahead  int      // pods that want some and come before
}

// wants returns what the ticket waits for.
func (p *places) wants(t *ticket) []want {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(t.wants)
}

// claims returns the namespace/name of what the ticket waits for.
func (p *places) claims(t *ticket) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := make([]string, 0, len(t.wants))
	for _, w := range t.wants {
		names = append(names, w.name)
	}
	return names
}

// lines returns one for each class that the ticket waits for.
func (p *places) lines(t *ticket) []line {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []line
	at, _ := p.find(t)
	for _, w := range t.wants {
		i := slices.IndexFunc(lines, func(l line) bool { return l.class == w.class })
		if i < 0 {
			i = len(lines)
			lines = append(lines, line{class: w.class, inUse: p.inUse[w.class]})
			for _, before := range p.waiting[:at] {
				if slices.ContainsFunc(before.wants, func(b want) bool { return b.class == w.class }) {
					lines[i].ahead++
				}
			}
		}
		lines[i].claims = append(lines[i].claims, w.name)
	}
	return lines
}

// placesMetrics shows the places as metrics. No label holds the name of a claim.
type placesMetrics struct {
	places         *places
	inUse, waiting *prometheus.Desc
}

var _ prometheus.Collector = (*placesMetrics)(nil)

func newPlacesMetrics(p *places) *placesMetrics {
	return &placesMetrics{
		places: p,
		inUse: prometheus.NewDesc("prebind_provisioning_limit_in_use",
			"Claims of a class with a limit that are in provisioning now, or about to be.", []string{"class"}, nil),
		waiting: prometheus.NewDesc("prebind_provisioning_limit_waiting",
			"Claims of a class with a limit whose bind call waits for its turn to have them provisioned.", []string{"class"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *placesMetrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- m.inUse
	descs <- m.waiting
}

// Collect implements prometheus.Collector.
func (m *placesMetrics) Collect(metrics chan<- prometheus.Metric) {
	inUse, waiting := m.places.count()
	for class, n := range inUse {
		metrics <- prometheus.MustNewConstMetric(m.inUse, prometheus.GaugeValue, float64(n), class)
	}
	for class, n := range waiting {
		metrics <- prometheus.MustNewConstMetric(m.waiting, prometheus.GaugeValue, float64(n), class)
	}
}

// count returns the places in use and the claims that wait, by label. A class that
// was there before is there with 0.
func (p *places) count() (inUse, waiting map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, classes := range []map[string]int{p.inUse, p.wanted} {
		for _, class := range slices.Sorted(maps.Keys(classes)) {
			p.label(class)
		}
	}
	inUse, waiting = map[string]int{}, map[string]int{}
	for class := range p.labels {
		inUse[class], waiting[class] = 0, 0
	}
	for class, n := range p.inUse {
		inUse[p.label(class)] += n
	}
	for class, n := range p.wanted {
		waiting[p.label(class)] += n
	}
	return inUse, waiting
}

func (p *places) label(class string) string {
	label := p.classes.Label(class)
	p.labels[label] = true
	return label
}
