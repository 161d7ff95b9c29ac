package node

import (
	"context"
	"testing"
	"time"
)

// hang is a call to a leader that neither answers nor breaks the connection.
func hang(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestACallToALeaderThatHangsEndsWithItsLeadership(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	for _, what := range []string{"there is another leader", "there is no leader at all"} {
		leader := waitLeader(t, nodes...)
		nodes = others(nodes, leader)
		follower := nodes[0]
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- follower.whileLeader(ctx, leader.Addr(), hang) }()
		select {
		case <-ended:
			t.Fatal("the call ended although its leader leads")
		case <-time.After(300 * time.Millisecond):
		}
		leader.crash(t)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("the call goes on although %s", what)
		}
	}
}

func TestACallToALeaderThatOnlyOthersKnowGoesOn(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	leader := waitLeader(t, nodes...)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if others(nodes, leader)[0].untilDeposed(ctx, "10.0.0.1:1", leader.Addr()) {
		t.Error("a leader that this node was told of was given up, because it still knows the old one")
	}
}
