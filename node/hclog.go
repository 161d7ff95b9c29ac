package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// raftLogger hands Raft's messages to slog.
type raftLogger struct {
	out   *slog.Logger
	name  string
	args  []any
	known *repeats // shared with the loggers that come of this one
}

var _ hclog.Logger = (*raftLogger)(nil)

func newRaftLogger(out *slog.Logger) *raftLogger {
	return &raftLogger{out: out, name: "raft", known: newRepeats()}
}

// slogLevel maps hclog's levels; trace lies below slog's debug. Raft tells each
// step of an election as info; what an operator wants to know of it, who leads,
// the node says itself.
func slogLevel(l hclog.Level) slog.Level {
	switch l {
	case hclog.Trace:
		return slog.LevelDebug - 4
	case hclog.Debug, hclog.Info:
		return slog.LevelDebug
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Error:
		return slog.LevelError
	}
	return slog.LevelInfo
}

func (l *raftLogger) enabled(level hclog.Level) bool {
	return l.out.Enabled(context.Background(), slogLevel(level))
}

// Log implements hclog.Logger.
func (l *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	if level == hclog.Off || !l.enabled(level) {
		return
	}
	plain := make([]any, len(args))
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			a = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
		plain[i] = a
	}
	// Who asks for the steps of an election gets every message.
	if level >= hclog.Warn && !l.enabled(hclog.Debug) {
		hidden, ok := l.known.show(msg, plain)
		if !ok {
			return
		}
		if hidden > 0 {
			plain = append(plain, "repeated", hidden)
		}
	}
	l.out.Log(context.Background(), slogLevel(level), msg, plain...)
}

// Trace implements hclog.Logger.
func (l *raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }

// Debug implements hclog.Logger.
func (l *raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }

// Info implements hclog.Logger.
func (l *raftLogger) Info(msg string, args ...any) { l.Log(hclog.Info, msg, args...) }

// Warn implements hclog.Logger.
func (l *raftLogger) Warn(msg string, args ...any) { l.Log(hclog.Warn, msg, args...) }

// Error implements hclog.Logger.
func (l *raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

// IsTrace implements hclog.Logger.
func (l *raftLogger) IsTrace() bool { return l.enabled(hclog.Trace) }

// IsDebug implements hclog.Logger.
func (l *raftLogger) IsDebug() bool { return l.enabled(hclog.Debug) }

// IsInfo implements hclog.Logger.
func (l *raftLogger) IsInfo() bool { return l.enabled(hclog.Info) }

// IsWarn implements hclog.Logger.
func (l *raftLogger) IsWarn() bool { return l.enabled(hclog.Warn) }

// IsError implements hclog.Logger.
func (l *raftLogger) IsError() bool { return l.enabled(hclog.Error) }

// ImpliedArgs implements hclog.Logger.
func (l *raftLogger) ImpliedArgs() []any { return l.args }

// With implements hclog.Logger.
func (l *raftLogger) With(args ...any) hclog.Logger {
	return &raftLogger{out: l.out.With(args...), name: l.name, args: append(l.args[:len(l.args):len(l.args)], args...), known: l.known}
}

// Name implements hclog.Logger.
func (l *raftLogger) Name() string { return l.name }

// Named implements hclog.Logger.
func (l *raftLogger) Named(name string) hclog.Logger { return l.ResetNamed(l.name + "." + name) }

// ResetNamed implements hclog.Logger.
func (l *raftLogger) ResetNamed(name string) hclog.Logger {
	return &raftLogger{out: l.out, name: name, args: l.args, known: l.known}
}

// SetLevel implements hclog.Logger; the level is slog's business.
func (l *raftLogger) SetLevel(hclog.Level) {}

// GetLevel implements hclog.Logger.
func (l *raftLogger) GetLevel() hclog.Level {
	for _, level := range []hclog.Level{hclog.Trace, hclog.Debug, hclog.Info, hclog.Warn, hclog.Error} {
		if l.enabled(level) {
			return level
		}
	}
	return hclog.Off
}

// StandardLogger implements hclog.Logger.
func (l *raftLogger) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(opts), "", 0)
}

// StandardWriter implements hclog.Logger.
func (l *raftLogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return lineWriter{l} }

// lineWriter logs what is written to it at level info.
type lineWriter struct{ l *raftLogger }

func (w lineWriter) Write(p []byte) (int, error) {
	w.l.Info(string(bytes.TrimRight(p, "\n")))
	return len(p), nil
}
