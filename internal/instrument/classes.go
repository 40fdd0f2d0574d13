package instrument

import "sync"

// maxClasses is how many classes have series of their own. No cluster has as many
// in use, but somebody may make and delete classes all day.
const maxClasses = 50

// In place of the name of a class. No object can have such a name.
const (
	classNone  = "_none"  // the claim has no class
	classOther = "_other" // there are too many
)

// Classes bounds the values of the label "class". The zero value is ready; safe for
// parallel use.
type Classes struct {
	mu    sync.Mutex
	known map[string]struct{}
}

// Label returns the value for the StorageClass of this name.
func (c *Classes) Label(class string) string {
	if class == "" {
		return classNone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.known[class]; ok {
		return class
	}
	if len(c.known) >= maxClasses {
		return classOther
	}
	if c.known == nil {
		c.known = map[string]struct{}{}
	}
	c.known[class] = struct{}{}
	return class
}
