package node

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func (n *testNode) recover(t *testing.T, peers ...Peer) Recovered {
	t.Helper()
	r, err := Recover(RecoverOptions{DataDir: n.opts.DataDir, Peers: peers, FSM: &listFSM{}})
	if err != nil {
		t.Fatalf("recovering %s: %v", n.ID(), err)
	}
	return r
}

func (n *testNode) peer() Peer { return Peer{ID: n.ID(), Address: n.Addr()} }

func TestTheLastNodeOfAClusterIsRecovered(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3, func(o *Options) { o.SnapshotThreshold, o.SnapshotInterval = 5, 20*time.Millisecond })
	for i := range 20 {
		apply(t, nodes[i%3], fmt.Sprint(i))
	}
	waitApplied(t, "19", nodes...)
	old := nodes[0].clusterID()
	for _, n := range nodes {
		n.crash(t)
	}
	r := nodes[2].recover(t, nodes[2].peer())
	if r.NodeID != "n3" || len(r.Before) != 3 || r.Unchanged || r.Cluster == old || r.Index < 20 {
		t.Errorf("it says %+v", r)
	}
	if again := nodes[2].recover(t, nodes[2].peer()); !again.Unchanged || again.Cluster != r.Cluster {
		t.Errorf("again: %+v", again)
	}
	last := nodes[2].again(t, func(o *Options) { o.BootstrapExpect = 0 })
	apply(t, last, "alone")
	if got := strings.Join(last.fsm.list(), " "); got != "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 alone" {
		t.Errorf("it holds %s", got)
	}
	// One that was given up comes back with its data: it is told, and changes nothing.
	back := nodes[0].again(t, func(o *Options) { o.BootstrapExpect = 0 })
	eventually(t, 10*time.Second, "the one that was given up is told", func() bool {
		return strings.Contains(back.logs.String(), "another cluster answers")
	})
	apply(t, last, "undisturbed")
	if leader, _ := back.Leader(); leader != "" {
		t.Errorf("it follows %s", leader)
	}
	// Without its data it joins, under its old id too.
	back.close(t)
	fresh := openNode(t, func(o *Options) { o.ID, o.DataDir, o.Join = "n1", t.TempDir(), []string{last.Addr()} })
	waitVoter(t, last, "n1", true)
	waitApplied(t, "undisturbed", fresh)
}

func TestNodesThatAllMovedAreRecoveredAlike(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	apply(t, nodes[0], "kept")
	waitApplied(t, "kept", nodes...)
	// A leader that loses the others goes on to write what nobody commits.
	leader := waitLeader(t, nodes...)
	for _, n := range others(nodes, leader) {
		n.crash(t)
	}
	_, _, _ = tryApply(leader, "never committed", 200*time.Millisecond)
	leader.crash(t)
	addrs := freeAddrs(t, 3)
	var peers []Peer
	for i, n := range nodes {
		peers = append(peers, Peer{ID: n.ID(), Address: addrs[i]})
	}
	ids := map[string]bool{}
	for _, n := range nodes {
		ids[n.recover(t, peers...).Cluster] = true
	}
	if len(ids) != 1 {
		t.Fatalf("cluster ids %v", ids)
	}
	for i := range nodes {
		nodes[i] = nodes[i].again(t, func(o *Options) { o.Listen, o.Join, o.BootstrapExpect = addrs[i], []string{addrs[i]}, 0 })
	}
	waitLeader(t, nodes...)
	apply(t, nodes[1], "moved")
	waitApplied(t, "kept", nodes...)
	waitApplied(t, "moved", nodes...)
	checkLogs(t, &nodes)
}

func TestRecoverRefusesAndChangesNothing(t *testing.T) {
	t.Parallel()
	n := openNode(t, func(o *Options) { o.ID, o.DataDir = "n1", t.TempDir() })
	apply(t, n, "x")
	me := n.peer()
	try := func(dir string, peers ...Peer) error {
		_, err := Recover(RecoverOptions{DataDir: dir, Peers: peers, FSM: &listFSM{}})
		return err
	}
	if err := try(n.opts.DataDir, me); !errors.Is(err, ErrLocked) {
		t.Errorf("a running node: %v", err)
	}
	n.close(t)
	for name, c := range map[string]struct {
		dir   string
		peers []Peer
		want  string
	}{
		"no such directory":  {filepath.Join(t.TempDir(), "no"), []Peer{me}, "there is no log"},
		"no peers":           {n.opts.DataDir, nil, "this is node n1"},
		"without itself":     {n.opts.DataDir, []Peer{{"n2", "a:1"}}, "n2 was no member"},
		"a new node":         {n.opts.DataDir, []Peer{me, {"n2", "a:1"}}, "n2 was no member of this cluster (n1)"},
		"twice":              {n.opts.DataDir, []Peer{me, me}, "listed twice"},
		"nobody's host":      {n.opts.DataDir, []Peer{{"n1", ":7000"}}, "others cannot dial"},
		"every host":         {n.opts.DataDir, []Peer{{"n1", "[::]:7000"}}, "others cannot dial"},
		"a host with blanks": {n.opts.DataDir, []Peer{{"n1", " 10.0.0.1:7000"}}, "others cannot dial"},
		"port 0":             {n.opts.DataDir, []Peer{{"n1", "10.0.0.1:0"}}, "others cannot dial"},
		"port 70000":         {n.opts.DataDir, []Peer{{"n1", "10.0.0.1:70000"}}, "others cannot dial"},
		"an address of none": {n.opts.DataDir, []Peer{{"n1", "nowhere"}}, "host:port"},
	} {
		if err := try(c.dir, c.peers...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	back := n.again(t, nil)
	apply(t, back, "y")
	if back.clusterID() != n.clusterID() {
		t.Error("the cluster is another one")
	}
}

func TestAnInterruptedRecoveryIsRepeatedBeforeTheNodeStarts(t *testing.T) {
	t.Parallel()
	n := openNode(t, func(o *Options) { o.ID, o.DataDir = "n1", t.TempDir() })
	apply(t, n, "x")
	n.close(t)
	moved := Peer{ID: "n1", Address: freeAddrs(t, 1)[0]}
	want := recoveredID(n.clusterID(), []Peer{moved})
	for name, done := range map[string]string{"before the log was rewritten": n.clusterID(), "before the last step": want} {
		t.Run(name, func(t *testing.T) {
			if err := errors.Join(writeID(n.opts.DataDir, recoveringFile, want), writeID(n.opts.DataDir, clusterIDFile, done)); err != nil {
				t.Fatal(err)
			}
			o, _, _ := testOptions(t, func(o *Options) { o.DataDir = n.opts.DataDir })
			if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "recovery was interrupted") {
				t.Errorf("open: %v", err)
			}
			if r := n.recover(t, moved); r.Cluster != want {
				t.Errorf("%+v", r)
			}
			if begun, err := readID(n.opts.DataDir, recoveringFile); begun != "" || err != nil {
				t.Errorf("the mark is still there: %v", err)
			}
		})
	}
	back := n.again(t, nil)
	apply(t, back, "y")
}
