package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prebind/prebind/internal/fault"
)

func TestText(t *testing.T) {
	cause := errors.New("quota exceeded")
	coded := fault.New(fault.ProvisioningFailed, "claim shop/data-0 (class fast): %w", cause)
	tests := map[string]struct {
		err  error
		text string
		code fault.Code
	}{
		"nil":              {nil, "", ""},
		"coded":            {coded, "ProvisioningFailed: claim shop/data-0 (class fast): quota exceeded", fault.ProvisioningFailed},
		"wrapped":          {fmt.Errorf("running PreBind plugin %q: %w", "VolumeBinding", coded), `ProvisioningFailed: claim shop/data-0 (class fast): quota exceeded [running PreBind plugin "VolumeBinding"]`, fault.ProvisioningFailed},
		"without a code":   {cause, "Internal: quota exceeded", fault.Internal},
		"text after cause": {fmt.Errorf("binding (%w) badly", coded), "binding (ProvisioningFailed: claim shop/data-0 (class fast): quota exceeded) badly", fault.ProvisioningFailed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := fault.Text(tc.err); got != tc.text {
				t.Errorf("Text() = %q, want %q", got, tc.text)
			}
			if got := fault.CodeOf(tc.err); got != tc.code {
				t.Errorf("CodeOf() = %q, want %q", got, tc.code)
			}
		})
	}
	if !errors.Is(coded, cause) {
		t.Error("the cause is not in the chain")
	}
}
