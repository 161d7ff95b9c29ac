package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

func raftAddr(n *testNode) raft.ServerAddress { return raft.ServerAddress(n.Addr()) }

func TestCommandSizeLimit(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	for _, n := range nodes {
		if _, _, err := tryApply(n, strings.Repeat("x", MaxCommand+1), time.Second); !errors.Is(err, ErrTooLarge) {
			t.Errorf("too large on %s: %v", n.ID(), err)
		}
		if _, _, err := tryApply(n, strings.Repeat("x", MaxCommand), 10*time.Second); err != nil {
			t.Errorf("largest on %s: %v", n.ID(), err)
		}
	}
	follower, leader := others(nodes, waitLeader(t, nodes...))[0], waitLeader(t, nodes...)
	_, err := follower.client.call(context.Background(), leader.Addr(), request{path: pathApply, body: make([]byte, MaxCommand+1)})
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("over the wire: %v", err)
	}
}

func TestForwardedCallsAreNotForwardedAgain(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	leader := waitLeader(t, nodes...)
	rest := others(nodes, leader)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, path := range []string{pathApply, pathReadIndex, pathRemove, pathTransfer, pathJoin} {
		_, err := rest[0].client.call(ctx, rest[1].Addr(), request{path: path, hop: true, body: []byte("{}")})
		if !errors.Is(err, errNotLeader) || leaderHint(err) != leader.Addr() {
			t.Errorf("%s on a follower: %v", path, err)
		}
	}
	if got := leader.fsm.list(); len(got) != 0 {
		t.Errorf("applied %q", got)
	}
}

func TestApplyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	n := openNode(t, nil)
	n.fsm.slow = func(cmd string) {
		if cmd == "slow" {
			<-release
		}
	}
	waitLeader(t, n)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := n.Apply(ctx, []byte("never")); !errors.Is(err, context.Canceled) || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("apply with an ended context: %v", err)
	}
	if _, _, err := tryApply(n, "slow", 100*time.Millisecond); !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("apply that outlives its context: %v", err)
	}
	close(release)
	waitApplied(t, "slow", n)
	for _, e := range n.fsm.list() {
		if e == "never" {
			t.Error("executed")
		}
	}
}

func TestForwardCarriesTheDeadline(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	leader := waitLeader(t, nodes...)
	follower := others(nodes, leader)[0]
	left := make(chan time.Duration, 1)
	n := openNode(t, func(o *Options) {
		o.Answer = func(ctx context.Context, q []byte) ([]byte, error) {
			d, _ := ctx.Deadline()
			left <- time.Until(d)
			return append([]byte("re: "), q...), nil
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
	defer cancel()
	resp, err := follower.client.call(ctx, n.Addr(), request{path: pathHello, body: []byte("{}")})
	if err != nil || len(resp.body) == 0 {
		t.Errorf("hello: %v", err)
	}
	lone, err := n.Ask(ctx, n.ID(), []byte("q"))
	if err != nil || string(lone) != "re: q" {
		t.Errorf("ask itself: %q, %v", lone, err)
	}
	if d := <-left; d > 700*time.Millisecond || d < 0 {
		t.Errorf("deadline in %v", d)
	}
	if _, err := follower.Ask(ctx, leader.ID(), []byte("q")); !errors.Is(err, errRefused) {
		t.Errorf("a member without answers: %v", err)
	}
	if _, err := follower.Ask(ctx, "nobody", nil); !errors.Is(err, ErrNotMember) {
		t.Errorf("ask nobody: %v", err)
	}
}

func TestConcurrentWritesFromEveryNodeAreAppliedOnceAndInStampOrder(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3, func(o *Options) { o.RaftMultiplier = 5 })
	leader := waitLeader(t, nodes...)
	var stamps atomic.Int64
	leader.Node.opts.Prepare = func(cmd []byte) []byte { return fmt.Appendf(nil, "%06d %s", stamps.Add(1), cmd) }
	var wg sync.WaitGroup
	for i := range 90 {
		wg.Go(func() { apply(t, nodes[i%3], fmt.Sprint(i)) })
	}
	wg.Wait()
	list := leader.fsm.list()
	if len(list) != 90 {
		t.Fatalf("%d entries", len(list))
	}
	for i, e := range list {
		if !strings.HasPrefix(e, fmt.Sprintf("%06d ", i+1)) {
			t.Fatalf("entry %d carries stamp %q", i+1, e)
		}
	}
}

func TestLeaderStopsDuringAForward(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	leader := waitLeader(t, nodes...)
	follower := others(nodes, leader)[0]
	apply(t, follower, "pooled") // a connection is in the pool
	hold, held := make(chan struct{}), make(chan struct{})
	defer close(hold)
	leader.fsm.slow = func(cmd string) {
		if cmd == "held" {
			close(held)
			<-hold
		}
	}
	result := make(chan error, 1)
	go func() {
		_, _, err := tryApply(follower, "held", 10*time.Second)
		result <- err
	}()
	<-held
	leader.fail(errors.New("killed by the test"))
	leader.mux.cut()
	if err := <-result; !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("forward to a leader that died: %v", err)
	}
	insist(t, follower, "after") // the dead pooled connections do not matter
}

func TestReadIndexShowsAcknowledgedWritesAndSharesRounds(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for i := range 30 {
		_, index, err := nodes[i%3].Apply(ctx, []byte(fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := nodes[(i+1)%3].ReadIndex(ctx)
		if err != nil || got < index {
			t.Fatalf("read index %d after a write at %d: %v", got, index, err)
		}
	}
}

func TestRoundsAreSharedOnlyByCallersThatCameBeforeTheyStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Uint64
		s := rounds{do: func(context.Context) (uint64, error) {
			n := runs.Add(1)
			time.Sleep(time.Second)
			return n, nil
		}}
		var wg sync.WaitGroup
		want := func(round uint64) {
			wg.Go(func() {
				if got, err := s.wait(t.Context()); got != round || err != nil {
					t.Errorf("round %d, want %d: %v", got, round, err)
				}
			})
			synctest.Wait()
		}
		want(1)
		for range 50 {
			want(2) // the first round is on its way already
		}
		time.Sleep(1500 * time.Millisecond) // in the middle of the second
		want(3)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.wait(ended); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		wg.Wait()
		if runs.Load() != 3 {
			t.Errorf("%d rounds", runs.Load())
		}
	})
}

func TestRemoteErrorsMatchTheirSentinels(t *testing.T) {
	t.Parallel()
	for _, c := range codes {
		e, status := encodeError(fmt.Errorf("wrapped: %w", c.err))
		if !errors.Is(&e, c.err) || status != c.status {
			t.Errorf("%s: %+v, %d", c.code, e, status)
		}
	}
	if e, _ := encodeError(errors.New("anything")); !errors.Is(&e, errRefused) || e.Message != "anything" {
		t.Errorf("%+v", e)
	}
}

func TestStrangersOnThePortAreDropped(t *testing.T) {
	t.Parallel()
	n := openNode(t, nil)
	waitLeader(t, n)
	for range 20 {
		conn, err := (&netDialer{}).dial(n.Addr())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
		if _, err := conn.Read(make([]byte, 64)); err == nil {
			_, err = conn.Read(make([]byte, 64)) // after TLS's alert
			if err == nil {
				t.Error("a stranger is being served")
			}
		}
		_ = conn.Close()
	}
	apply(t, n, "fine")
}
