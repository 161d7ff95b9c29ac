package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// sickStore is a store whose disk can be made to hang or to be slow.
type sickStore struct {
	bothStores
	mu    sync.Mutex
	pause time.Duration
	hung  chan struct{} // closed to let go; nil while the disk answers
}

var _ bothStores = (*sickStore)(nil)

func (s *sickStore) wait() {
	s.mu.Lock()
	hung, pause := s.hung, s.pause
	s.mu.Unlock()
	time.Sleep(pause)
	if hung != nil {
		<-hung
	}
}

func (s *sickStore) StoreLog(l *raft.Log) error    { s.wait(); return s.bothStores.StoreLog(l) }
func (s *sickStore) StoreLogs(l []*raft.Log) error { s.wait(); return s.bothStores.StoreLogs(l) }
func (s *sickStore) Set(k, v []byte) error         { s.wait(); return s.bothStores.Set(k, v) }
func (s *sickStore) SetUint64(k []byte, v uint64) error {
	s.wait()
	return s.bothStores.SetUint64(k, v)
}

func (s *sickStore) hang() (recover func()) {
	hung := make(chan struct{})
	s.mu.Lock()
	s.hung = hung
	s.mu.Unlock()
	return sync.OnceFunc(func() { close(hung) })
}

func (s *sickStore) slow(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause = d
}

// openSickCluster is openCluster with disks that can fall ill.
func openSickCluster(t *testing.T, size int, patience time.Duration) ([]*testNode, map[*testNode]*sickStore) {
	t.Helper()
	addrs := freeAddrs(t, size)
	nodes, sick := make([]*testNode, size), map[*testNode]*sickStore{}
	for i := range nodes {
		o, fsm, logs := testOptions(t, func(o *Options) {
			o.ID, o.DataDir, o.Listen, o.Join, o.BootstrapExpect = string(rune('a'+i)), t.TempDir(), addrs[i], addrs, size
			o.StorePatience = patience
		})
		o = o.withDefaults()
		st, err := openStores(o.DataDir, func() {}, o.Logger)
		if err != nil {
			t.Fatal(err)
		}
		disk := &sickStore{bothStores: st.inner}
		st.inner = disk
		n, err := open(t.Context(), o, st, o.Logger)
		if err == nil {
			err = n.begin()
		}
		if err != nil {
			t.Fatal(err)
		}
		nodes[i] = &testNode{Node: n, fsm: fsm, opts: o, logs: logs}
		sick[nodes[i]] = disk
		t.Cleanup(func() { nodes[i].closeHung(t) })
	}
	waitLeader(t, nodes...)
	return nodes, sick
}

// closeHung stops a node that may wait for its disk for ever.
func (n *testNode) closeHung(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	start := time.Now()
	if err := n.Shutdown(ctx); err != nil && !errors.Is(n.Err(), ErrDiskHung) {
		t.Errorf("shutdown of %s: %v", n.ID(), err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("shutdown of %s took %v", n.ID(), took)
	}
}

func TestALeaderWhoseDiskHangsStopsAndAnotherLeads(t *testing.T) {
	t.Parallel()
	nodes, sick := openSickCluster(t, 3, time.Second)
	leader := waitLeader(t, nodes...)
	apply(t, nodes[0], "before")
	recover := sick[leader].hang()
	t.Cleanup(recover)
	go func() { _, _, _ = tryApply(leader, "during", 5*time.Second) }()
	hungAt := time.Now()
	select {
	case <-leader.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("a leader whose disk hangs goes on for ever")
	}
	if !errors.Is(leader.Err(), ErrDiskHung) {
		t.Errorf("it stopped with %v", leader.Err())
	}
	rest := others(nodes, leader)
	waitLeader(t, rest...)
	t.Logf("another leads %v after the disk began to hang", time.Since(hungAt))
	insist(t, rest[0], "after")
	waitApplied(t, "after", rest...)
	leader.closeHung(t)
}

func TestAFollowerWhoseDiskHangsStopsAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	nodes, sick := openSickCluster(t, 3, time.Second)
	leader := waitLeader(t, nodes...)
	ill := others(nodes, leader)[0]
	t.Cleanup(sick[ill].hang())
	apply(t, leader, "x")
	select {
	case <-ill.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("a follower whose disk hangs goes on for ever")
	}
	apply(t, leader, "y")
	if now := waitLeader(t, others(nodes, ill)...); now != leader {
		t.Error("the leader changed for the sake of a follower's disk")
	}
}

func TestASlowDiskIsNotTakenForAHungOne(t *testing.T) {
	t.Parallel()
	nodes, sick := openSickCluster(t, 3, 2*time.Second)
	leader := waitLeader(t, nodes...)
	for _, d := range sick {
		d.slow(400 * time.Millisecond)
	}
	for range 6 {
		apply(t, leader, "slowly")
	}
	for _, n := range nodes {
		if err := n.Err(); err != nil {
			t.Errorf("%s: %v", n.ID(), err)
		}
	}
	for _, d := range sick {
		d.slow(0)
	}
}

func TestTheWatchdogCountsLooksAtOneCall(t *testing.T) {
	t.Parallel()
	var c storeCalls
	for range 100 { // many short calls are no long one
		end := c.begin("writing")
		if doing := c.look(2); doing != "" {
			t.Fatalf("%s hangs", doing)
		}
		end()
	}
	end := c.begin("writing")
	for i, want := range []string{"", "", "writing", "writing"} {
		if got := c.look(2); got != want {
			t.Errorf("look %d: %q", i+1, got)
		}
	}
	end()
	if got := c.look(2); got != "" {
		t.Errorf("a call that returned: %q", got)
	}
}
