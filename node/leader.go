package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

const (
	dutyEvery    = 200 * time.Millisecond
	probeTimeout = 500 * time.Millisecond
	// changeTimeout bounds one membership change.
	changeTimeout = 5 * time.Second
)

// duties run while this node leads, one set per term. Used by watch only.
type duties struct {
	term   uint64
	cancel context.CancelFunc
}

func (d *duties) begin(n *Node, r *raft.Raft) {
	term := r.CurrentTerm()
	if d.cancel != nil && d.term == term {
		return
	}
	d.end()
	ctx, cancel := context.WithCancel(n.stop)
	d.term, d.cancel = term, cancel
	n.background(func() { n.lead(ctx, r, term) })
}

func (d *duties) end() {
	if d.cancel != nil {
		d.cancel()
		d.cancel = nil
	}
}

// lead does what a leader owes the cluster until ctx ends.
func (n *Node) lead(ctx context.Context, r *raft.Raft, term uint64) {
	for ctx.Err() == nil {
		err := n.await(ctx, func() error { return r.Barrier(0).Error() })
		if err == nil {
			n.barrier.Store(term)
			n.broadcast()
			break
		}
		_ = pause(ctx, dutyEvery, nil)
	}
	t := tending{}
	for ctx.Err() == nil {
		if err := n.tend(ctx, r, t); err != nil && ctx.Err() == nil && !errors.Is(err, errNotLeader) {
			n.logger.Warn("membership cannot be changed", "error", err)
		}
		_ = pause(ctx, dutyEvery, nil)
	}
}

// locked serialises membership changes: Raft's own guard, a previous index,
// cannot be used because it never tells that index.
func (n *Node) locked(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*changeTimeout)
	defer cancel()
	select {
	case n.membership <- struct{}{}:
		defer func() { <-n.membership }()
		return f(ctx)
	case <-ctx.Done():
		return fmt.Errorf("waiting for another membership change: %w", ctx.Err())
	}
}

// alter runs one configuration change.
func (n *Node) alter(ctx context.Context, change func() raft.IndexFuture) error {
	err := n.await(ctx, func() error { return change().Error() })
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return errNotLeader
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("membership change did not start: %w", err)
	}
	return fmt.Errorf("%w: membership change: %w", ErrOutcomeUnknown, err)
}

// admit adds the node of c, or takes note of its new address. Run by the leader.
func (n *Node) admit(ctx context.Context, r *raft.Raft, c card) (joined, error) {
	if !idPattern.MatchString(c.ID) || checkHostPort(c.Address) != nil {
		return joined{}, fmt.Errorf("%w: join request without a usable id and address", errRefused)
	}
	if c.HasState && c.ClusterID != n.clusterID() {
		return joined{}, fmt.Errorf("node %s %w (%s)", c.ID, ErrForeignCluster, c.ClusterID)
	}
	if c.ID == n.id {
		return joined{}, replacedBy(c.ID, n.advertise)
	}
	pctx, cancel := context.WithTimeout(ctx, helloTimeout)
	back, err := n.hello(pctx, c.Address)
	cancel()
	if err != nil {
		return joined{}, fmt.Errorf("%w: the leader cannot reach %s at its advertised address: %w", errRefused, c.ID, err)
	}
	if back.ID != c.ID || back.Run != c.Run {
		return joined{}, fmt.Errorf("%w: at %s, where node %s says to be, answers node %s", errRefused, c.Address, c.ID, back.ID)
	}
	if err := n.inUse(ctx, c); err != nil {
		return joined{}, err
	}
	err = n.locked(ctx, func(ctx context.Context) error {
		if c.HasState {
			return n.relocate(ctx, r, c)
		}
		return n.enrol(ctx, r, c)
	})
	return joined{ClusterID: n.clusterID()}, err
}
