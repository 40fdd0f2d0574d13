// Package logging makes prebind's logger and routes klog, which the Kubernetes
// libraries log through, into it, so that the process writes one stream of one
// shape.
//
// A line has the keys ts (UTC, RFC 3339 with milliseconds), level, logger and
// msg, then its fields. Durations are milliseconds, as a number, under a key
// that ends in Ms. An object is always the string "namespace/name", whoever
// logs it:
//
//	logger, err := logging.New("info", logging.JSON, os.Stderr)
//	err = logging.BridgeKlog(logger)
//	logger.Info("bound", logging.Pod("shop", "db-0"), zap.Duration("tookMs", took))
//	// {"level":"info","ts":"2026-01-02T03:04:05.678Z","msg":"bound","pod":"shop/db-0","tookMs":3.2}
//
// Loggers are safe for parallel use; BridgeKlog changes klog's global state and
// is for the start of a process.
package logging
