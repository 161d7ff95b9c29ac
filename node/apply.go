package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Apply commits cmd and returns what the state machine answered on the leader,
// and the index of the entry. A follower forwards it to the leader, once. ctx
// bounds the whole wait: if it ends, or leadership is lost, after the command
// was handed over, the error is ErrOutcomeUnknown; any other error of this
// package means that nothing was executed. Safe for concurrent use; concurrent
// calls share a commit.
func (n *Node) Apply(ctx context.Context, cmd []byte) (answer []byte, index uint64, err error) {
	if len(cmd) > MaxCommand {
		return nil, 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(cmd), MaxCommand)
	}
	local := func(ctx context.Context, r *raft.Raft) error {
		answer, index, err = n.applyHere(ctx, r, cmd)
		return err
	}
	remote := func(ctx context.Context, leader string) error {
		resp, err := n.client.call(ctx, leader, request{path: pathApply, body: cmd, hop: true})
		var c *callError
		if errors.As(err, &c) && c.sent {
			return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		answer, index = resp.body, resp.index
		return err
	}
	if err := n.onLeader(ctx, local, remote); err != nil {
		return nil, 0, fmt.Errorf("applying a command: %w", err)
	}
	return answer, index, nil
}

// proposal is one command on its way into the log. Its state says who came
// first: the log, or the end of the caller's patience.
type proposal struct {
	state atomic.Int32
	done  chan struct{}

	answer []byte
	index  uint64
	err    error
}

const (
	proposalWaiting int32 = iota
	proposalSent
	proposalAbandoned
)

// applyHere commits cmd through r, which led a moment ago.
func (n *Node) applyHere(ctx context.Context, r *raft.Raft, cmd []byte) ([]byte, uint64, error) {
	if len(cmd) > MaxCommand {
		return nil, 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(cmd), MaxCommand)
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	p := &proposal{done: make(chan struct{})}
	go n.propose(r, cmd, p)
	var cause error
	select {
	case <-p.done:
		return p.answer, p.index, p.err
	case <-ctx.Done():
		cause = ctx.Err()
	case <-n.stop.Done():
		cause = ErrClosed
	}
	if p.state.CompareAndSwap(proposalWaiting, proposalAbandoned) {
		return nil, 0, cause
	}
	return nil, 0, fmt.Errorf("%w: %w", ErrOutcomeUnknown, cause)
}

// propose stamps and enqueues in one critical section, so that stamps enter the
// log in the order in which they were given, and waits for the outcome.
func (n *Node) propose(r *raft.Raft, cmd []byte, p *proposal) {
	defer close(p.done)
	n.proposing.Lock()
	if !p.state.CompareAndSwap(proposalWaiting, proposalSent) {
		n.proposing.Unlock()
		return
	}
	f := r.Apply(n.opts.Prepare(cmd), 0)
	n.proposing.Unlock()

	switch err := f.Error(); {
	case err == nil:
		p.index = f.Index()
		p.answer, p.err = fsmAnswer(f.Response())
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		p.err = errNotLeader
	default:
		p.err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
}

// fsmAnswer takes what a state machine may return: bytes, nothing, or an error.
func fsmAnswer(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return v, nil
	case error:
		return nil, v
	}
	return nil, fmt.Errorf("state machine answered with a %T", v)
}
