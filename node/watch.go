package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

const (
	watchEvery = 100 * time.Millisecond
	seekEvery  = 500 * time.Millisecond
)

// watch follows Raft's state until the node stops: it tells waiters of changes,
// runs the leader's duties while this node leads, and looks for the others
// while there is no leader.
func (n *Node) watch(r *raft.Raft) {
	seen := make(chan raft.Observation, 64)
	o := raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		}
		return false
	})
	r.RegisterObserver(o)
	defer r.DeregisterObserver(o)
	n.background(func() { n.seekLoop(r) })

	var duty duties
	defer duty.end()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	leader := ""
	for {
		if id, _ := n.Leader(); id != leader {
			leader = id
			n.logger.Info("leader changed", "leader", leader)
			n.broadcast()
		}
		if leader != "" {
			n.mu.Lock()
			n.lastSeen = time.Now()
			n.mu.Unlock()
		}
		switch state := r.State(); {
		case state == raft.Shutdown && n.stop.Err() == nil:
			n.fail(ErrRemoved)
		case state == raft.Leader && n.stop.Err() == nil:
			duty.begin(n, r)
		default:
			duty.end()
		}
		select {
		case <-seen:
		case <-tick.C:
		case <-n.stop.Done():
			return
		}
	}
}

// changed returns a channel that is closed when leadership changes.
func (n *Node) changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.change
}

func (n *Node) broadcast() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.change)
	n.change = make(chan struct{})
}

// leaderSeen returns when a leader was last known.
func (n *Node) leaderSeen() time.Time {
	if id, _ := n.Leader(); id != "" {
		return time.Now()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lastSeen
}

// await runs wait, which ends in a Raft future, and gives up on it when ctx or
// the node ends: Raft leaves some futures unanswered when it shuts down.
func (n *Node) await(ctx context.Context, wait func() error) error {
	done := make(chan error, 1)
	go func() { done <- wait() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-n.stop.Done():
		return ErrClosed
	}
}

// seekLoop says hello to the other members at start, while there is no leader,
// and while the cluster does not know this node's address.
func (n *Node) seekLoop(r *raft.Raft) {
	complain := n.complaint("not in touch with the cluster")
	for first := true; n.stop.Err() == nil; first = false {
		id, _ := n.Leader()
		here, _ := n.configuredAddress(n.id)
		if first || id == "" || here != n.advertise && id != n.id {
			if err := n.seek(r, first); err != nil {
				complain(err)
			}
		}
		_ = pause(n.stop, seekEvery, nil)
	}
}

// seek does one round and returns why there is no leader, or what else is wrong.
func (n *Node) seek(r *raft.Raft, first bool) error {
	conf := r.GetConfiguration().Configuration()
	addrs := slices.Clone(n.opts.Join)
	for _, s := range conf.Servers {
		if string(s.ID) != n.id {
			addrs = append(addrs, string(s.Address))
		}
	}
	s := n.survey(n.stop, addrs)
	for addr, err := range s.silent {
		if errors.Is(err, ErrReplaced) { // the leader knows for sure
			return n.announce(card{Address: addr})
		}
	}
	if first {
		n.warnOfStrangers(s)
	}
	members := slices.DeleteFunc(slices.Clone(s.cards), func(c card) bool {
		return !c.HasState || c.ClusterID != n.clusterID()
	})
	slices.SortStableFunc(members, func(a, b card) int { return rank(b) - rank(a) })
	here, listed := n.configuredAddress(n.id)
	moved := listed && here != n.advertise
	for _, m := range members {
		if !moved && (!m.leads() || m.ListsYou) {
			continue
		}
		if err := n.announce(m); err != nil {
			return err
		}
		return nil
	}
	if id, _ := n.Leader(); id != "" {
		return nil
	}
	if err := n.finishBootstrap(r, conf, s); err != nil {
		return err
	}
	return n.whyNoLeader(conf, s)
}

// warnOfStrangers tells the operator that an address of the join list belongs to
// another cluster. A node that was once started alone has a cluster of its own,
// and would go on to apply every limit a second time, in good health.
func (n *Node) warnOfStrangers(s survey) {
	for _, c := range append(s.cards[:len(s.cards):len(s.cards)], s.double) {
		if c.HasState && c.ClusterID != n.clusterID() {
			n.logger.Warn("another cluster answers at an address of this node's list; this node stays in its own: to move it, stop it, delete its data directory and start it again",
				"address", c.Address, "its_cluster", c.ClusterID, "own_cluster", n.clusterID())
		}
	}
}

// announce tells the cluster through member m where this node is now. The
// leader's answer also settles whether it is still a member.
func (n *Node) announce(m card) error {
	ctx, cancel := context.WithTimeout(n.stop, joinTimeout)
	defer cancel()
	err := n.client.callJSON(ctx, m.Address, request{path: pathJoin, idempotent: true}, n.card(), nil)
	if errors.Is(err, ErrRemoved) {
		n.fail(ErrRemoved)
		return nil
	}
	if errors.Is(err, ErrReplaced) {
		n.fail(err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("announcing this node's address: %w", err)
	}
	return nil
}

// finishBootstrap repeats the bootstrap for nodes that missed it: only while
// every listed node answers and none holds more than the first entry, so that
// no committed entry can be outvoted by nodes without data.
func (n *Node) finishBootstrap(r *raft.Raft, conf raft.Configuration, s survey) error {
	if r.LastIndex() > 1 || len(conf.Servers) < 2 {
		return nil
	}
	p := proposedCluster{ClusterID: n.clusterID(), Commit: true}
	missed := false
	for _, m := range conf.Servers {
		p.Servers = append(p.Servers, server{ID: string(m.ID), Address: string(m.Address)})
		if string(m.ID) == n.id {
			continue
		}
		i := slices.IndexFunc(s.cards, func(c card) bool { return c.ID == string(m.ID) && c.Address == string(m.Address) })
		if i < 0 {
			return nil
		}
		c := s.cards[i]
		if c.HasState && (c.ClusterID != n.clusterID() || c.LastIndex > 1) {
			return nil
		}
		missed = missed || !c.HasState
	}
	if !missed {
		return nil
	}
	if err := n.toOthers(p); err != nil {
		return fmt.Errorf("finishing the bootstrap: %w", err)
	}
	return nil
}

// whyNoLeader explains to the operator what is missing for a majority.
func (n *Node) whyNoLeader(conf raft.Configuration, s survey) error {
	voters, present := 0, 0
	var missing []string
	for _, m := range conf.Servers {
		if m.Suffrage != raft.Voter {
			continue
		}
		voters++
		i := slices.IndexFunc(s.cards, func(c card) bool { return c.ID == string(m.ID) })
		switch {
		case string(m.ID) == n.id, i >= 0 && s.cards[i].HasState && s.cards[i].ClusterID == n.clusterID():
			present++
		case i >= 0 && s.cards[i].HasState:
			missing = append(missing, fmt.Sprintf("%s at %s belongs to another cluster", m.ID, s.cards[i].Address))
		case i >= 0:
			missing = append(missing, fmt.Sprintf("%s at %s has lost its data", m.ID, s.cards[i].Address))
		default:
			missing = append(missing, fmt.Sprintf("%s at %s %s", m.ID, m.Address, whySilent(s.silent[string(m.Address)])))
		}
	}
	for _, c := range s.cards {
		if !c.HasState && !slices.ContainsFunc(conf.Servers, func(m raft.Server) bool { return string(m.ID) == c.ID }) {
			missing = append(missing, fmt.Sprintf("%s at %s is new and cannot stand in for a voter with data", c.ID, c.Address))
		}
	}
	if present > voters/2 {
		return fmt.Errorf("no leader yet: %d of %d voters are here and elect one", present, voters)
	}
	return fmt.Errorf("no leader: %d of %d voters are here, a majority is needed: %s", present, voters, strings.Join(missing, ", "))
}
