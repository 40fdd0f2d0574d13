package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prebind/prebind/test/controlplane"
)

// variant is what a scenario is measured with: the stock scheduler, or a
// registration mode and who completes static bindings.
type variant struct {
	Mode       controlplane.Mode `json:"mode"` // empty: the stock scheduler
	Completion string            `json:"completion,omitempty"`
}

const (
	controller = "Controller"
	direct     = "Direct"
)

func stock() variant { return variant{Mode: controlplane.ModeNone} }

// variants are all that can be measured, in the order of the tables.
func variants() []variant {
	return []variant{
		stock(),
		{controlplane.ModeBind, controller},
		{controlplane.ModeBind, direct},
		{controlplane.ModeFull, controller},
		{controlplane.ModeFull, direct},
	}
}

// String is the variant's name in tables and flags: "stock", "full/Direct".
func (v variant) String() string {
	if v.Mode == controlplane.ModeNone {
		return "stock"
	}
	return string(v.Mode) + "/" + v.Completion
}

// parseVariants reads a list such as "stock,full/Direct". A mode alone means
// both completions.
func parseVariants(text string) ([]variant, error) {
	var chosen []variant
	for name := range strings.SplitSeq(text, ",") {
		found := slices.DeleteFunc(variants(), func(v variant) bool {
			return v.String() != name && string(v.Mode) != name
		})
		if len(found) == 0 {
			return nil, fmt.Errorf("unknown variant %q: want stock, MODE or MODE/COMPLETION of %v", name, variants()[1:])
		}
		chosen = append(chosen, found...)
	}
	return chosen, nil
}
