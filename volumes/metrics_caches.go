package volumes

import "github.com/prometheus/client_golang/prometheus"

// cacheMetrics tells, at each scrape, what is in the caches.
type cacheMetrics struct {
	caches          *Caches
	objects, synced *prometheus.Desc
}

var _ prometheus.Collector = (*cacheMetrics)(nil)

func newCacheMetrics(c *Caches) *cacheMetrics {
	return &cacheMetrics{
		caches:  c,
		objects: prometheus.NewDesc("prebind_cache_objects", "Objects in the watch-fed cache, by resource.", []string{"resource"}, nil),
		synced:  prometheus.NewDesc("prebind_cache_synced", "1 if the cache has seen all that existed when its watch began, else 0, by resource.", []string{"resource"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *cacheMetrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.objects
	descs <- c.synced
}

// Collect implements prometheus.Collector.
func (c *cacheMetrics) Collect(samples chan<- prometheus.Metric) {
	for resource, objects := range c.caches.Objects() {
		synced := 0.0
		if c.caches.informer[resource].HasSynced() {
			synced = 1
		}
		samples <- prometheus.MustNewConstMetric(c.objects, prometheus.GaugeValue, float64(objects), resource)
		samples <- prometheus.MustNewConstMetric(c.synced, prometheus.GaugeValue, synced, resource)
	}
}
