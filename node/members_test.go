package node

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

type netDialer struct{ net.Dialer }

func (d *netDialer) dial(addr string) (net.Conn, error) { return d.Dial("tcp", addr) }

func TestRemovedNodeStopsAndSaysWhy(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	leader := waitLeader(t, nodes...)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := leader.Remove(ctx, "nobody"); !errors.Is(err, ErrNotMember) {
		t.Errorf("remove nobody: %v", err)
	}
	gone := others(nodes, leader)[0]
	if err := gone.Remove(ctx, gone.ID()); err != nil {
		t.Fatalf("a follower removes itself: %v", err)
	}
	waitStopped(t, gone)
	if got := leader.Members(ctx); len(got) != 2 {
		t.Errorf("members %+v", got)
	}
	if _, _, err := tryApply(gone, "x", time.Second); !errors.Is(err, ErrClosed) || !errors.Is(err, ErrRemoved) {
		t.Errorf("apply on a removed node: %v", err)
	}

	// The leader removes itself: another takes over and does it.
	if err := leader.Remove(ctx, leader.ID()); err != nil {
		t.Fatalf("the leader removes itself: %v", err)
	}
	waitStopped(t, leader)
	last := others(others(nodes, gone), leader)[0]
	apply(t, last, "alone now")
	if err := last.Remove(ctx, last.ID()); !errors.Is(err, ErrLastVoter) {
		t.Errorf("remove the last voter: %v", err)
	}

	// A node that was down when it was removed learns it when it starts.
	gone.close(t)
	back := gone.again(t, func(o *Options) { o.Join = []string{last.Addr()} })
	waitStopped(t, back)
}

func waitStopped(t *testing.T, n *testNode) {
	t.Helper()
	select {
	case <-n.Done():
	case <-time.After(10 * time.Second):
		t.Fatalf("%s does not notice that it was removed", n.ID())
	}
	if err := n.Err(); !errors.Is(err, ErrRemoved) {
		t.Errorf("%s stopped with %v", n.ID(), err)
	}
}

func TestTransfer(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	replica := openNode(t, func(o *Options) {
		o.ID, o.Join, o.NonVoter = "r1", []string{nodes[0].Addr()}, true
	})
	<-replica.Formed()
	leader := waitLeader(t, nodes...)
	rest := others(nodes, leader)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for id, want := range map[string]error{"nobody": ErrNotMember, "r1": ErrNotVoter, leader.ID(): nil} {
		if err := rest[0].Transfer(ctx, id); !errors.Is(err, want) {
			t.Errorf("transfer to %s: %v", id, err)
		}
	}
	if err := rest[0].Transfer(ctx, rest[1].ID()); err != nil {
		t.Fatal(err)
	}
	if now := waitLeader(t, nodes...); now != rest[1] {
		t.Errorf("%s leads", now.ID())
	}
	if err := rest[1].Transfer(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if now := waitLeader(t, nodes...); now == rest[1] {
		t.Error("it still leads")
	}
	apply(t, nodes[0], "goes on")
}

func TestMembersShowsWhoAnswers(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	leader := waitLeader(t, nodes...)
	apply(t, leader, "a")
	waitApplied(t, "a", nodes...)
	down := others(nodes, leader)[0]
	down.close(t)
	start := time.Now()
	for _, m := range leader.Members(context.Background()) {
		if m.Reachable == (m.ID == down.ID()) || m.Leader != (m.ID == leader.ID()) || !m.Voter {
			t.Errorf("%+v", m)
		}
		if m.Reachable && (m.Version != "test" || m.AppliedIndex == 0) {
			t.Errorf("%+v", m)
		}
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
}

func TestAMemberThatWasAwayCatchesUpAtOnce(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	leader := waitLeader(t, nodes...)
	away := others(nodes, leader)[0]
	away.close(t)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		apply(t, leader, "meanwhile")
	}
	apply(t, leader, "last")
	back := away.again(t, nil)
	start := time.Now()
	waitApplied(t, "last", back)
	if took := time.Since(start); took > time.Second {
		t.Errorf("caught up after %v", took)
	}
}

func TestShutdownIsBoundedAndFinal(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	leader := waitLeader(t, nodes...)
	start := time.Now()
	leader.close(t)
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("took %v", took)
	}
	<-leader.Done()
	if leader.Err() != nil {
		t.Errorf("ordinary shutdown leaves %v", leader.Err())
	}
	if _, _, err := tryApply(leader, "x", time.Second); !errors.Is(err, ErrClosed) {
		t.Errorf("apply after shutdown: %v", err)
	}
	if _, err := leader.ReadIndex(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("read index after shutdown: %v", err)
	}
	leader.close(t) // twice does no harm
	// The others lead on without an election timeout.
	apply(t, others(nodes, leader)[0], "x")
}
