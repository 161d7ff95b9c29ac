package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// Status is this node's own view of itself and its cluster.
type Status struct {
	NodeID, ClusterID, Version string
	// State is forming, follower, candidate, leader or stopped.
	State                                   string
	Term                                    uint64
	LeaderID, LeaderAddress                 string // "" while none is known
	LastLogIndex, CommitIndex, AppliedIndex uint64
	// Waiting says what the node waits for while it has no cluster or knows no
	// leader; "" if it does not, or has only begun to look.
	Waiting string
}

// Member is one node of the cluster's configuration.
type Member struct {
	ID, Address   string
	Voter, Leader bool
	// Reachable says that the member answered within half a second; the rest is
	// known only if it did.
	Reachable    bool
	AppliedIndex uint64
	Version      string
	Level        int // of commands that it reads, at least 1
}

// Status never blocks.
func (n *Node) Status() Status {
	s := Status{NodeID: n.id, ClusterID: n.clusterID(), Version: n.opts.Version, State: "forming"}
	s.LeaderID, s.LeaderAddress = n.Leader()
	if r := n.raft.Load(); r != nil {
		s.State = map[raft.RaftState]string{
			raft.Follower: "follower", raft.Candidate: "candidate", raft.Leader: "leader", raft.Shutdown: "stopped",
		}[r.State()]
		s.Term, s.LastLogIndex, s.CommitIndex, s.AppliedIndex = r.CurrentTerm(), r.LastIndex(), r.CommitIndex(), r.AppliedIndex()
	}
	if why := n.waiting.Load(); why != nil && (s.State == "forming" || s.LeaderID == "") {
		s.Waiting = *why
	}
	if n.stop.Err() != nil {
		s.State = "stopped"
	}
	return s
}

// member returns the configuration's entry of id.
func (n *Node) member(id string) (raft.Server, bool) {
	r := n.raft.Load()
	if r == nil {
		return raft.Server{}, false
	}
	for _, s := range r.GetConfiguration().Configuration().Servers {
		if string(s.ID) == id {
			return s, true
		}
	}
	return raft.Server{}, false
}

func (n *Node) configuredAddress(id string) (string, bool) {
	s, ok := n.member(id)
	return string(s.Address), ok
}

// Size returns how many nodes, voters or not, the configuration has, at least 1.
// It never blocks.
func (n *Node) Size() int {
	r := n.raft.Load()
	if r == nil {
		return 1
	}
	return max(len(r.GetConfiguration().Configuration().Servers), 1)
}

// Members returns the configuration as this node knows it, and asks every
// member how it is; it takes half a second if one does not answer. A node that
// belongs to no cluster yet returns only itself.
func (n *Node) Members(ctx context.Context) []Member {
	r := n.raft.Load()
	if r == nil {
		return []Member{{ID: n.id, Address: n.advertise, Reachable: true, Version: n.opts.Version, Level: n.opts.Level}}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	leader, _ := n.Leader()
	servers := r.GetConfiguration().Configuration().Servers
	out := make([]Member, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		m := &out[i]
		*m = Member{ID: string(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter, Leader: string(s.ID) == leader}
		if m.ID == n.id {
			m.Reachable, m.AppliedIndex, m.Version, m.Level = true, r.AppliedIndex(), n.opts.Version, n.opts.Level
			continue
		}
		wg.Go(func() {
			addr, _ := n.book.lookup(m.ID)
			c, err := n.hello(ctx, addr)
			if err == nil && c.ID == m.ID && c.HasState {
				m.Reachable, m.AppliedIndex, m.Version, m.Level = true, c.Applied, c.Version, max(c.Level, 1)
			}
		})
	}
	wg.Wait()
	return out
}

// Understands returns ErrOldMember, with the member's name, unless every member
// says that it reads commands of that level. A command that a member cannot
// read would stop it, so one that does not answer may not be passed over.
func (n *Node) Understands(ctx context.Context, level int) error {
	for _, m := range n.Members(ctx) {
		switch {
		case !m.Reachable:
			return fmt.Errorf("%w: %s does not answer", ErrOldMember, m.ID)
		case m.Level < level:
			return fmt.Errorf("%w: %s runs version %s", ErrOldMember, m.ID, m.Version)
		}
	}
	return nil
}

// Remove takes a member out of the cluster; its node then stops with
// ErrRemoved. A leader that is to be removed hands over leadership first. It
// returns ErrNotMember, ErrLastVoter or ErrNoMajority, or an error of Apply.
func (n *Node) Remove(ctx context.Context, id string) error {
	local := func(ctx context.Context, r *raft.Raft) error { return n.removeHere(ctx, r, id) }
	if err := n.onLeader(ctx, local, n.remoteMember(pathRemove, id)); err != nil {
		return fmt.Errorf("removing %q: %w", id, err)
	}
	return nil
}

// Transfer hands leadership to the voter id, or to any if id is empty, within
// three seconds. It returns ErrNotMember or ErrNotVoter for a wrong target, and
// ErrNotTransferred if this node goes on leading.
func (n *Node) Transfer(ctx context.Context, id string) error {
	local := func(ctx context.Context, r *raft.Raft) error { return n.transferHere(ctx, r, id) }
	if err := n.onLeader(ctx, local, n.remoteMember(pathTransfer, id)); err != nil {
		return fmt.Errorf("transferring leadership: %w", err)
	}
	return nil
}

func (n *Node) remoteMember(path, id string) remoteOp {
	return func(ctx context.Context, leader string) error {
		err := n.client.callJSON(ctx, leader, request{path: path, hop: true}, memberCall{ID: id}, nil)
		var c *callError
		if errors.As(err, &c) && c.sent {
			return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		return err
	}
}

func (n *Node) removeHere(ctx context.Context, r *raft.Raft, id string) error {
	self := false
	err := n.locked(ctx, func(ctx context.Context) error {
		s, ok := n.member(id)
		if !ok {
			return ErrNotMember
		}
		if err := n.withoutVote(ctx, r, s); err != nil {
			return err
		}
		if self = id == n.id; self {
			return nil
		}
		n.logger.Info("removing a member", "member", id)
		return n.alter(ctx, func() raft.IndexFuture { return r.RemoveServer(s.ID, 0, changeTimeout) })
	})
	if err != nil || !self {
		return err
	}
	if err := n.transferHere(ctx, r, ""); err != nil {
		return err
	}
	return errNotLeader // the caller turns to the new one
}

func (n *Node) voters(r *raft.Raft) int { return len(votersOf(r)) }
