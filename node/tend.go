package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// closeEnough is how many entries a replica may lag when it is promoted.
	closeEnough = 64
	// askEvery is how often the leader asks a member that is as it wants to be
	// whether it still does: it may be started again with another wish.
	askEvery = 2 * time.Second
)

// tending is when the leader asks each member next. Used by lead only.
type tending map[raft.ServerID]time.Time

// tend gives members the vote that they want to have, or takes it from them,
// and corrects this node's own address.
func (n *Node) tend(ctx context.Context, r *raft.Raft, t tending) error {
	servers := r.GetConfiguration().Configuration().Servers
	for _, s := range servers {
		if string(s.ID) != n.id || string(s.Address) == n.advertise {
			continue
		}
		err := n.locked(ctx, func(ctx context.Context) error {
			return n.alter(ctx, func() raft.IndexFuture { return r.AddNonvoter(s.ID, raft.ServerAddress(n.advertise), 0, changeTimeout) })
		})
		if err != nil {
			return fmt.Errorf("correcting this node's address: %w", err)
		}
	}
	goal := r.CommitIndex()
	cards := n.askDue(ctx, servers, t)
	heir := ""
	for _, s := range servers {
		c, asked := cards[s.ID]
		if !asked {
			continue
		}
		w := wishOf(s, c, n.clusterID(), goal)
		t[s.ID] = time.Now().Add(w.again())
		var err error
		switch w {
		case wishVote:
			err = n.promote(ctx, r, s, c.Applied)
		case wishNoVote:
			err = n.demote(ctx, r, s)
		case wishNothing:
			if s.Suffrage == raft.Voter {
				heir = string(s.ID)
			}
		}
		if err != nil {
			return err
		}
	}
	if n.opts.NonVoter && heir != "" {
		// Only a follower can lose its vote: the next leader sees to it.
		n.logger.Info("handing over leadership, because this node is not to vote", "to", heir)
		return n.transferHere(ctx, r, heir)
	}
	return nil
}

// askDue says hello to the members whose time has come, in parallel. A member
// that does not answer has an empty card.
func (n *Node) askDue(ctx context.Context, servers []raft.Server, t tending) map[raft.ServerID]card {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var mu sync.Mutex
	cards := map[raft.ServerID]card{}
	var wg sync.WaitGroup
	for _, s := range servers {
		if string(s.ID) == n.id || time.Now().Before(t[s.ID]) {
			continue
		}
		wg.Go(func() {
			c, err := n.hello(ctx, string(s.Address))
			if err != nil {
				c = card{}
			}
			mu.Lock()
			defer mu.Unlock()
			cards[s.ID] = c
		})
	}
	wg.Wait()
	return cards
}

// wish is what a member wants of the leader.
type wish int

const (
	wishUnknown wish = iota // it does not answer
	wishNothing             // it has what it wants
	wishLater               // it wants to vote but has not caught up
	wishVote
	wishNoVote
)

// wishOf reads the wish of member s from its card.
func wishOf(s raft.Server, c card, cluster string, goal uint64) wish {
	voter := s.Suffrage == raft.Voter
	switch {
	case c.ID != string(s.ID) || !c.HasState || c.ClusterID != cluster:
		return wishUnknown
	case voter == !c.NonVoter:
		return wishNothing
	case voter:
		return wishNoVote
	case c.Applied+closeEnough >= goal:
		return wishVote
	}
	return wishLater
}

// again is when to ask a member with this wish the next time.
func (w wish) again() time.Duration {
	switch w {
	case wishLater:
		return 0
	case wishUnknown:
		return time.Second
	}
	return askEvery
}

// promote makes s a voter; applied is how far it has caught up.
func (n *Node) promote(ctx context.Context, r *raft.Raft, s raft.Server, applied uint64) error {
	err := n.locked(ctx, func(ctx context.Context) error {
		if now, ok := n.member(string(s.ID)); !ok || now != s {
			return nil
		}
		n.logger.Info("promoting a replica that caught up", "member", string(s.ID), "applied_index", applied)
		return n.alter(ctx, func() raft.IndexFuture { return r.AddVoter(s.ID, s.Address, 0, changeTimeout) })
	})
	if err != nil {
		return fmt.Errorf("promoting %s: %w", s.ID, err)
	}
	return nil
}

// demote takes the vote from s, which goes on as a replica.
func (n *Node) demote(ctx context.Context, r *raft.Raft, s raft.Server) error {
	err := n.locked(ctx, func(ctx context.Context) error {
		if now, ok := n.member(string(s.ID)); !ok || now != s {
			return nil
		}
		if err := n.withoutVote(ctx, r, s); err != nil {
			return err
		}
		n.logger.Info("taking the vote from a member that does not want it", "member", string(s.ID))
		return n.alter(ctx, func() raft.IndexFuture { return r.DemoteVoter(s.ID, 0, changeTimeout) })
	})
	if err != nil {
		return fmt.Errorf("taking the vote from %s: %w", s.ID, err)
	}
	return nil
}

// withoutVote refuses a change that takes the vote from s if no majority of the
// other voters answers: the change could not be committed, and nothing after it.
func (n *Node) withoutVote(ctx context.Context, r *raft.Raft, s raft.Server) error {
	if s.Suffrage != raft.Voter {
		return nil
	}
	var rest []raft.Server
	here := 0
	for _, v := range votersOf(r) {
		switch v.ID {
		case s.ID:
		case raft.ServerID(n.id):
			here++
			fallthrough
		default:
			rest = append(rest, v)
		}
	}
	if len(rest) == 0 {
		return ErrLastVoter
	}
	for id, c := range n.askDue(ctx, rest, tending{}) {
		if c.ID == string(id) && c.HasState && c.ClusterID == n.clusterID() {
			here++
		}
	}
	if here <= len(rest)/2 {
		return fmt.Errorf("%w (%d of the %d that would be left answer)", ErrNoMajority, here, len(rest))
	}
	return nil
}

func votersOf(r *raft.Raft) []raft.Server {
	var out []raft.Server
	for _, s := range r.GetConfiguration().Configuration().Servers {
		if s.Suffrage == raft.Voter {
			out = append(out, s)
		}
	}
	return out
}
