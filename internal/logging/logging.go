package logging

import (
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// The formats of New.
const (
	// JSON is one object a line.
	JSON = "json"
	// Console is for people.
	Console = "console"
)

// libraryVerbosity is the klog verbosity that level debug turns on. client-go
// logs each request only from 6 on.
const libraryVerbosity = 4

// New makes a logger that writes to w, one Write a line, from level up. The
// level is debug, info, warn or error; debug also lets klog lines up to
// verbosity 4 through.
func New(level, format string, w io.Writer) (*zap.Logger, error) {
	lowest, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("reading log level: %w", err)
	}
	if lowest == zapcore.DebugLevel {
		lowest = -libraryVerbosity // zapr logs klog's V(n) at level -n
	}
	encoding := zapcore.EncoderConfig{
		TimeKey:        "ts",
		LevelKey:       "level",
		NameKey:        "logger",
		MessageKey:     "msg",
		StacktraceKey:  "stack",
		LineEnding:     zapcore.DefaultLineEnding,
		EncodeTime:     encodeTime,
		EncodeLevel:    encodeLevel,
		EncodeDuration: encodeDuration,
		EncodeName:     zapcore.FullNameEncoder,
	}
	var encoder zapcore.Encoder
	switch format {
	case JSON:
		encoder = zapcore.NewJSONEncoder(encoding)
	case Console:
		encoder = zapcore.NewConsoleEncoder(encoding)
	default:
		return nil, fmt.Errorf("unknown log format %q, known ones: %s, %s", format, JSON, Console)
	}
	// An AtomicLevel, because a plain Level under debug reads back as debug.
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), zap.NewAtomicLevelAt(lowest))), nil
}

func encodeTime(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
	enc.AppendString(t.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}

// encodeLevel calls klog's verbosities, which zap would print as "Level(-4)",
// debug.
func encodeLevel(level zapcore.Level, enc zapcore.PrimitiveArrayEncoder) {
	zapcore.LowercaseLevelEncoder(max(level, zapcore.DebugLevel), enc)
}

func encodeDuration(d time.Duration, enc zapcore.PrimitiveArrayEncoder) {
	enc.AppendFloat64(float64(d) / float64(time.Millisecond))
}

// Pod is the field "pod".
func Pod(namespace, name string) zap.Field { return zap.String("pod", namespace+"/"+name) }

// Claim is the field "claim".
func Claim(namespace, name string) zap.Field { return zap.String("claim", namespace+"/"+name) }
