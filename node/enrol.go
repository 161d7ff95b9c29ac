package node

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// relocate notes the new address of a member that kept its state.
func (n *Node) relocate(ctx context.Context, r *raft.Raft, c card) error {
	s, ok := n.member(c.ID)
	if !ok {
		// Only a committed removal counts: wait until this view of it is.
		if err := n.await(ctx, func() error { return r.Barrier(changeTimeout).Error() }); err != nil {
			return fmt.Errorf("%w: confirming that %s was removed: %w", errRefused, c.ID, err)
		}
		return ErrRemoved
	}
	addr := vacant(r.GetConfiguration().Configuration(), c)
	if s.Address == addr {
		return nil
	}
	n.logger.Info("member moved", "member", c.ID, "from", string(s.Address), "to", string(addr))
	// After a barrier Raft takes the change at once, so the hold stays short.
	if err := n.await(ctx, func() error { return r.Barrier(changeTimeout).Error() }); err != nil {
		return fmt.Errorf("%w: preparing to move %s: %w", errRefused, c.ID, err)
	}
	done := make(chan error, 1)
	err := n.trans.hold(ctx, s.ID, func(short context.Context) error {
		go func() {
			// For a voter this changes the address only.
			done <- n.alter(ctx, func() raft.IndexFuture { return r.AddNonvoter(s.ID, addr, 0, changeTimeout) })
		}()
		return n.appended(short, r, s.ID, addr)
	})
	if err != nil {
		return fmt.Errorf("%w: moving %s: %w", errRefused, c.ID, err)
	}
	return <-done
}

// appended waits until Raft works with id's new address. The change may need the
// held member to commit it, so it is not waited for that.
func (n *Node) appended(ctx context.Context, r *raft.Raft, id raft.ServerID, addr raft.ServerAddress) error {
	for {
		if s, ok := n.member(string(id)); !ok || s.Address == addr {
			// Raft's loop answers this only after it has finished the change.
			return n.await(ctx, func() error { return r.VerifyLeader().Error() })
		}
		if err := pause(ctx, time.Millisecond, nil); err != nil {
			return err
		}
	}
}

// enrol adds a node without state as a non-voter. If its id has a vote, the node
// was wiped and forgot what it voted for, so the vote goes first. So does a
// member of another id at the same address: the new node has taken its place.
func (n *Node) enrol(ctx context.Context, r *raft.Raft, c card) error {
	for _, s := range r.GetConfiguration().Configuration().Servers {
		same, here := string(s.ID) == c.ID, string(s.Address) == c.Address
		if !(same && s.Suffrage == raft.Voter) && !(here && !same) {
			continue
		}
		if !same && n.answers(ctx, s) {
			continue // it has moved, and only its entry has not yet
		}
		n.logger.Warn("removing a member that lost its data", "member", string(s.ID), "address", string(s.Address), "replaced_by", c.ID)
		if err := n.alter(ctx, func() raft.IndexFuture { return r.RemoveServer(s.ID, 0, changeTimeout) }); err != nil {
			return fmt.Errorf("removing the wiped member %s: %w", s.ID, err)
		}
	}
	addr := vacant(r.GetConfiguration().Configuration(), c)
	n.logger.Info("adding a replica", "member", c.ID, "address", string(addr))
	return n.alter(ctx, func() raft.IndexFuture {
		return r.AddNonvoter(raft.ServerID(c.ID), addr, 0, changeTimeout)
	})
}

// answers says whether member s runs, wherever that is.
func (n *Node) answers(ctx context.Context, s raft.Server) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	addr, _ := n.book.lookup(string(s.ID))
	c, err := n.hello(ctx, addr)
	return err == nil && c.ID == string(s.ID) && c.HasState && c.ClusterID == n.clusterID()
}

// vacant returns the address under which c can be listed: its own, or another
// spelling of it while a member that has moved away is still listed there. Raft
// wants all addresses to differ, so nodes that swapped theirs would wait for
// each other. c goes on to announce its own until it is free.
func vacant(conf raft.Configuration, c card) raft.ServerAddress {
	taken := slices.ContainsFunc(conf.Servers, func(s raft.Server) bool {
		return string(s.ID) != c.ID && string(s.Address) == c.Address
	})
	host, port, err := net.SplitHostPort(c.Address)
	if !taken || err != nil {
		return raft.ServerAddress(c.Address)
	}
	return raft.ServerAddress(net.JoinHostPort(host, "0"+port))
}
