// Package dockerfile tests the repository's Dockerfile without a container
// engine. BuildKit's own frontend parses it, checks it with its linter, and
// compiles it into LLB, the steps that an engine runs. The tests look at these
// steps, and run them on plain folders, with the Go toolchain at hand in place
// of the one in the image that the build starts from.
//
// It is a module of its own because BuildKit and Kubernetes ask for different
// versions of the same libraries.
package dockerfile
