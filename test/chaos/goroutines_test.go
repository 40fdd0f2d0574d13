package chaos

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const dump = `SIGQUIT: quit
PC=0x1 m=0 sigcode=0

goroutine 1 gp=0xc0 m=nil [chan receive, 3 minutes]:
runtime.gopark()
github.com/prebind/prebind/server.(*Server).Serve(0x1)
	/src/server/server.go:10 +0x1
main.main()

goroutine 20 [select]:
github.com/prebind/prebind/volumes.(*boundWait).run(0x1)
	/src/volumes/wait.go:10 +0x1
created by net/http.(*Server).Serve in goroutine 9
	/go/net/http/server.go:1 +0x1

goroutine 21 [IO wait]:
net/http.(*persistConn).readLoop(0x1)
created by net/http.(*Transport).dialConn in goroutine 30
	/go/net/http/transport.go:1 +0x1

goroutine 22 [select]:
k8s.io/client-go/tools/cache.(*Reflector).watch(0x1)
created by k8s.io/client-go/tools/cache.(*controller).Run in goroutine 8
	/go/cache/controller.go:1 +0x1

rax    0x0
`

func TestGoroutinesAreCountedByWhoStartedThem(t *testing.T) {
	got, err := parseGoroutines(dump)
	if err != nil {
		t.Fatal(err)
	}
	want := goroutines{ours: map[string]int{"the runtime": 1, "net/http.(*Server).Serve": 1}, others: 1}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(goroutines{})); diff != "" {
		t.Errorf("goroutines (-want +got):\n%s", diff)
	}
	if got, err := parseGoroutines("exit status 2"); err == nil {
		t.Errorf("parsing no dump: %v, want an error", got)
	}
}

func TestGoroutinesThatAFreshProcessLacksAreLeaked(t *testing.T) {
	fresh := goroutines{ours: map[string]int{"main": 1}, others: 40}
	tests := map[string]struct {
		have goroutines
		want string
	}{
		"the same":               {have: fresh},
		"fewer":                  {have: goroutines{ours: map[string]int{}, others: 1}},
		"one more of ours":       {have: goroutines{ours: map[string]int{"main": 2}, others: 40}, want: "2 goroutines started by main, a fresh process has 1"},
		"another one of ours":    {have: goroutines{ours: map[string]int{"wait": 1}, others: 40}, want: "1 goroutines started by wait, a fresh process has 0"},
		"some more of libraries": {have: goroutines{others: 40 + spareGoroutines}},
		"many more of libraries": {have: goroutines{others: 41 + spareGoroutines}, want: "51 goroutines of libraries, a fresh process has 40"},
		"both":                   {have: goroutines{ours: map[string]int{"main": 3}, others: 99}, want: "3 goroutines started by main, a fresh process has 1\n99 goroutines of libraries, a fresh process has 40"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, strings.Join(test.have.leaked(fresh), "\n")); diff != "" {
				t.Errorf("leaked (-want +got):\n%s", diff)
			}
		})
	}
}
