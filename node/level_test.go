package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestNothingIsUnderstoodThatAMemberMayNotRead(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	nodes := openCluster(t, 3, func(o *Options) {
		o.Level, o.Version = 2, "new"
		if o.ID == "n3" {
			o.Level, o.Version = 0, "old"
		}
	})
	waitLeader(t, nodes...)
	for _, n := range nodes {
		if err := n.Understands(ctx, 1); err != nil {
			t.Errorf("level 1 on %s: %v", n.ID(), err)
		}
		err := n.Understands(ctx, 2)
		if !errors.Is(err, ErrOldMember) || !strings.Contains(err.Error(), nodes[2].ID()+" runs version old") {
			t.Errorf("level 2 on %s: %v", n.ID(), err)
		}
	}
	nodes[2].close(t)
	if err := nodes[0].Understands(ctx, 2); !errors.Is(err, ErrOldMember) || !strings.Contains(err.Error(), nodes[2].ID()+" does not answer") {
		t.Errorf("while it is away: %v", err)
	}
	nodes[2] = nodes[2].again(t, func(o *Options) { o.Level, o.Version = 2, "new" })
	waitLeader(t, nodes...)
	for _, n := range nodes {
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			err := n.Understands(ctx, 2)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("after the update, on %s: %v", n.ID(), err)
			}
		}
	}
}
