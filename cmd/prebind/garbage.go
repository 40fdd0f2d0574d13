package main

import (
	"os"
	"runtime/debug"
)

// garbagePercent is how much garbage there may be beside the caches, in percent
// of them, before it is collected. These are nearly all that prebind holds, and
// they change little: at Go's default of 100 a large cluster's would be paid for
// twice, to save a few milliseconds of processor time a minute.
const garbagePercent = 50

// limitGarbage sets garbagePercent, unless the environment (GOGC) says otherwise.
// GOMEMLIMIT holds in any case.
func limitGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}
