package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestOneNodeBootstrapsAlone(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"in memory": "", "on disk": filepath.Join(t.TempDir(), "new")} {
		t.Run(name, func(t *testing.T) {
			n := openNode(t, func(o *Options) { o.DataDir = dir })
			<-n.Formed()
			if got := apply(t, n, "a"); got != "a#1" {
				t.Errorf("answer %q", got)
			}
			s := n.Status()
			if s.State != "leader" || s.ClusterID == "" || s.LeaderAddress != n.Addr() || s.NodeID != n.ID() {
				t.Errorf("status %+v", s)
			}
			if dir != "" {
				st, err := os.Stat(dir)
				if err != nil || st.Mode().Perm() != 0o700 {
					t.Errorf("data directory: %v %v", st, err)
				}
			}
		})
	}
}

func TestThreeNodesFormWhateverTheOrder(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]int{"ascending": {0, 1, 2}, "descending": {2, 1, 0}, "mixed": {1, 2, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addrs := freeAddrs(t, 3)
			nodes := make([]*testNode, 3)
			for _, i := range order {
				nodes[i] = openNode(t, func(o *Options) {
					o.ID, o.DataDir, o.Listen, o.BootstrapExpect = fmt.Sprintf("n%d", i), t.TempDir(), addrs[i], 3
					o.Join = addrs[1:2] // one common name is enough; for n1 it is itself
				})
			}
			checkLogs(t, &nodes)
			waitLeader(t, nodes...)
			for i, n := range nodes {
				apply(t, n, fmt.Sprint("from ", i))
			}
			waitApplied(t, "from 2", nodes...)
			for _, n := range nodes {
				if got := n.Status().ClusterID; got != nodes[0].Status().ClusterID || got == "" {
					t.Errorf("cluster id %q", got)
				}
				if m := n.Members(context.Background()); len(m) != 3 || !m[0].Voter || !m[1].Voter || !m[2].Voter {
					t.Errorf("members %+v", m)
				}
			}
		})
	}
}

func TestWritesGoOnAfterTheLeaderStops(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*testNode, *testing.T){"shutdown": (*testNode).close, "crash": (*testNode).crash} {
		t.Run(name, func(t *testing.T) {
			nodes := openCluster(t, 3, func(o *Options) { o.RaftMultiplier = 1 })
			leader := waitLeader(t, nodes...)
			apply(t, leader, "before")
			rest := others(nodes, leader)
			stop(leader, t)
			start := time.Now()
			insist(t, rest[0], "after")
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("writes again after %v", took)
			}
			waitApplied(t, "before", rest...)
			waitApplied(t, "after", rest...)
		})
	}
}

func TestRestartOfAllKeepsEverything(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	for i := range 20 {
		apply(t, nodes[i%3], fmt.Sprint(i))
	}
	cluster := nodes[0].Status().ClusterID
	for _, n := range nodes {
		n.close(t)
	}
	for i, n := range nodes {
		nodes[i] = n.again(t, func(o *Options) { o.BootstrapExpect = 1; o.Join = nil }) // ignored
	}
	waitLeader(t, nodes...)
	apply(t, nodes[1], "again")
	waitApplied(t, "again", nodes...)
	for _, n := range nodes {
		if got := len(n.fsm.list()); got != 21 {
			t.Errorf("%s holds %d entries", n.ID(), got)
		}
		if got := n.Status().ClusterID; got != cluster {
			t.Errorf("cluster id changed from %s to %s", cluster, got)
		}
	}
}

func TestSameIDAtANewAddressIsUpdatedInPlace(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	leader := waitLeader(t, nodes...)
	moved := others(nodes, leader)[0]
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // replication never rests
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_, _, _ = tryApply(leader, "load", 5*time.Second)
			}
		}
	}()
	for range 3 {
		moved.close(t)
		back := moved.again(t, func(o *Options) { o.Listen = net.JoinHostPort(testHost(t), "0") })
		if back.Addr() == moved.Addr() {
			t.Fatal("address did not change")
		}
		eventually(t, 10*time.Second, "the new address in the configuration", func() bool {
			s, ok := leader.member(back.ID())
			return ok && string(s.Address) == back.Addr() && s.Suffrage == raft.Voter
		})
		moved = back
	}
	close(stop)
	<-stopped
	apply(t, leader, "last")
	waitApplied(t, "last", moved)
}

func TestAllNodesAtNewAddressesFindEachOtherByTheirJoinLists(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	apply(t, nodes[0], "kept")
	for _, n := range nodes {
		n.close(t)
	}
	fresh := freeAddrs(t, 3)
	for i, n := range nodes {
		nodes[i] = n.again(t, func(o *Options) { o.Listen, o.Join = fresh[i], fresh })
	}
	waitLeader(t, nodes...)
	apply(t, nodes[2], "new")
	waitApplied(t, "kept", nodes...)
	eventually(t, 5*time.Second, "every new address in the configuration", func() bool {
		for i, n := range nodes {
			if s, _ := nodes[0].member(n.ID()); string(s.Address) != fresh[i] {
				return false
			}
		}
		return true
	})
}

func TestGrowthAddsANonVoterThatIsPromoted(t *testing.T) {
	t.Parallel()
	first := openNode(t, func(o *Options) { o.ID, o.DataDir = "n1", t.TempDir() })
	apply(t, first, "early")
	second := openNode(t, func(o *Options) { o.ID, o.DataDir, o.Join = "n2", t.TempDir(), []string{first.Addr()} })
	waitApplied(t, "early", second)
	waitVoter(t, first, "n2", true)
	replica := openNode(t, func(o *Options) {
		o.ID, o.DataDir, o.Join, o.NonVoter = "n3", t.TempDir(), []string{second.Addr()}, true
	})
	apply(t, replica, "through the replica")
	waitApplied(t, "through the replica", first, second, replica)
	waitVoter(t, first, "n3", false)
	time.Sleep(2 * dutyEvery) // it must stay so
	waitVoter(t, first, "n3", false)
}

func TestWipedVoterComesBackWithoutAVoteAndEarnsItAgain(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	leader := waitLeader(t, nodes...)
	apply(t, leader, "kept")
	wiped := others(nodes, leader)[0]
	wiped.close(t)
	if err := os.RemoveAll(wiped.opts.DataDir); err != nil {
		t.Fatal(err)
	}
	// Every configuration on the way is looked at: the wiped node's id must
	// lose its vote before its Raft starts.
	var mu sync.Mutex
	sawLoss := false
	stop := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		for {
			s, ok := leader.member(wiped.ID())
			mu.Lock()
			sawLoss = sawLoss || !ok || s.Suffrage != raft.Voter
			mu.Unlock()
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Microsecond):
			}
		}
	}()
	back := wiped.again(t, nil)
	<-back.Formed()
	close(stop)
	<-watching
	if !sawLoss {
		t.Error("its Raft started while its id still had a vote")
	}
	waitApplied(t, "kept", back)
	waitVoter(t, leader, back.ID(), true)
}

func TestFreshNodesNeverBootstrapOverASurvivor(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	apply(t, nodes[0], "precious")
	waitApplied(t, "precious", nodes...)
	for _, n := range nodes {
		n.close(t)
	}
	survivor := nodes[0].again(t, nil)
	fresh := make([]*testNode, 2)
	for i := range fresh {
		fresh[i] = nodes[i+1].again(t, func(o *Options) { o.DataDir = t.TempDir() })
	}
	eventually(t, 10*time.Second, "a reason in both logs", func() bool {
		return strings.Contains(survivor.logs.String(), "has lost its data") &&
			strings.Contains(fresh[0].logs.String(), "this node has no data")
	})
	for _, n := range append(fresh, survivor) {
		if id, _ := n.Leader(); id != "" {
			t.Errorf("%s follows %s", n.ID(), id)
		}
		start := time.Now()
		if _, _, err := tryApply(n, "x", 20*time.Second); !errors.Is(err, ErrNoLeader) {
			t.Errorf("apply on %s: %v", n.ID(), err)
		}
		if took := time.Since(start); took > 8*time.Second {
			t.Errorf("apply without a leader took %v", took)
		}
	}
	for _, n := range fresh {
		if s := n.Status(); s.State != "forming" {
			t.Errorf("fresh node is %s", s.State)
		}
	}
}

func TestBootstrapIsFinishedForANodeThatMissedIt(t *testing.T) {
	t.Parallel()
	addrs := freeAddrs(t, 3)
	open := func(i int, dir string) *testNode {
		return openNode(t, func(o *Options) {
			o.ID, o.DataDir, o.Listen, o.Join, o.BootstrapExpect = fmt.Sprintf("n%d", i), dir, addrs[i], addrs, 3
		})
	}
	// n0 has bootstrapped and died before it told the others.
	o, _, _ := testOptions(t, func(o *Options) {
		o.ID, o.DataDir, o.Listen, o.Join, o.BootstrapExpect = "n0", t.TempDir(), addrs[0], addrs, 3
	})
	n0, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	var servers []server
	for i, a := range addrs {
		servers = append(servers, server{ID: fmt.Sprintf("n%d", i), Address: a})
	}
	if err := n0.startRaft("c1", servers); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := n0.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	nodes := []*testNode{open(1, t.TempDir()), open(2, t.TempDir()), open(0, o.DataDir)}
	waitLeader(t, nodes...)
	apply(t, nodes[0], "formed")
	for _, n := range nodes {
		if n.Status().ClusterID != "c1" {
			t.Errorf("%s is in cluster %q", n.ID(), n.Status().ClusterID)
		}
	}
}

func TestSecondProcessOnTheDirectory(t *testing.T) {
	t.Parallel()
	n := openNode(t, func(o *Options) { o.ID, o.DataDir = "n1", t.TempDir() })
	o, _, _ := testOptions(t, func(o *Options) { o.DataDir = n.opts.DataDir })
	start := time.Now()
	_, err := Open(context.Background(), o)
	if !errors.Is(err, ErrLocked) || !strings.Contains(fmt.Sprint(err), n.opts.DataDir) {
		t.Errorf("second open: %v", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestConfiguredIDThatDiffersFromTheKeptOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := openNode(t, func(o *Options) { o.DataDir = dir })
	kept, err := os.ReadFile(filepath.Join(dir, nodeIDFile))
	if err != nil || strings.TrimSpace(string(kept)) != n.ID() {
		t.Fatalf("node-id file: %q, %v", kept, err)
	}
	n.close(t)
	o, _, _ := testOptions(t, func(o *Options) { o.ID, o.DataDir = "other", dir })
	if _, err := Open(context.Background(), o); err == nil || !strings.Contains(err.Error(), "cluster.node_id") {
		t.Errorf("open with another id: %v", err)
	}
}
