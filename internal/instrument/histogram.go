package instrument

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits of the native side of a histogram.
const (
	// nativeFactor makes each bucket up to 10 % wider than the one before.
	nativeFactor = 1.1
	// nativeBuckets is enough for all from a millisecond to ten minutes. Beyond
	// that the histogram starts anew, once an hour at most, or gets coarser.
	nativeBuckets = 160
	nativeReset   = time.Hour
)

// Histogram describes a histogram of seconds that is two in one: with the buckets
// given for whoever scrapes text, and native, which is finer and a single series,
// for a Prometheus that asks for that.
func Histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     nativeFactor,
		NativeHistogramMaxBucketNumber:  nativeBuckets,
		NativeHistogramMinResetDuration: nativeReset,
	}
}

// Waits returns buckets from a Binding alone (milliseconds) to a slow provisioner
// (minutes).
func Waits() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
}

// Requests returns buckets for requests to the API server.
func Requests() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

// Steps returns buckets for work in memory, from 50 microseconds to a second.
func Steps() []float64 {
	return []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}
}
