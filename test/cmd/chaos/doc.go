// Command chaos runs prebind on a real control plane while programs are killed
// and requests disturbed, and checks that nothing is wrong in the end; see
// package test/chaos. The exit status is 1 if something is.
package main
