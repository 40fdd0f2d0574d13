package console

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStatusPrintsAPlainLineEveryTenSecondsWithoutATerminal(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	c := New(&out)
	c.now = func() time.Time { return now }

	c.Printf("start")
	c.Status("too early")
	now = now.Add(plainInterval)
	c.Status("ten seconds on")
	c.Status("again too early")
	c.Live("never drawn")

	if diff := cmp.Diff("start\nten seconds on\n", out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestLiveRegionIsRedrawnInPlaceAndCutToTheTerminal(t *testing.T) {
	var out strings.Builder
	c := New(&out)
	c.terminal = true
	c.size = func() (int, int) { return 6, 3 }

	c.Live("abcdefgh", "two", "three does not fit")
	c.Printf("line")
	c.Status("x")
	c.Done()

	want := "abcde\ntwo\n" + "\x1b[2A\x1b[J" + "line\n" + "x\n" + "\x1b[1A\x1b[J"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestTableAlignsColumns(t *testing.T) {
	got := Table([]string{"POD", "NODE"}, [][]string{{"web-0", "n1"}, {"a", ""}})
	want := []string{"POD    NODE", "web-0  n1", "a"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
