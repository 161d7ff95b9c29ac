package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// readTimeout bounds one round, which many callers share.
const readTimeout = 5 * time.Second

// ReadIndex returns an index that a replica must have applied to show every
// write that was acknowledged before the call. The leader proves first that it
// still leads. Concurrent calls share one round; a call joins only a round that
// starts after it arrived.
func (n *Node) ReadIndex(ctx context.Context) (uint64, error) {
	index, err := n.reads.wait(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the commit index: %w", err)
	}
	return index, nil
}

// readRound is a round anywhere in the cluster.
func (n *Node) readRound(ctx context.Context) (index uint64, err error) {
	local := func(ctx context.Context, _ *raft.Raft) (err error) {
		index, err = n.localReads.wait(ctx)
		return err
	}
	remote := func(ctx context.Context, leader string) error {
		resp, err := n.client.call(ctx, leader, request{path: pathReadIndex, hop: true, idempotent: true})
		var c *callError
		if errors.As(err, &c) {
			return &callError{addr: c.addr, err: c.err} // a read may be repeated
		}
		index = resp.index
		return err
	}
	err = n.onLeader(ctx, local, remote)
	return index, err
}

// localRound is a round on the leader. Once per term the leader waits until it
// has applied all that earlier leaders committed; from then on its state
// machine is never behind an acknowledged write.
func (n *Node) localRound(ctx context.Context) (uint64, error) {
	for {
		changed := n.changed()
		r := n.leading()
		if r == nil {
			return 0, errNotLeader
		}
		term := r.CurrentTerm()
		if n.barrier.Load() != term {
			if err := pause(ctx, time.Second, changed); err != nil {
				return 0, fmt.Errorf("waiting for the new leader to catch up: %w", err)
			}
			continue
		}
		index := n.opts.AppliedIndex()
		if err := n.await(ctx, func() error { return r.VerifyLeader().Error() }); err != nil {
			if errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrLeadershipLost) {
				return 0, errNotLeader
			}
			return 0, fmt.Errorf("verifying leadership: %w", err)
		}
		if r.CurrentTerm() == term {
			return index, nil
		}
	}
}

// rounds lets callers share runs of do.
type rounds struct {
	do func(ctx context.Context) (uint64, error)

	mu      sync.Mutex
	running bool
	next    *round // not started yet
}

type round struct {
	done  chan struct{}
	index uint64
	err   error
}

// wait joins the round that starts next.
func (s *rounds) wait(ctx context.Context) (uint64, error) {
	s.mu.Lock()
	if s.next == nil {
		s.next = &round{done: make(chan struct{})}
	}
	r := s.next
	if !s.running {
		s.running = true
		go s.run()
	}
	s.mu.Unlock()
	select {
	case <-r.done:
		return r.index, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (s *rounds) run() {
	for {
		s.mu.Lock()
		r := s.next
		s.next = nil
		s.running = r != nil
		s.mu.Unlock()
		if r == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		r.index, r.err = s.do(ctx)
		cancel()
		close(r.done)
	}
}
