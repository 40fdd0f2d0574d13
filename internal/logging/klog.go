package logging

import (
	"flag"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// BridgeKlog sends all that is logged through klog, by its global functions
// and by the loggers it keeps in contexts, to logger, and sets klog's global
// verbosity to what logger lets through. Call it once, before anything logs.
func BridgeKlog(logger *zap.Logger) error {
	bridged := zapr.NewLoggerWithOptions(logger.Named("klog"), zapr.LogInfoLevel(""))
	bridged = bridged.WithSink(&objectSink{bridged.GetSink()})
	klog.SetLoggerWithOptions(bridged, klog.ContextualLogger(true))

	verbosity := max(0, -int(zapcore.LevelOf(logger.Core())))
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("v", fmt.Sprint(verbosity)); err != nil {
		return fmt.Errorf("setting klog's verbosity: %w", err)
	}
	return nil
}

// objectSink gives objects their one shape before zapr makes an object of one
// and a string of the other.
type objectSink struct {
	logr.LogSink
}

// Info implements logr.LogSink.
func (s *objectSink) Info(level int, msg string, keysAndValues ...any) {
	s.LogSink.Info(level, msg, shape(keysAndValues)...)
}

// Error implements logr.LogSink.
func (s *objectSink) Error(err error, msg string, keysAndValues ...any) {
	s.LogSink.Error(err, msg, shape(keysAndValues)...)
}

// WithValues implements logr.LogSink.
func (s *objectSink) WithValues(keysAndValues ...any) logr.LogSink {
	return &objectSink{s.LogSink.WithValues(shape(keysAndValues)...)}
}

// WithName implements logr.LogSink.
func (s *objectSink) WithName(name string) logr.LogSink {
	return &objectSink{s.LogSink.WithName(name)}
}

// shape returns the list with every object reference as a string. The
// caller's list stays as it is.
func shape(keysAndValues []any) []any {
	shaped := make([]any, len(keysAndValues))
	for i, value := range keysAndValues {
		switch value := value.(type) {
		case klog.ObjectRef:
			shaped[i] = value.String()
		case types.NamespacedName:
			shaped[i] = value.String()
		default:
			shaped[i] = value
		}
	}
	return shaped
}
