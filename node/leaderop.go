package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

const leaderRetry = 20 * time.Millisecond

type (
	localOp  func(ctx context.Context, r *raft.Raft) error
	remoteOp func(ctx context.Context, leader string) error
)

// onLeader runs local if this node leads, else remote towards the leader, and
// finds the leader anew as long as nothing can have been executed. It gives up
// when ctx ends, and with ErrNoLeader when no leader was known, or none could
// be reached, for longer than an election may take.
func (n *Node) onLeader(ctx context.Context, local localOp, remote remoteOp) error {
	start, hint := time.Now(), ""
	var last error
	for {
		if err := n.stopped(); err != nil {
			return err
		}
		changed := n.changed()
		addr := hint
		hint = ""
		if r := n.leading(); r != nil {
			last = local(ctx, r)
		} else {
			if addr == "" {
				_, addr = n.Leader()
			}
			last = errNotLeader
			if addr != "" && addr != n.advertise {
				last = remote(ctx, addr)
			}
		}
		if last == nil || !unsent(last) {
			return last
		}
		if h := leaderHint(last); h != "" && h != addr && h != n.advertise {
			hint = h
			continue
		}
		grace := n.opts.scale(baseGrace)
		if since := time.Since(start); since > 2*grace || time.Since(n.leaderSeen()) > grace {
			return fmt.Errorf("%w (%w)", ErrNoLeader, last)
		}
		if err := pause(ctx, leaderRetry, changed); err != nil {
			return fmt.Errorf("waiting for a leader: %w", err)
		}
	}
}

// onLeaderOnce is one step of onLeader without a second try; hop forbids remote.
func (n *Node) onLeaderOnce(ctx context.Context, hop bool, local localOp, remote remoteOp) error {
	if r := n.leading(); r != nil {
		return local(ctx, r)
	}
	_, addr := n.Leader()
	if addr == "" || addr == n.advertise {
		return ErrNoLeader
	}
	if hop {
		return errNotLeader
	}
	return remote(ctx, addr)
}

func leaderHint(err error) string {
	var e *remoteError
	if errors.As(err, &e) && errors.Is(e, errNotLeader) {
		return e.Leader
	}
	return ""
}

// pause waits for d or wake, whichever comes first, and returns ctx's error.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
