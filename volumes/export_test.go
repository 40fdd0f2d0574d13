package volumes

import (
	"flag"
	"os"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// FindRoom looks for Room among what is reported, as a bind call does.
func (c *ClaimFacts) FindRoom(reported []*storagev1.CSIStorageCapacity, node *v1.Node) {
	x := newCapacityIndex(func(key string) *storagev1.CSIStorageCapacity {
		i, _ := strconv.Atoi(key)
		return reported[i]
	})
	for i := range reported {
		x.changed(strconv.Itoa(i))
	}
	c.findRoom(x, node)
}

// CheckTimes sets how many checks rapid makes, unless -rapid.checks says it:
// short, or long with PREBIND_LONG=1.
func CheckTimes(t *testing.T, short, long string) {
	t.Helper()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "rapid.checks" })
	if set {
		return
	}
	checks := short
	if os.Getenv("PREBIND_LONG") != "" {
		checks = long
	}
	old := flag.Lookup("rapid.checks").Value.String()
	_ = flag.Set("rapid.checks", checks)
	t.Cleanup(func() { _ = flag.Set("rapid.checks", old) })
}
