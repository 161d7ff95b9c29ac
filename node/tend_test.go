package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestWishOf(t *testing.T) {
	t.Parallel()
	voter := raft.Server{ID: "a", Suffrage: raft.Voter}
	replica := raft.Server{ID: "a", Suffrage: raft.Nonvoter}
	member := card{ID: "a", HasState: true, ClusterID: "c", Applied: 100}
	quiet := member
	quiet.NonVoter = true
	for name, c := range map[string]struct {
		s    raft.Server
		c    card
		goal uint64
		want wish
	}{
		"no answer":                  {voter, card{}, 0, wishUnknown},
		"another node there":         {voter, card{ID: "b", HasState: true, ClusterID: "c"}, 0, wishUnknown},
		"wiped":                      {voter, card{ID: "a", ClusterID: "c"}, 0, wishUnknown},
		"another cluster":            {replica, card{ID: "a", HasState: true, ClusterID: "d"}, 0, wishUnknown},
		"a voter that wants to vote": {voter, member, 1 << 20, wishNothing},
		"a replica that does not":    {replica, quiet, 1 << 20, wishNothing},
		"caught up":                  {replica, member, 100 + closeEnough, wishVote},
		"not yet":                    {replica, member, 101 + closeEnough, wishLater},
		"a voter that does not":      {voter, quiet, 0, wishNoVote},
	} {
		t.Run(name, func(t *testing.T) {
			if got := wishOf(c.s, c.c, "c", c.goal); got != c.want {
				t.Errorf("wish %d, want %d", got, c.want)
			}
		})
	}
}

func TestAVoteComesAndGoesWithTheSetting(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	restart := func(i int, nonVoter bool) {
		t.Helper()
		nodes[i].close(t)
		nodes[i] = nodes[i].again(t, func(o *Options) { o.NonVoter = nonVoter })
	}
	// The leader itself: it must not take the cluster along.
	first := waitLeader(t, nodes...)
	for i, n := range nodes {
		if n != first {
			continue
		}
		restart(i, true)
		first = nodes[i]
		waitVoter(t, others(nodes, first)[0], first.ID(), false)
		apply(t, first, "from a replica")
		restart(i, false)
		waitVoter(t, others(nodes, nodes[i])[0], nodes[i].ID(), true)
		break
	}
	apply(t, nodes[0], "again")
	waitApplied(t, "again", nodes...)
}

func TestWhoeverLeadsHandsOverToTheOneThatWantsToVote(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	for _, n := range nodes {
		n.close(t)
	}
	for i := range nodes {
		nodes[i] = nodes[i].again(t, func(o *Options) { o.NonVoter = i < 2 })
	}
	last := nodes[2]
	waitVoter(t, last, "n1", false)
	waitVoter(t, last, "n2", false)
	if leader := waitLeader(t, nodes...); leader != last {
		t.Errorf("%s leads", leader.ID())
	}
	apply(t, nodes[0], "goes on")
	waitApplied(t, "goes on", nodes...)
}

func TestTheOnlyVoterKeepsItsVote(t *testing.T) {
	t.Parallel()
	n := openNode(t, func(o *Options) { o.ID, o.DataDir = "n1", t.TempDir() })
	waitLeader(t, n)
	replica := openNode(t, func(o *Options) { o.ID, o.Join, o.NonVoter = "r1", []string{n.Addr()}, true })
	<-replica.Formed()
	n.close(t)
	n = n.again(t, func(o *Options) { o.NonVoter, o.Join = true, []string{replica.Addr()} })
	waitLeader(t, n, replica)
	apply(t, replica, "goes on")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := replica.Remove(ctx, "n1"); !errors.Is(err, ErrLastVoter) {
		t.Errorf("removing the last voter while a replica is left: %v", err)
	}
}

func TestRemovingALiveVoterBesideADeadOneIsRefused(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	leader := waitLeader(t, nodes...)
	rest := others(nodes, leader)
	rest[0].crash(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, id := range []string{rest[1].ID(), leader.ID()} {
		if err := rest[1].Remove(ctx, id); !errors.Is(err, ErrNoMajority) {
			t.Errorf("removing %s: %v", id, err)
		}
	}
	apply(t, leader, "goes on")
	if err := leader.Remove(ctx, rest[0].ID()); err != nil {
		t.Errorf("removing the dead one: %v", err)
	}
	if err := leader.Remove(ctx, rest[1].ID()); err != nil {
		t.Errorf("removing the live one then: %v", err)
	}
	apply(t, leader, "alone")
}

// A gateway is one member of many that serve; only a few of them vote.
func TestReplicasAskForNothingAndDeadOnesHoldNobodyUp(t *testing.T) {
	t.Parallel()
	n := openNode(t, func(o *Options) { o.ID = "n1" })
	waitLeader(t, n)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i := range 12 { // members that never answer
		id, addr := raft.ServerID(fmt.Sprintf("gone%d", i)), raft.ServerAddress(freeAddrs(t, 1)[0])
		r := n.raft.Load()
		if err := n.alter(ctx, func() raft.IndexFuture { return r.AddNonvoter(id, addr, 0, changeTimeout) }); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	live := openNode(t, func(o *Options) { o.ID, o.Join = "n2", []string{n.Addr()} })
	waitVoter(t, n, "n2", true)
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("the promotion took %v", took)
	}
	start = time.Now()
	if got := len(live.Members(ctx)); got != 14 {
		t.Errorf("%d members", got)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("members took %v", took)
	}
}
