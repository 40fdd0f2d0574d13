// Package version tells what this program was built from. The facts come from
// the linker's flags where the Makefile sets them, else from what the Go
// toolchain recorded in the program itself:
//
//	go build -ldflags "-X github.com/prebind/prebind/internal/version.release=v0.1.0" ./cmd/prebind
//
// Safe for parallel use.
package version
