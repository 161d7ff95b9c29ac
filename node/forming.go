package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	formEvery    = 150 * time.Millisecond
	helloTimeout = time.Second
	joinTimeout  = 5 * time.Second
	// complainEvery is how often a node that waits repeats why.
	complainEvery = time.Minute
	complainAfter = 2 * time.Second
)

// proposedCluster asks a stateless node to bootstrap. Without Commit it is only
// asked whether it would.
type proposedCluster struct {
	ClusterID string   `json:"cluster_id"`
	Servers   []server `json:"servers"`
	Commit    bool     `json:"commit"`
}

func configuration(servers []server) raft.Configuration {
	var c raft.Configuration
	for _, s := range servers {
		c.Servers = append(c.Servers, raft.Server{
			Suffrage: raft.Voter, ID: raft.ServerID(s.ID), Address: raft.ServerAddress(s.Address),
		})
	}
	return c
}

// survey is the result of one round of hellos.
type survey struct {
	cards  []card           // of others, one per id, in the order of ids
	silent map[string]error // by address
	twin   string           // address of another process with this node's id
	double card             // of that process
}

// survey says hello to addrs, in parallel.
func (n *Node) survey(ctx context.Context, addrs []string) survey {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	var mu sync.Mutex
	out := survey{silent: map[string]error{}}
	seen := map[string]bool{n.advertise: true}
	var wg sync.WaitGroup
	for _, addr := range addrs {
		if seen[addr] {
			continue
		}
		seen[addr] = true
		wg.Go(func() {
			c, err := n.hello(ctx, addr)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				out.silent[addr] = err
			case c.Run == n.run:
			case c.ID == n.id:
				out.twin, out.double = addr, c
			default:
				out.cards = append(out.cards, c)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(out.cards, func(a, b card) int { return strings.Compare(a.ID, b.ID) })
	out.cards = slices.CompactFunc(out.cards, func(a, b card) bool { return a.ID == b.ID })
	return out
}

func (n *Node) hello(ctx context.Context, addr string) (card, error) {
	var c card
	err := n.client.callJSON(ctx, addr, request{path: pathHello, idempotent: true}, n.card(), &c)
	if err == nil && c.Run != n.run {
		_ = n.known(ctx, c) // who is no member is left to those that ask for more than a card
	}
	return c, err
}

// form looks for a cluster until this node belongs to one.
func (n *Node) form() {
	complain := n.complaint("not a member of a cluster yet")
	known := map[string]bool{}
	for n.stop.Err() == nil && n.raft.Load() == nil {
		addrs := slices.Clone(n.opts.Join)
		for a := range known {
			addrs = append(addrs, a)
		}
		s := n.survey(n.stop, addrs)
		clear(known)
		for _, p := range n.peers.list() {
			known[p.Address] = true
		}
		for _, c := range s.cards {
			for _, p := range c.Known {
				known[p.Address] = true
			}
		}
		why := n.tryForm(s)
		if why != nil {
			complain(why)
		}
		if n.raft.Load() == nil {
			_ = pause(n.stop, formEvery+rand.N(formEvery/2), n.formed)
		}
	}
}

// tryForm acts on one survey and returns why the node still belongs nowhere.
func (n *Node) tryForm(s survey) error {
	d := decide(n.card(), s)
	switch {
	case len(d.join) > 0:
		return n.tryJoin(d.join)
	case len(d.bootstrap) > 0:
		return n.found(d.bootstrap)
	}
	return d.wait
}

// decision is what to do after a survey: one of its fields is set.
type decision struct {
	join      []card   // members to ask, best first
	bootstrap []server // the whole new cluster, this node being its first
	wait      error    // why nothing can be done now
}

// decide is the rule of forming as a function of what is known.
func decide(self card, s survey) decision {
	if s.twin != "" {
		return decision{wait: fmt.Errorf("another node at %s uses this node's id %q: give one of them a data directory and id of its own", s.twin, self.ID)}
	}
	var members []card
	servers := []server{{ID: self.ID, Address: self.Address}}
	for _, c := range s.cards {
		switch {
		case c.HasState:
			members = append(members, c)
		case !c.founds():
		case c.Expect != self.Expect && self.Expect > 0:
			return decision{wait: fmt.Errorf("nodes disagree on cluster.bootstrap_expect: %d here, %d at %s (%s)", self.Expect, c.Expect, c.ID, c.Address)}
		default:
			servers = append(servers, server{ID: c.ID, Address: c.Address})
		}
	}
	if len(members) > 0 {
		slices.SortStableFunc(members, func(a, b card) int { return rank(b) - rank(a) })
		return decision{join: members}
	}
	slices.SortFunc(servers, byID)
	switch {
	case self.Expect == 0 || self.NonVoter:
		return decision{wait: fmt.Errorf("no member of a cluster answers, and this node may not start one (cluster.bootstrap_expect is not set): %s", s.unreachable())}
	case len(servers) != self.Expect:
		return decision{wait: fmt.Errorf("%d of the %d nodes of cluster.bootstrap_expect are here: %s", len(servers), self.Expect, s.unreachable())}
	case servers[0].ID != self.ID:
		return decision{wait: fmt.Errorf("waiting for node %s to start the cluster", servers[0].ID)}
	}
	return decision{bootstrap: servers}
}

// rank orders members by how likely they get a join through.
func rank(c card) int {
	switch {
	case c.leads():
		return 2
	case c.LeaderID != "":
		return 1
	}
	return 0
}

func (s survey) unreachable() string {
	if len(s.silent) == 0 {
		return "every configured address answers"
	}
	var parts []string
	for a, err := range s.silent {
		parts = append(parts, a+" "+whySilent(err))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// joined is the answer to a join request.
type joined struct {
	ClusterID string `json:"cluster_id"`
}

// tryJoin asks members to add this node, then starts Raft.
func (n *Node) tryJoin(members []card) error {
	var errs []error
	for _, m := range members {
		ctx, cancel := context.WithTimeout(n.stop, joinTimeout)
		var out joined
		err := n.client.callJSON(ctx, m.Address, request{path: pathJoin, idempotent: true}, n.card(), &out)
		cancel()
		if err == nil {
			if err = n.startRaft(out.ClusterID, nil); err != nil {
				return err
			}
			return nil
		}
		if errors.Is(err, ErrNoLeader) {
			err = fmt.Errorf("cluster %s has no leader; this node has no data and cannot stand in for its missing voters, start those: %w", m.ClusterID, err)
		}
		errs = append(errs, fmt.Errorf("joining through %s (%s): %w", m.ID, m.Address, err))
	}
	return errors.Join(errs...)
}

// found starts a new cluster in three steps: all are asked, this node
// bootstraps, and the others are told to. If it dies in between, seek goes on.
func (n *Node) found(servers []server) error {
	p := proposedCluster{ClusterID: randomID(), Servers: servers}
	if err := n.toOthers(p); err != nil {
		return fmt.Errorf("proposing a cluster: %w", err)
	}
	n.logger.Info("starting a cluster", "cluster", p.ClusterID, "servers", servers)
	if err := n.startRaft(p.ClusterID, servers); err != nil {
		return err
	}
	p.Commit = true
	if err := n.toOthers(p); err != nil {
		n.logger.Warn("not all nodes have bootstrapped yet, going on with those", "error", err)
	}
	return nil
}

// toOthers sends p to every other listed server, in parallel.
func (n *Node) toOthers(p proposedCluster) error {
	ctx, cancel := context.WithTimeout(n.stop, helloTimeout)
	defer cancel()
	errs := make([]error, len(p.Servers))
	var wg sync.WaitGroup
	for i, s := range p.Servers {
		if s.ID == n.id {
			continue
		}
		wg.Go(func() {
			if err := n.client.callJSON(ctx, s.Address, request{path: pathBootstrap, idempotent: true}, p, nil); err != nil {
				errs[i] = fmt.Errorf("node %s: %w", s.ID, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// acceptBootstrap answers a proposal: only a stateless node accepts, only a
// list with itself, as long as it expects, and without a node left out.
func (n *Node) acceptBootstrap(p proposedCluster) error {
	if n.raft.Load() != nil {
		if n.clusterID() == p.ClusterID {
			return nil
		}
		return fmt.Errorf("%w: already a member of cluster %s", errRefused, n.clusterID())
	}
	if !idPattern.MatchString(p.ClusterID) {
		return fmt.Errorf("%w: %q is no cluster id", errRefused, p.ClusterID)
	}
	if n.opts.NonVoter || len(p.Servers) != n.opts.BootstrapExpect {
		return fmt.Errorf("%w: a cluster of %d, but this node expects %d", errRefused, len(p.Servers), n.opts.BootstrapExpect)
	}
	if !slices.Contains(p.Servers, server{ID: n.id, Address: n.advertise}) {
		return fmt.Errorf("%w: node %s at %s is not in the list", errRefused, n.id, n.advertise)
	}
	for _, s := range n.peers.list() {
		if !p.Commit && !slices.ContainsFunc(p.Servers, func(l server) bool { return l.ID == s.ID }) {
			return fmt.Errorf("%w: node %s is there too, but not in the list", errRefused, s.ID)
		}
	}
	if !p.Commit {
		return nil
	}
	return n.startRaft(p.ClusterID, p.Servers)
}

// complaint returns a function that logs msg and why nothing happens: not in the
// first moments, at once when the kind of reason changes, and rarely after that.
func (n *Node) complaint(msg string) func(error) {
	began, said, last := time.Now(), time.Time{}, ""
	return func(err error) {
		text := err.Error()
		n.waiting.Store(&text)
		if time.Since(began) < complainAfter || text == last && time.Since(said) < complainEvery || time.Since(said) < complainAfter {
			return
		}
		said, last = time.Now(), text
		n.logger.Warn(msg, "reason", text)
	}
}
