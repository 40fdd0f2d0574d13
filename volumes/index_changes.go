package volumes

import (
	"sync"
	"sync/atomic"
)

// changes are the keys of the objects that an index has to look at anew.
type changes struct {
	mu   sync.Mutex
	keys map[string]struct{}
	some atomic.Bool
}

func newChanges() changes { return changes{keys: map[string]struct{}{}} }

// note may be called with the cache locked.
func (c *changes) note(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys[key] = struct{}{}
	c.some.Store(true)
}

// none may be asked without a lock. Once it is true what was noted has been
// taken, by somebody who keeps the index locked until it is done.
func (c *changes) none() bool { return !c.some.Load() }

// take must be called with the index locked.
func (c *changes) take() map[string]struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := c.keys
	c.keys = map[string]struct{}{}
	c.some.Store(false)
	return keys
}
