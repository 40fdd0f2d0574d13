// Package chart tests charts/prebind with both versions of Helm: what it
// renders and refuses, and, on the embedded control plane, what is installed:
// prebind and kube-scheduler run as the installed objects say, with their
// arguments, files, certificates and rights. The package holds tests only.
//
// There is no kubelet and no container runtime, so a test runs a container's
// program itself; see container for what differs from a real one. Everything
// that needs no API server can be run alone:
//
//	go test -run 'TestRender|TestRefused|TestRestricted|TestDocs' ./chart
package chart
