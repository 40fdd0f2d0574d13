package instrument

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers the collectors, in order. With a nil registry it does
// nothing: the metrics count, and nobody sees it.
func Register(registry prometheus.Registerer, collectors ...prometheus.Collector) error {
	if registry == nil {
		return nil
	}
	for _, collector := range collectors {
		if err := registry.Register(collector); err != nil {
			return fmt.Errorf("registering a metric: %w", err)
		}
	}
	return nil
}

// shared registers the collector, or returns the equal one that is registered.
func shared[C prometheus.Collector](registry prometheus.Registerer, collector C) (C, error) {
	err := Register(registry, collector)
	if registered, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := registered.ExistingCollector.(C); ok {
			return same, nil
		}
	}
	return collector, err
}
