package fsm

import (
	"errors"
	"log/slog"
	"time"

	"sluice/limiter"
)

// Observer follows what batches change in this replica; the limiter's Gate is one.
type Observer interface {
	// Observe is called after each batch that changed something, under the lock
	// that Apply holds: it must not wait, nor keep the Ledger.
	Observe(now limiter.Time, b *limiter.Batch, a *limiter.Answer, l *limiter.Ledger, p limiter.Policy)
	// Forget is called when the whole state was replaced.
	Forget()
}

// Options configure Open.
type Options struct {
	// Dir holds state.db; it is created with mode 0700. "" keeps everything in memory.
	Dir string
	// Logger receives warnings about the state file. nil: nothing is logged.
	Logger *slog.Logger
	// Now is the wall clock, written beside each entry that this node proposes. Default time.Now.
	Now func() time.Time
	// Mono is monotonic time since any fixed moment, unmoved by steps of the
	// wall clock. Default: since Open.
	Mono func() time.Duration
	// OnFatal is called once, on a goroutine of its own, when an entry cannot
	// be applied and the process must stop. Default: the error is logged.
	OnFatal func(error)
	// ReplayEnd returns the last index that this node's own log held when the
	// process started: entries up to it may lie before a full stop of the
	// cluster. Called by Apply after UseWallClock. Default: only what was
	// applied before UseWallClock counts as old.
	ReplayEnd func() uint64
	// Observer returns who follows the batches, nil while there is nobody.
	// Default: nobody.
	Observer func() Observer
	// FlushInterval is the time between writes of changed records to state.db.
	// Default 1s, must be > 0.
	FlushInterval time.Duration
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Mono == nil {
		start := time.Now()
		o.Mono = func() time.Duration { return time.Since(start) }
	}
	if o.OnFatal == nil {
		logger := o.Logger
		o.OnFatal = func(err error) { logger.Error("state machine stopped", "error", err) }
	}
	if o.ReplayEnd == nil {
		o.ReplayEnd = func() uint64 { return 0 }
	}
	if o.Observer == nil {
		o.Observer = func() Observer { return nil }
	}
	if o.FlushInterval == 0 {
		o.FlushInterval = time.Second
	}
	return o
}

func (o Options) validate() error {
	if o.FlushInterval < 0 {
		return errors.New("fsm: FlushInterval is negative")
	}
	return nil
}
