package config

// The version and kind that a configuration file must name.
const (
	APIVersion = "prebind.dev/v1alpha1"
	Kind       = "PrebindConfiguration"
)

// PrebindConfiguration is the whole configuration of `prebind serve`.
type PrebindConfiguration struct {
	// APIVersion is "prebind.dev/v1alpha1", which is also its default.
	APIVersion string `json:"apiVersion"`
	// Kind is "PrebindConfiguration", which is also its default.
	Kind string `json:"kind"`

	// Server says where prebind listens.
	Server Server `json:"server"`
	// ClientConnection says how prebind reaches the API server.
	ClientConnection ClientConnection `json:"clientConnection"`
	// Volumes tunes how claims are bound.
	Volumes Volumes `json:"volumes"`
	// Plugins picks and orders the plugins of the binding cycle.
	Plugins Plugins `json:"plugins"`
	// ProvisioningLimit tunes the plugin ProvisioningLimit.
	ProvisioningLimit ProvisioningLimit `json:"provisioningLimit"`
	// Events says which events are written on pods and claims.
	Events Events `json:"events"`
	// Logging says what is logged, and how.
	Logging Logging `json:"logging"`
	// Tracing says where spans go. Off by default.
	Tracing Tracing `json:"tracing"`
}

// Server holds the two listeners, how much they take on, and how they stop. An
// address is host:port, the host an IP address (IPv6 in brackets), "localhost"
// or a DNS name. Port 0 takes a free port, which the log names. The two
// addresses must differ unless their port is 0. Empty is a mistake.
type Server struct {
	// Address serves the extender verbs, POST /v1/bind, /v1/filter and
	// /v1/prioritize. It must be on loopback
	// unless TLS is set or Insecure is true. Default "127.0.0.1:8888".
	Address string `json:"address"`
	// OpsAddress serves GET /livez, /readyz, /metrics and, with Debug,
	// /debug/prebind. An empty host
	// (":8889") means all interfaces. Default "127.0.0.1:8889".
	OpsAddress string `json:"opsAddress"`
	// Debug serves GET /debug/prebind on OpsAddress, which `prebind status` asks:
	// what pods wait for, reservations and the last bind calls, with the names of
	// pods, claims, volumes and nodes, to whoever reaches the address. Default
	// false.
	Debug bool `json:"debug"`
	// Insecure allows plain HTTP on an Address that is not on loopback: whoever
	// reaches it can then bind pods. It cannot stand beside TLS. Default false.
	Insecure bool `json:"insecure"`
	// TLS makes Address speak HTTPS. OpsAddress stays plain HTTP. Absent means
	// plain HTTP. Default absent.
	TLS *TLS `json:"tls"`
	// MaxBindCalls is how many bind calls may run at once, those that wait for
	// a provisioner among them; more are answered the retryable error
	// TooManyCalls. It bounds memory: a call that waits takes about 50 KiB, over mTLS 30. At
	// least 1. Default 10000.
	MaxBindCalls int `json:"maxBindCalls"`
	// MaxFilterBytes is how large the body of a filter or prioritize call may be.
	// 5,000 names of nodes are 0.1 to 1.3 MB; 5,000 nodes sent whole
	// (nodeCacheCapable: false) some 20 KB each. At least 65536. Default
	// 134217728 (128 MiB).
	MaxFilterBytes int64 `json:"maxFilterBytes"`
	// ShutdownDelay is how long prebind goes on as before after SIGTERM,
	// except that /readyz is 503, so that who sends it calls can turn to
	// another replica first. A Go duration, 0s for no delay. Default "0s".
	ShutdownDelay Duration `json:"shutdownDelay"`
	// DrainTimeout is how long, after ShutdownDelay, calls may take to be
	// answered; those left are cut off, and the exit code is 1. Together with
	// ShutdownDelay it should stay below the pod's
	// terminationGracePeriodSeconds. At least 1s. Default "25s".
	DrainTimeout Duration `json:"drainTimeout"`
}

// TLS says how the extender verbs are served over HTTPS (TLS 1.2 or 1.3), and
// who may call them. The files are PEM; they are read again when they change,
// and a file that cannot be used then leaves the old content in place.
type TLS struct {
	// CertFile is the path of the serving certificate, with its intermediates
	// behind it. Required.
	CertFile string `json:"certFile"`
	// KeyFile is the path of its private key. Required.
	KeyFile string `json:"keyFile"`
	// ClientCAFile is the path of the authorities whose client certificates are
	// accepted; a caller without one is refused. Empty means that callers are
	// not authenticated. Default "".
	ClientCAFile string `json:"clientCAFile"`
	// AllowedClientNames are the callers accepted among those with a
	// certificate of ClientCAFile: the certificate's common name, or one of its
	// DNS names, e-mail addresses or URIs, must be one of these, letter for
	// letter. Empty means any. Needs ClientCAFile. Default [].
	AllowedClientNames []string `json:"allowedClientNames"`
}

// ClientConnection is the connection to the API server.
type ClientConnection struct {
	// Kubeconfig is the path of a kubeconfig file; the flag --kubeconfig goes
	// before it. Empty means in-cluster if prebind runs in a pod, else the
	// user's default: $KUBECONFIG, then ~/.kube/config. Default "".
	Kubeconfig string `json:"kubeconfig"`
	// QPS is the sustained rate of requests to the API server, in requests a
	// second, for all bind calls together; requests above it wait. It holds for
	// pods and their Bindings and, apart from those, for all else, so that a
	// Binding does not queue behind the claims of other pods. More than 0.
	// Default 500.
	QPS float32 `json:"qps"`
	// Burst is how many requests may exceed QPS for a moment. At least 1.
	// Default 1000.
	Burst int `json:"burst"`
}

// Volumes tunes the plugin VolumeBinding.
type Volumes struct {
	// BindTimeout is how long one bind call may take, mostly waiting for
	// provisioners; after it the scheduler is answered an error and tries the
	// pod again. Keep it below the httpTimeout of the scheduler's extender
	// entry. A Go duration such as "90s" or "10m", at least 1s. Default "10m".
	BindTimeout Duration `json:"bindTimeout"`
	// StaticCompletion says who finishes the claim's side once prebind has
	// written a volume's claimRef: the PV controller, or prebind itself. Default
	// "Controller".
	StaticCompletion StaticCompletion `json:"staticCompletion"`
	// NominateWhileWaiting has a call that waits long write its node to the pod's
	// status.nominatedNodeName, so that autoscalers and a restarted scheduler know
	// where the pod will be: at once if a provisioner has to make a volume, or has
	// to be waited for in line, else after two seconds. It is taken back when the
	// pod is not bound. Needs the right to patch pods/status. Default false.
	NominateWhileWaiting bool `json:"nominateWhileWaiting"`
}

// StaticCompletion says who completes a static binding.
type StaticCompletion string

const (
	// StaticCompletionController leaves the claim to the PV controller.
	StaticCompletionController StaticCompletion = "Controller"
	// StaticCompletionDirect lets prebind write the volume's phase and the claim
	// as well, where the PV controller has seen the volume free; it is left to the
	// controller elsewhere. Needs the right to patch persistentvolumes/status.
	StaticCompletionDirect StaticCompletion = "Direct"
)

// Names of the built-in plugins that validation knows about.
const (
	// PluginVolumeBinding reserves, writes and awaits the pod's volumes.
	PluginVolumeBinding = "VolumeBinding"
	// PluginDefaultBinder posts the Binding.
	PluginDefaultBinder = "DefaultBinder"
)

// ProvisioningLimit tunes the plugin ProvisioningLimit, which is off unless
// plugins.permit names it. It bounds how many claims of a storage class are in
// provisioning at once; the others wait in the order in which their pods came.
type ProvisioningLimit struct {
	// PerClass is the limit of each class that Classes does not name, in claims. 0
	// is no limit. Default 10.
	PerClass int `json:"perClass"`
	// Classes are limits of single classes, by the name of the StorageClass. 0 is no
	// limit. Default {}.
	Classes map[string]int `json:"classes"`
}

// Plugins lists, for each stage of the binding cycle, the names of the plugins
// to run, in this order; unreserve runs the reserve plugins in reverse. A
// stage that is absent has its default; an empty list means no plugin.
type Plugins struct {
	// Permit may refuse or delay a pod before anything is reserved, as
	// ProvisioningLimit does. Default [].
	Permit []string `json:"permit"`
	// Reserve holds what the pod needs, in memory. Must contain VolumeBinding:
	// without it pods would be bound with unbound claims. Default
	// [VolumeBinding].
	Reserve []string `json:"reserve"`
	// PreBind writes and awaits what was reserved. Must contain VolumeBinding,
	// for the same reason. Default [VolumeBinding].
	PreBind []string `json:"preBind"`
	// Bind posts the Binding; the first plugin that does not skip ends the
	// stage. Not empty. Default [DefaultBinder].
	Bind []string `json:"bind"`
	// PostBind is told of the success. Default [].
	PostBind []string `json:"postBind"`
}

// Events says which events (events.k8s.io/v1) prebind writes on pods and claims.
// They need the right to create and patch them; without it the rest works.
type Events struct {
	// Enabled writes an event where a pod waits for its volumes for a minute, and
	// again each minute, and where provisioning failed or a volume does not fit
	// the node. Default true.
	Enabled bool `json:"enabled"`
	// Bound also writes one on each pod that was bound, and on its claims; the
	// scheduler says Scheduled already. Needs Enabled. Default false.
	Bound bool `json:"bound"`
}

// Logging says what is logged to standard error, and how.
type Logging struct {
	// Level is the lowest level that is logged: "debug" (adds every write to
	// the API server and client-go's own lines up to verbosity 4), "info",
	// "warn" or "error". Default "info".
	Level LogLevel `json:"level"`
	// Format is "json", one object a line, or "console", for people. Default
	// "json".
	Format LogFormat `json:"format"`
}

// LogLevel is the lowest level that is logged.
type LogLevel string

// The levels, most talkative first.
const (
	LogLevelDebug LogLevel = "debug"
	LogLevelInfo  LogLevel = "info"
	LogLevelWarn  LogLevel = "warn"
	LogLevelError LogLevel = "error"
)

// LogFormat is the shape of a log line.
type LogFormat string

// The formats.
const (
	LogFormatJSON    LogFormat = "json"
	LogFormatConsole LogFormat = "console"
)

// Tracing tunes OpenTelemetry. Its keys are those of Kubernetes' own
// TracingConfiguration.
type Tracing struct {
	// Endpoint is the URL of a collector's OTLP/HTTP receiver, http or https, such as
	// "http://127.0.0.1:4318"; spans are sent to /v1/traces there. Default "": nothing
	// is traced.
	Endpoint string `json:"endpoint"`
	// SamplingRatePerMillion is how many of a million calls are traced, 0 to 1000000,
	// of those whose caller does not say by a header traceparent whether they are.
	// kube-scheduler does not. Default 0: only calls whose caller traces them.
	SamplingRatePerMillion int `json:"samplingRatePerMillion"`
}
