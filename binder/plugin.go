package binder

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
)

// ErrSkip is what a BindPlugin answers for a pod that it leaves to the next
// one.
var ErrSkip = errors.New("skipped")

// Plugin is what every plugin is. It then implements one or more of the
// interfaces below, which are kube-scheduler's extension points of the same
// names. One instance serves all calls: every method may run in parallel with
// itself, for different pods, never for the same pod.
type Plugin interface {
	// Name is the name used in the configuration, errors and metrics.
	Name() string
}

// PermitPlugin runs first, before anything is held or written. It may block
// to delay the pod, as long as it heeds ctx. An error ends the call.
type PermitPlugin interface {
	Plugin
	Permit(ctx context.Context, call *Call) error
}

// PermitReviewer is a PermitPlugin whose permission depends on what the pod needs,
// which is certain only when it has been reserved.
type PermitReviewer interface {
	PermitPlugin
	// Review tells whether what was reserved is within what was permitted. If not,
	// the call is unreserved, and Permit is asked again. It must not block. Serial
	// with the call's other stages.
	Review(call *Call) bool
}

// ReservePlugin decides, and takes hold of what the pod needs, in memory
// only: nothing is written in this stage.
type ReservePlugin interface {
	Plugin
	// Reserve returns an error if the pod can not have what it needs on the
	// node.
	Reserve(ctx context.Context, call *Call) error
	// Unreserve lets go again. It is called in reverse order of the plugins
	// when any later stage fails, and also for a plugin whose own Reserve
	// failed: it must be idempotent. It can not fail and must not block.
	Unreserve(ctx context.Context, call *Call)
}

// PreBindPlugin does what must be true in the API before the pod is bound. It
// may write and may block for minutes; it must end when ctx does. An error
// ends the call, and no Binding is posted.
type PreBindPlugin interface {
	Plugin
	PreBind(ctx context.Context, call *Call) error
}

// BindPlugin binds the pod to the node. Plugins are asked in order until one
// does not answer ErrSkip. Nil means that the API server has confirmed that
// this pod, by UID, is on the node: anything less strands the pod, since
// kube-scheduler never takes an assumed pod back.
type BindPlugin interface {
	Plugin
	Bind(ctx context.Context, call *Call) error
}

// PostBindPlugin is told after the pod was bound. It can not fail the call.
type PostBindPlugin interface {
	Plugin
	PostBind(ctx context.Context, call *Call)
}

// Call is one bind call on its way through the stages. Plugins share it in
// order, never in parallel.
type Call struct {
	// Pod as admission saw it: shared and read-only, and trimmed when it came
	// from the cache.
	Pod *v1.Pod
	// Node is the name of the node that kube-scheduler chose.
	Node string

	state      []datum // a map would be ten times as large for the one or two there are
	ends       []func()
	nomination *nomination
}

// OnEnd has f run when the call ends, however it ends, after unreserve or
// postBind; newest first. f must not block.
func (c *Call) OnEnd(f func()) { c.ends = append(c.ends, f) }

func (c *Call) end() {
	last := len(c.ends) - 1
	if last < 0 {
		return
	}
	f := c.ends[last]
	c.ends = c.ends[:last]
	defer c.end() // even if f panics
	f()
}

// ExpectWait tells that the pod is about to wait for something that as a rule takes
// long. With Config.Nominator its node is nominated at once then.
func (c *Call) ExpectWait() { c.nomination.now() }

// datum is what one plugin keeps.
type datum struct {
	plugin string
	data   any
}

// Put keeps a plugin's data from one stage to the next, under the plugin's
// name.
func (c *Call) Put(plugin string, data any) {
	for i := range c.state {
		if c.state[i].plugin == plugin {
			c.state[i].data = data
			return
		}
	}
	c.state = append(c.state, datum{plugin, data})
}

// Get returns what Put kept, or nil.
func (c *Call) Get(plugin string) any {
	for _, d := range c.state {
		if d.plugin == plugin {
			return d.data
		}
	}
	return nil
}
