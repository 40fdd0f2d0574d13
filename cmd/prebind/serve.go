package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prebind/prebind/config"
	"github.com/prebind/prebind/internal/logging"
	"github.com/prebind/prebind/internal/version"
	"github.com/prebind/prebind/server"
)

func newServeCommand() *cobra.Command {
	var configFile, kubeconfig string
	command := &cobra.Command{
		Use:   "serve --config FILE [--kubeconfig FILE]",
		Short: "Serve kube-scheduler's bind step",
		Long:  serveHelp(),
		Args:  cobra.NoArgs,

		DisableFlagsInUseLine: true, // Use has them
		RunE: func(command *cobra.Command, _ []string) error {
			cfg, err := loadConfig(configFile)
			if err != nil {
				return err
			}
			return serve(command.Context(), configFile, cfg, kubeconfig, command.ErrOrStderr())
		},
	}
	command.Flags().StringVar(&configFile, "config", "", "configuration file (required)")
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file, goes before clientConnection.kubeconfig")
	if err := command.MarkFlagRequired("config"); err != nil {
		panic(err) // only for a flag that does not exist
	}
	return command
}

func loadConfig(file string) (*config.PrebindConfiguration, error) {
	cfg, err := config.LoadFile(file, config.Options{KnownPlugins: knownPlugins()})
	if err != nil {
		return nil, &configError{file, err}
	}
	return cfg, nil
}

// serve builds everything, runs it until ctx is done, and stops it in reverse:
// the server first, so that running calls are answered, then what they used.
func serve(ctx context.Context, file string, cfg *config.PrebindConfiguration, kubeconfig string, logs io.Writer) error {
	logger, err := logging.New(string(cfg.Logging.Level), string(cfg.Logging.Format), logs)
	if err != nil {
		return &configError{file, err}
	}
	if err := logging.BridgeKlog(logger); err != nil {
		return &runtimeError{err}
	}
	build := version.Get()
	logger.Info("starting", zap.String("version", build.Version), zap.String("commit", build.Commit),
		zap.String("go", build.GoVersion), zap.String("kubernetes", build.Kubernetes), zap.String("config", file))

	limitGarbage()
	tracer, err := newTracer(cfg.Tracing, build.Version, logger)
	if err != nil {
		return &configError{file, err}
	}
	defer tracer.stop()
	api, err := newClients(kubeconfig, cfg.ClientConnection, tracer.requests)
	if err != nil {
		return &runtimeError{err}
	}
	registry, err := newRegistry(build)
	if err != nil {
		return &runtimeError{err}
	}
	engine, err := newBinder(cfg, api, logger, registry)
	if err != nil {
		return &configError{file, err} // a plugin in a stage that it does not have
	}
	srv, err := server.New(server.Config{
		Address:        cfg.Server.Address,
		OpsAddress:     cfg.Server.OpsAddress,
		TLS:            serverTLS(cfg.Server.TLS),
		Binder:         engine.binder,
		Nodes:          engine.nodes,
		Checks:         engine.checks,
		Drain:          engine.drain,
		Trace:          tracer.calls,
		Logger:         logger.Named("server"),
		Registry:       registry,
		MaxFilterBytes: cfg.Server.MaxFilterBytes,
		ShutdownDelay:  cfg.Server.ShutdownDelay.Duration,
		DrainTimeout:   cfg.Server.DrainTimeout.Duration,
		Debug:          debugOf(cfg, engine),
	})
	if err != nil {
		return &runtimeError{err}
	}
	if err := runBoth(ctx, srv.Run, engine.run); err != nil {
		return &runtimeError{err}
	}
	logger.Info("stopped")
	return nil
}

// debugOf is what GET /debug/prebind answers, nil if it is off.
func debugOf(cfg *config.PrebindConfiguration, engine *engine) func() any {
	if !cfg.Server.Debug {
		return nil
	}
	return func() any { return engine.status() }
}

// serverTLS hands server.tls on.
func serverTLS(t *config.TLS) *server.TLS {
	if t == nil {
		return nil
	}
	return &server.TLS{CertFile: t.CertFile, KeyFile: t.KeyFile, ClientCAFile: t.ClientCAFile, AllowedClientNames: t.AllowedClientNames}
}

// runBoth runs the server beside the engine until ctx is done or one of them
// fails, and then ends the server before the engine.
func runBoth(ctx context.Context, server, engine func(context.Context) error) error {
	serverCtx, stopServer := context.WithCancel(ctx)
	defer stopServer()
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngine()
	engineDone := make(chan error, 1)
	go func() {
		defer stopServer()
		engineDone <- engine(engineCtx)
	}()
	err := server(serverCtx)
	stopEngine()
	return errors.Join(err, <-engineDone)
}

func serveHelp() string {
	return fmt.Sprintf(`Serve kube-scheduler's bind step over HTTP until SIGTERM or SIGINT; a second
signal stops at once. The caches are filled first: until /readyz answers 200,
bind calls are answered with an error that makes the scheduler try again.

The API server is found by the first of: --kubeconfig, clientConnection.kubeconfig
in the configuration, the service account of the pod, $KUBECONFIG, ~/.kube/config.

A configuration file with every key and its default:

%s
Register prebind with kube-scheduler in its own configuration:

  apiVersion: kubescheduler.config.k8s.io/v1
  kind: KubeSchedulerConfiguration
  profiles:
  - schedulerName: default-scheduler    # both lists in every profile
    plugins:
      reserve: {disabled: [{name: VolumeBinding}]}
      preBind: {disabled: [{name: VolumeBinding}]}
  extenders:
  - urlPrefix: http://127.0.0.1:8888/v1 # https:// with server.tls, and then:
  #   enableHTTPS: true
  #   tlsConfig: {caFile: ..., certFile: ..., keyFile: ..., serverName: ...}
    bindVerb: bind
    httpTimeout: 11m                    # above volumes.bindTimeout
    nodeCacheCapable: true
    ignorable: false                    # true would bind pods without their volumes

Exit codes: 0 orderly stop, 1 failure at run time, 2 bad use or configuration.`, indent(config.DefaultYAML()))
}
