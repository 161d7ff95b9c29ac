package fsm

import (
	"context"
	"fmt"
)

// CommandLevel is the newest level of commands that this version can apply.
// Level 1 is what the first version knew; every release that adds command types
// raises it by one. Members tell each other theirs.
const CommandLevel = 2

// levelOf returns the level that first knew a command.
func levelOf(kind commandType) int {
	if kind >= cmdBeginRestore {
		return 2
	}
	return 1
}

// Leveled is a Replicator whose members may run other versions. Without it all
// are taken to run this one.
type Leveled interface {
	// Understands returns an error that says which member does not, or may not,
	// read commands of that level. Any goroutine calls.
	Understands(ctx context.Context, level int) error
}

// understood makes sure that every member can apply the command: one that
// cannot would stop. Commands of the first level cost nothing here.
func (c *Client) understood(ctx context.Context, kind commandType) error {
	l, ok := c.log.(Leveled)
	if !ok || levelOf(kind) == 1 {
		return nil
	}
	if err := l.Understands(ctx, levelOf(kind)); err != nil {
		return fmt.Errorf("ask the members for their versions: %w", err)
	}
	return nil
}
