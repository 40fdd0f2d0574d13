package provisioner

import (
	"context"
	_ "embed" // for the manifest
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"github.com/prebind/prebind/test/controlplane"
)

const (
	// DefaultName is what classes name as their provisioner unless Options say
	// otherwise.
	DefaultName = "demo.prebind.dev/local-disk"

	serviceAccount = "prebind-test-provisioner"
	// workers is high because attempts that are held keep one each.
	workers = 100
)

//go:embed rbac.yaml
var manifest []byte

// Options say how the provisioner behaves. The zero value is a good one.
type Options struct {
	// Name is the provisioner's name. Empty: DefaultName, on an existing cluster
	// with a random suffix.
	Name string
	// Hook is called in each attempt after the waits and failures of the class's
	// parameters. An error fails the attempt; a *FailureError also says what follows,
	// any other error means Reschedule. It is called in parallel.
	Hook func(context.Context, Attempt) error
	// Change may change a volume before it is created. It is called in parallel.
	Change func(Attempt, *Volume)
	// Retry is the pause after the first failure that keeps the selected node; it
	// doubles up to ten times that. Zero: 200 ms (real ones take 15 s).
	Retry time.Duration
	// Logger gets the library's log. The zero value logs nothing.
	Logger logr.Logger
}

// Provisioner is a running provisioner.
type Provisioner struct {
	opts   Options
	client kubernetes.Interface
	record *record
	stop   context.CancelFunc
	done   chan struct{} // closed when the library has ended
}

// Start creates the provisioner's ServiceAccount with its rights and runs it
// until Stop or the end of ctx.
func Start(ctx context.Context, cp *controlplane.ControlPlane, opts Options) (*Provisioner, error) {
	if opts.Name == "" {
		opts.Name = DefaultName
		if cp.Existing() { // where another of that name may be at work
			opts.Name += "-" + rand.String(5)
		}
	}
	if opts.Retry == 0 {
		opts.Retry = 200 * time.Millisecond
	}
	if opts.Logger.GetSink() == nil {
		opts.Logger = logr.Discard()
	}
	if err := cp.ApplyManifestText(ctx, manifest); err != nil {
		return nil, fmt.Errorf("starting the provisioner: %w", err)
	}
	config, err := cp.ServiceAccountConfig(ctx, "kube-system", serviceAccount)
	if err != nil {
		return nil, fmt.Errorf("starting the provisioner: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("starting the provisioner: %w", err)
	}
	p := &Provisioner{opts: opts, client: client, record: newRecord(), done: make(chan struct{})}
	ctx, p.stop = context.WithCancel(klog.NewContext(ctx, opts.Logger))
	go p.run(ctx)
	return p, nil
}

// run runs the library's controller until ctx ends.
func (p *Provisioner) run(ctx context.Context) {
	defer close(p.done)
	var group sync.WaitGroup
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](p.opts.Retry, 10*p.opts.Retry)
	library := controller.NewProvisionController(ctx, p.client, p.opts.Name, &maker{p},
		controller.LeaderElection(false),
		controller.Threadiness(workers),
		controller.RateLimiter(limiter),
		controller.FailedProvisionThreshold(0), // never give up
		controller.FailedDeleteThreshold(0),
	)
	library.ControllerWaitGroup(&group)
	library.Run(ctx)
	group.Wait()
}

// Name returns the name that classes give as their provisioner.
func (p *Provisioner) Name() string { return p.opts.Name }

// Stop ends the provisioner and every attempt that is under way.
func (p *Provisioner) Stop() {
	p.stop()
	<-p.done
}
