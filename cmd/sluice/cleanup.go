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

// run undoes all steps, the newest first, and forgets them. Every step runs,
// also after one has failed and after ctx has ended; each is expected to be
// quick then. The errors are joined under the names of their steps.
func (c *cleanups) run(ctx context.Context) error {
	var errs []error
	for len(c.steps) > 0 {
		last := c.steps[len(c.steps)-1]
		c.steps = c.steps[:len(c.steps)-1]
		start := time.Now()
		err := last.do(ctx)
		c.logger.Debug("stopped", "step", last.name, "took", time.Since(start).Round(time.Millisecond))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", last.name, err))
		}
	}
	return errors.Join(errs...)
}
