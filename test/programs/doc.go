// Package programs builds the executables that the embedded control plane
// runs: etcd, the four Kubernetes programs, and prebind itself; and Helm 3 and
// 4, by which prebind is installed. It owns build/bin and build/stamps of the
// repository.
//
// [Ensure] is all that a caller needs. It builds what is missing or out of
// date and returns where the programs are:
//
//	set, err := programs.Ensure(ctx, programs.Config{Out: os.Stderr}, programs.ControlPlane()...)
//	cmd := exec.CommandContext(ctx, set.Path(programs.Etcd), "--version")
//
// A program of others is up to date when its stamp names the same
// module version, build flags and Go version; checking that takes a fraction of
// a second. prebind is always given to `go build`, which decides by itself.
// A lock file makes it safe to call Ensure from several processes at once, as
// parallel test packages do: one builds, the others wait for it.
package programs
