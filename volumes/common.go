package volumes

import (
	"sync"
	"unique"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// maxSizes is how many sizes are kept in common. A cluster has a few; where each
// claim has its own, there is nothing to share.
const maxSizes = 4096

// common has one copy of what very many claims and volumes say alike. A map with
// nothing but a size in it takes 750 bytes, as much as the rest of a claim.
type common struct {
	mu   sync.Mutex
	list map[resource.Quantity]v1.ResourceList
}

// once makes *s the one copy of its text.
func once[S ~string](s *S) { *s = S(unique.Make(string(*s)).Value()) }

// onceEach makes each of them the one copy of its text.
func onceEach[S ~string](all []S) {
	for i := range all {
		once(&all[i])
	}
}

// every keeps each key.
func every(string) bool { return true }

// onceKeys returns the entries whose key is kept, with the one copy of each key.
func onceKeys(entries map[string]string, kept func(key string) bool) map[string]string {
	var out map[string]string
	for key, value := range entries {
		if !kept(key) {
			continue
		}
		if out == nil {
			out = make(map[string]string, len(entries))
		}
		once(&key)
		out[key] = value
	}
	return out
}

// sizes replaces a list that holds nothing but a size by the one in common.
func (c *common) sizes(list *v1.ResourceList) {
	size, sized := (*list)[v1.ResourceStorage]
	if !sized || len(*list) != 1 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if same, ok := c.list[size]; ok {
		*list = same
		return
	}
	if c.list == nil || len(c.list) == maxSizes {
		c.list = make(map[resource.Quantity]v1.ResourceList)
	}
	c.list[size] = *list
}
