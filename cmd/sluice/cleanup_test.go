package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCleanupsRunNewestFirstAndAllOfThem(t *testing.T) {
	var order []string
	c := cleanups{logger: slog.New(slog.DiscardHandler)}
	broken := errors.New("broken")
	for _, name := range []string{"state", "node", "gate"} {
		c.add(name, func(context.Context) error {
			order = append(order, name)
			if name != "state" {
				return broken
			}
			return nil
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := c.run(ctx)
	if want := []string{"gate", "node", "state"}; !slices.Equal(order, want) {
		t.Errorf("order is %v, want %v", order, want)
	}
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "gate: broken") || !strings.Contains(err.Error(), "node: broken") {
		t.Errorf("the error is %v", err)
	}
	if err := c.run(ctx); err != nil || len(order) != 3 {
		t.Errorf("a second run did something: %v, %v", order, err)
	}
}

func TestAStepThatNeverEndsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cleanups{logger: slog.New(slog.DiscardHandler)}
		hung := make(chan struct{})
		ended := false
		c.add("close the state", func(context.Context) error { ended = true; return nil })
		c.add("stop the node", func(context.Context) error { <-hung; return nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := c.run(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stop the node: left behind") {
			t.Errorf("the error is %v", err)
		}
		if took := time.Since(start); took != time.Second+stuckTime || !ended {
			t.Errorf("took %v, the rest was done: %v", took, ended)
		}
		close(hung)
	})
}
