package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

const (
	leaderRetry = 20 * time.Millisecond
	// lastAnswer is how long a leader that was replaced may take to answer what
	// it was asked before: one that handed over does, one that hangs does not.
	lastAnswer = 250 * time.Millisecond
)

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
				last = n.whileLeader(ctx, addr, remote)
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

// whileLeader runs remote towards the leader at addr and ends it when another
// leader is known, or none for as long as an election may take. A leader that
// hangs, or that the network swallowed, does not answer and breaks no
// connection either: without this, whoever had a call under way would wait for
// it to come back, although the others have elected another.
func (n *Node) whileLeader(ctx context.Context, addr string, remote remoteOp) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, believed := n.Leader() // addr may be a better one that was heard of
	go func() {
		if n.untilDeposed(ctx, addr, believed) && pause(ctx, n.opts.scale(lastAnswer), nil) == nil {
			cancel()
			n.client.close() // what idles towards it is as dead
		}
	}()
	return remote(ctx, addr)
}

// untilDeposed waits until the leader is neither of two addresses any more, and
// returns false if ctx ends first.
func (n *Node) untilDeposed(ctx context.Context, addr, believed string) bool {
	grace := n.opts.scale(baseGrace)
	for {
		changed := n.changed()
		_, now := n.Leader()
		wait := time.Hour // the next change wakes it
		switch {
		case now == "":
			wait = grace - time.Since(n.leaderSeen())
		case now != addr && now != believed:
			return true
		}
		if wait <= 0 {
			return true
		}
		if pause(ctx, wait, changed) != nil {
			return false
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
