package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// cleanups is the stack of what has to be undone. A step is added on the line
// after its resource exists. One goroutine uses it at a time.
type cleanups struct {
	logger *slog.Logger
	steps  []cleanup
}

type cleanup struct {
	name string
	do   func(ctx context.Context) error
}

func (c *cleanups) add(name string, do func(ctx context.Context) error) {
	c.steps = append(c.steps, cleanup{name, do})
}

// stuckTime is what a step may take after ctx has ended.
const stuckTime = 2 * time.Second

// run undoes all steps, the newest first, and forgets them. Every step runs,
// also after one has failed and after ctx has ended; each is expected to be
// quick then, and one that is not is left behind: a disk that hangs must not
// keep the process. The errors are joined under the names of their steps.
func (c *cleanups) run(ctx context.Context) error {
	var errs []error
	for len(c.steps) > 0 {
		last := c.steps[len(c.steps)-1]
		c.steps = c.steps[:len(c.steps)-1]
		start := time.Now()
		err := bounded(ctx, last.do)
		c.logger.Debug("stopped", "step", last.name, "took", time.Since(start).Round(time.Millisecond))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", last.name, err))
		}
	}
	return errors.Join(errs...)
}

// bounded runs do, but not for longer than stuckTime after ctx has ended.
func bounded(ctx context.Context, do func(ctx context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	stuck := time.NewTimer(stuckTime)
	defer stuck.Stop()
	select {
	case err := <-done:
		return err
	case <-stuck.C:
		return fmt.Errorf("left behind, it does not end: %w", ctx.Err())
	}
}
