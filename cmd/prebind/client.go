package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	eventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/prebind/prebind/config"
	"github.com/prebind/prebind/internal/version"
)

// clients reach the same API server over the same connections. Each waits for
// its own rate limit, and few of the volumes' writes are under way at a time: a
// Binding, which is a pod's last step, must not queue behind the claims of
// thousands of other pods.
type clients struct {
	bindings kubernetes.Interface       // pods: reads and Bindings
	volumes  kubernetes.Interface       // volumes, claims and all else
	events   eventsv1.EventsV1Interface // events that are written; the recorder has a limit of its own
}

// newClients returns the clients. Nothing is sent yet. trace may be nil; else it wraps
// what sends requests.
func newClients(flag string, connection config.ClientConnection, trace func(http.RoundTripper) http.RoundTripper) (clients, error) {
	cfg, err := restConfig(flag, connection.Kubeconfig)
	if err != nil {
		return clients{}, err
	}
	cfg.QPS, cfg.Burst = connection.QPS, connection.Burst
	cfg.UserAgent = "prebind/" + version.Get().Version
	// Everything that prebind reads is a built-in type, for which protobuf is
	// several times cheaper than JSON; what has no protobuf still comes as JSON.
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	transport, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return clients{}, fmt.Errorf("making the client of the API server: %w", err)
	}
	if trace != nil {
		transport.Transport = trace(transport.Transport)
	}
	inTurns := *transport
	inTurns.Transport = newTurns(transport.Transport, writeTurns, turnLength)
	var all clients
	for _, client := range []struct {
		to   *kubernetes.Interface
		over *http.Client
	}{{&all.bindings, transport}, {&all.volumes, &inTurns}} {
		if *client.to, err = kubernetes.NewForConfigAndClient(cfg, client.over); err != nil {
			return clients{}, fmt.Errorf("making the client of the API server: %w", err)
		}
	}
	unlimited := rest.CopyConfig(cfg)
	unlimited.QPS = -1
	if all.events, err = eventsv1.NewForConfigAndClient(unlimited, transport); err != nil {
		return clients{}, fmt.Errorf("making the client for events: %w", err)
	}
	return all, nil
}

// restConfig finds the API server: flag, then file from the configuration,
// then the pod's service account, then what kubectl would use.
func restConfig(flag, file string) (*rest.Config, error) {
	switch {
	case flag != "":
		return fromFile("--kubeconfig", flag)
	case file != "":
		return fromFile("clientConnection.kubeconfig", file)
	}
	cfg, err := rest.InClusterConfig()
	if err == nil {
		return cfg, nil
	}
	if !errors.Is(err, rest.ErrNotInCluster) {
		return nil, fmt.Errorf("using the pod's service account: %w", err)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	cfg, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no --kubeconfig, no clientConnection.kubeconfig, not inside a cluster; using the default kubeconfig (%s): %w",
			strings.Join(rules.Precedence, ", "), err)
	}
	return cfg, nil
}

// fromFile loads one file; source says who named it.
func fromFile(source, path string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("loading the kubeconfig %s (%s): %w", path, source, err)
	}
	return cfg, nil
}
