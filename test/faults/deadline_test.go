package faults_test

import (
	"testing"

	"github.com/prebind/prebind/test/faultproxy"
)

// A read that is slower than the call's time ends with the call.
func TestReadIsHeldBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	for name, r := range theReads() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := r.scene(t, shared.hasty)
			held := s.always(r.match(s), faultproxy.Hold())
			s.answered(s.bind(s.web, s.node), "BindTimeout", hastyTimeout.String())
			held.Stop()
			s.readWorks(name)
		})
	}
}
