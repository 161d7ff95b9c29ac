package node

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestASecondNodeOfAnIDPushesNoMemberOut(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	leader := waitLeader(t, nodes...)
	victim := others(nodes, leader)[0]
	for name, dir := range map[string]string{"a copied configuration": t.TempDir(), "a copied data directory": copyOfIDs(t, victim)} {
		// It knows the leader only, so that nobody but the leader can notice.
		twin := openNode(t, func(o *Options) { o.ID, o.DataDir, o.Join = victim.ID(), dir, []string{leader.Addr()} })
		eventually(t, 15*time.Second, name+": the twin is told why it is refused", func() bool {
			return strings.Contains(twin.logs.String(), "runs at "+victim.Addr()+" already")
		})
		twin.close(t)
		if s, ok := leader.member(victim.ID()); !ok || string(s.Address) != victim.Addr() {
			t.Fatalf("%s: the member is now %+v", name, s)
		}
		apply(t, victim, name)
		waitApplied(t, name, nodes...)
	}
}

// copyOfIDs returns a directory with the ids of n and no log.
func copyOfIDs(t *testing.T, n *testNode) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{nodeIDFile, clusterIDFile} {
		id, err := readID(n.opts.DataDir, name)
		if err == nil {
			err = writeID(dir, name, id)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestMemberWarnsOfAnotherClusterInItsJoinList(t *testing.T) {
	t.Parallel()
	other := openNode(t, func(o *Options) { o.ID = "other" })
	waitLeader(t, other)
	dir := t.TempDir()
	alone := openNode(t, func(o *Options) { o.ID, o.DataDir = "alone", dir })
	waitLeader(t, alone)
	alone.close(t)
	alone = alone.again(t, func(o *Options) { o.Join, o.BootstrapExpect = []string{other.Addr()}, 0 })
	waitLeader(t, alone)
	eventually(t, 5*time.Second, "a warning with both clusters", func() bool {
		log := alone.logs.String()
		return strings.Contains(log, "another cluster answers") && strings.Contains(log, other.clusterID()) && strings.Contains(log, alone.clusterID())
	})
}

// Two clusters often name their nodes alike.
func TestMemberWarnsOfAnotherClusterWhoseNodeHasItsName(t *testing.T) {
	t.Parallel()
	other := openNode(t, func(o *Options) { o.ID = "n1" })
	waitLeader(t, other)
	alone := openNode(t, func(o *Options) { o.ID, o.DataDir = "n1", t.TempDir() })
	waitLeader(t, alone)
	alone.close(t)
	alone = alone.again(t, func(o *Options) { o.Join, o.BootstrapExpect = []string{other.Addr()}, 0 })
	eventually(t, 5*time.Second, "a warning", func() bool {
		return strings.Contains(alone.logs.String(), "another cluster answers")
	})
}

// What a twin says of itself must not lead the member's entries and votes to it.
func TestATwinIsNotTakenForTheMember(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	leader := waitLeader(t, nodes...)
	rest := others(nodes, leader)
	twin := rest[0].card()
	twin.Address, twin.Run = freeAddrs(t, 1)[0], "another"
	body, err := json.Marshal(twin)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []*testNode{leader, rest[1]} {
		if _, err := n.serveHello(t.Context(), body, false); !errors.Is(err, ErrReplaced) {
			t.Errorf("%s answers the twin: %v", n.ID(), err)
		}
		if addr, _ := n.book.lookup(twin.ID); addr != rest[0].Addr() {
			t.Errorf("%s dials %s for the member", n.ID(), addr)
		}
	}
	rest[0].close(t) // then it has moved
	if _, err := leader.serveHello(t.Context(), body, false); err != nil {
		t.Errorf("the member that moved: %v", err)
	}
	if addr, _ := leader.book.lookup(twin.ID); addr != twin.Address {
		t.Errorf("the leader dials %s for a member that moved to %s", addr, twin.Address)
	}
}

func TestTheBookBelievesTheNewerOfHearsayAndConfiguration(t *testing.T) {
	conf := map[string]string{"a": "old:1"}
	b := &addressBook{heard: map[string]whereabouts{}, configured: func(id string) (string, bool) { addr, ok := conf[id]; return addr, ok }}
	want := func(when, addr string) {
		t.Helper()
		if got, _ := b.lookup("a"); got != addr {
			t.Errorf("%s: %q, want %q", when, got, addr)
		}
	}
	want("nothing heard", "old:1")
	b.hear("a", "moved:1")
	want("heard of elsewhere", "moved:1")
	conf["a"] = "new:1"
	want("configured anew since", "new:1")
	b.hear("a", "moved:2")
	want("heard of after that", "moved:2")
	b.forget("a")
	want("it did not answer there", "new:1")
	delete(conf, "a")
	b.hear("a", "moved:3")
	want("not configured", "moved:3")
}
