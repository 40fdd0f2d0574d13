// Package doctor_test runs the program `prebind doctor` against a real control
// plane, a real kube-scheduler and real prebinds: once where all is well, and
// once for each thing that users get wrong.
package doctor_test
