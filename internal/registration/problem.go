package registration

import "time"

// Mode is how the work is shared between kube-scheduler and prebind.
type Mode string

const (
	// ModeBind means that kube-scheduler filters and scores nodes with its VolumeBinding
	// plugin, which is disabled at reserve and preBind; prebind binds.
	ModeBind Mode = "bind"
	// ModeFull means that VolumeBinding is left at preFilter at most; prebind also filters and
	// scores, through an entry of its own.
	ModeFull Mode = "full"
	// ModeStock means that the profiles are untouched. Volumes arrive bound and prebind
	// posts only the Binding.
	ModeStock Mode = "stock"
	// ModeNone means that prebind is not registered, and VolumeBinding is as it comes. To
	// Patch it means: take out what the other modes put in.
	ModeNone Mode = "none"
	// ModeMixed is what Check finds when the file is none of the others, or its
	// profiles differ. It always comes with a Fault.
	ModeMixed Mode = "mixed"
)

// Severity tells whether a Problem must be mended.
type Severity string

const (
	// Fault means that pods fail, hang, or start without their volumes; or the scheduler
	// does not start; or anybody can play prebind.
	Fault Severity = "fault"
	// Advice means that it works, but not as well or not as long as it could.
	Advice Severity = "advice"
)

// Problem is one thing that Check found, in words for somebody who has read
// nothing else.
type Problem struct {
	Severity Severity `json:"severity"`
	// Check is a stable id in kebab case, such as "reserve-left-on".
	Check string `json:"check"`
	// Path is where in the file, such as "profiles[1].plugins.reserve". Empty:
	// the file as a whole.
	Path string `json:"path,omitempty"`
	What string `json:"what"`
	Why  string `json:"why"`
	Mend string `json:"mend"`
}

// NotRegistered is the Check of the Fault that nobody but kube-scheduler itself
// binds in a file, as it should be once prebind has been taken out.
const NotRegistered = "not-registered"

// CheckOptions say what Check knows beside the file.
type CheckOptions struct {
	// BindTimeout is prebind's volumes.bindTimeout; httpTimeout must be above
	// it. Zero: 10 minutes, prebind's default.
	BindTimeout time.Duration
	// ReadFile reads the CA and certificate files that the configuration names.
	// Nil: they are not looked at.
	ReadFile func(path string) ([]byte, error)
	// Now is what certificates are held against. Zero: time.Now.
	Now time.Time
}

// Found is what the file says of prebind, for callers that go on to the
// endpoint itself.
type Found struct {
	Mode Mode `json:"mode"`
	// SchedulerNames are those of the profiles, in order.
	SchedulerNames []string `json:"schedulerNames"`
	// Kubeconfig is clientConnection.kubeconfig.
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// Path is where the bind entry stands, such as "extenders[0]". Empty: there
	// is none, and all that follows is empty too.
	Path string `json:"path,omitempty"`
	// URL is the entry's urlPrefix, without a "/" at its end.
	URL         string        `json:"url,omitempty"`
	HTTPS       bool          `json:"https,omitempty"`
	ServerName  string        `json:"serverName,omitempty"` // tlsConfig.serverName
	HTTPTimeout time.Duration `json:"-"`                    // with kube-scheduler's default of 5 s

	// The files that tlsConfig names, and PEM data: written into the file, or
	// else what ReadFile gave. Data goes before files, as in kube-scheduler.
	CAFile   string `json:"caFile,omitempty"`
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
	CAData   []byte `json:"-"`
	CertData []byte `json:"-"`
	KeyData  []byte `json:"-"`
}
