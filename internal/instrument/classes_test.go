package instrument

import (
	"fmt"
	"testing"
)

// However many classes come and go, the series are few.
func TestClassLabelsAreBounded(t *testing.T) {
	var labels Classes
	seen := map[string]int{}
	for range 2 {
		for i := range 1000 {
			seen[labels.Label(fmt.Sprintf("class-%d", i))]++
		}
		seen[labels.Label("")]++
	}
	if len(seen) != maxClasses+2 || seen["class-0"] != 2 || seen["class-49"] != 2 || seen["_none"] != 2 || seen["_other"] != 2*(1000-maxClasses) {
		t.Errorf("%d values: %v", len(seen), seen)
	}
}
