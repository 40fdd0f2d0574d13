package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/config"
	"github.com/prebind/prebind/internal/events"
	"github.com/prebind/prebind/internal/status"
	"github.com/prebind/prebind/server"
	"github.com/prebind/prebind/volumes"
)

// engine is all that works behind the server.
type engine struct {
	binder server.Binder
	nodes  server.Nodes
	// checks has one entry per cache.
	checks []server.Check
	// run fills the caches and keeps them so until ctx is done and everything
	// it started has ended. It returns early only with an error.
	run func(ctx context.Context) error
	// drain makes running and new bind calls end at once, and returns when they
	// have, or when ctx ends.
	drain func(ctx context.Context) error
	// status returns the state of the process, for GET /debug/prebind.
	status func() status.Status
}

// pluginRegistry is where a plugin of one's own is added.
func pluginRegistry() binder.Registry { return binder.NewRegistry() }

// knownPlugins tells the configuration which names exist. Whether a plugin has
// the stage that names it is seen when the binder is built.
func knownPlugins() *config.Plugins {
	names := pluginRegistry().Names()
	return &config.Plugins{Permit: names, Reserve: names, PreBind: names, Bind: names, PostBind: names}
}

// pluginsOf names the enabled plugins of each stage, in order.
func pluginsOf(p config.Plugins) map[binder.Stage][]string {
	return map[binder.Stage][]string{
		binder.Permit: p.Permit, binder.Reserve: p.Reserve, binder.PreBind: p.PreBind, binder.Bind: p.Bind, binder.PostBind: p.PostBind,
	}
}

// newBinder wires volumes and binder. Nothing is asked of the API server
// before run. The error is about the configuration.
func newBinder(cfg *config.PrebindConfiguration, api clients, logger *zap.Logger, registry prometheus.Registerer) (*engine, error) {
	caches, err := volumes.NewCaches(api.volumes)
	if err != nil {
		return nil, err
	}
	recorder, told, toldBound, err := newRecorder(cfg.Events, api, logger, registry)
	if err != nil {
		return nil, err
	}
	prebinder, err := volumes.New(volumes.Config{
		Client: api.volumes, Caches: caches, Events: told,
		CompleteClaims: cfg.Volumes.StaticCompletion == config.StaticCompletionDirect,
		Metrics:        registry,
	})
	if err != nil {
		return nil, err
	}
	b, err := binder.New(binder.Config{
		Client:      api.bindings,
		Caches:      caches,
		Volumes:     prebinder,
		Logger:      logger.Named("binder"),
		Metrics:     registry,
		Registry:    pluginRegistry(),
		Plugins:     pluginsOf(cfg.Plugins),
		BindTimeout: cfg.Volumes.BindTimeout.Duration,
		MaxCalls:    cfg.Server.MaxBindCalls,
		ProvisioningLimits: binder.ProvisioningLimits{
			PerClass: cfg.ProvisioningLimit.PerClass,
			Classes:  cfg.ProvisioningLimit.Classes,
		},
		Nominator:   nominator(cfg, api),
		BoundEvents: toldBound,
	})
	if err != nil {
		return nil, err
	}
	return &engine{
		binder: b,
		nodes:  prebinder,
		checks: cacheChecks(caches.Synced()),
		run: func(ctx context.Context) error {
			var recording sync.WaitGroup
			defer recording.Wait()
			if recorder != nil {
				recording.Go(func() { recorder.Run(ctx) })
			}
			return runCaches(ctx, caches, logger)
		},
		drain: func(ctx context.Context) error {
			b.Shutdown()
			return b.Wait(ctx)
		},
		status: newStatus(b, prebinder, caches).read,
	}, nil
}

// nominator returns the client of nominations: not that of Bindings, which must not
// queue behind them. Nil is none.
func nominator(cfg *config.PrebindConfiguration, api clients) kubernetes.Interface {
	if !cfg.Volumes.NominateWhileWaiting {
		return nil
	}
	return api.volumes
}

// newRecorder returns what writes events, and who is told of which; nil for what
// is off.
func newRecorder(cfg config.Events, api clients, logger *zap.Logger, registry prometheus.Registerer) (recorder *events.Recorder, told, toldBound volumes.Recorder, err error) {
	if !cfg.Enabled {
		return nil, nil, nil, nil
	}
	recorder, err = events.New(events.Config{Client: api.events, Logger: logger.Named("events"), Metrics: registry})
	if err != nil {
		return nil, nil, nil, err
	}
	if cfg.Bound {
		toldBound = recorder
	}
	return recorder, recorder, toldBound, nil
}

// cacheChecks makes one check of each cache, in the order of their names.
func cacheChecks(synced map[string]func() bool) []server.Check {
	var checks []server.Check
	for _, name := range slices.Sorted(maps.Keys(synced)) {
		checks = append(checks, server.Check{Name: "cache-" + name, Check: func() error {
			if !synced[name]() {
				return errors.New("not synced yet")
			}
			return nil
		}})
	}
	return checks
}

// runCaches is engine.run.
func runCaches(ctx context.Context, caches *volumes.Caches, logger *zap.Logger) error {
	caches.Start(ctx)
	defer caches.Wait()
	var synced []cache.InformerSynced
	for _, s := range caches.Synced() {
		synced = append(synced, s)
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		logger.Info("ready, all caches are synced")
	}
	<-ctx.Done()
	return nil
}
