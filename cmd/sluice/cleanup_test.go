package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
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
