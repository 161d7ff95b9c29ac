package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/examples/harness"
)

// ask posts to a cluster route and returns the status and the message.
func ask(t *testing.T, n *harness.Node, path, node string) (int, string) {
	t.Helper()
	r, err := n.Admin().Do(t.Context(), http.MethodPost, path, map[string]any{"node": node}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Status, r.ErrorMessage()
}

func TestMembershipThatCannotBeMeantIsRefusedInOneLine(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	c := start(t, harness.Options{Nodes: 1, Config: config(time.Minute, model(up, "m", "rpm = 100"))})
	only := c.Nodes[0]
	replica := add(t, c, "--voter=false")
	awaitMembers(t, only, 1, 1)
	for _, tt := range []struct {
		name, path, node string
		status           int
		says             string
	}{
		{"remove the last voter", "/cluster/remove", "n1", http.StatusConflict, "without a voting node"},
		{"remove a stranger", "/cluster/remove", "n9", http.StatusNotFound, "No such node"},
		{"leadership to a stranger", "/cluster/transfer", "n9", http.StatusNotFound, "No such node"},
		{"leadership to a replica", "/cluster/transfer", "n2", http.StatusConflict, "only go to another node with a vote"},
		{"leadership to anybody, with nobody there", "/cluster/transfer", "", http.StatusConflict, "only go to another node with a vote"},
	} {
		for _, through := range c.Nodes {
			status, says := ask(t, through, tt.path, tt.node)
			if status != tt.status || !strings.Contains(says, tt.says) || strings.Contains(says, "\n") {
				t.Errorf("%s through %s: %d %s", tt.name, through.ID, status, says)
			}
		}
	}
	awaitMembers(t, replica, 1, 1)
	if status, says := ask(t, only, "/cluster/remove", "n2"); status != http.StatusOK {
		t.Errorf("removing a replica: %d %s", status, says)
	}
	if code, err := replica.Wait(within(t, 10*time.Second)); err != nil || code != 1 {
		t.Errorf("the removed node ended with %d, %v", code, err)
	}
}

func TestRemovingALiveNodeBesideADeadOneIsRefused(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	c := start(t, harness.Options{Nodes: 3, Config: config(time.Minute, model(up, "m", "rpm = 100"))})
	kill(t, c.Nodes[2])
	eventually(t, 10*time.Second, "there is a leader", func() bool { _, _, l := membership(t.Context(), c.Nodes[0]); return l != "" })
	if status, says := ask(t, c.Nodes[0], "/cluster/remove", "n2"); status != http.StatusConflict || !strings.Contains(says, "no majority") {
		t.Errorf("the live one: %d %s", status, says)
	}
	createKey(t, c.Nodes[1], harness.KeySpec{})
	if status, says := ask(t, c.Nodes[0], "/cluster/remove", "n3"); status != http.StatusOK {
		t.Errorf("the dead one: %d %s", status, says)
	}
	awaitMembers(t, c.Nodes[1], 2, 0)
}

// refusedNode starts a node that must not get in, and waits for its reason.
func refusedNode(t *testing.T, n *harness.Node, says ...string) {
	t.Helper()
	if n.Running() {
		kill(t, n)
	}
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 15*time.Second, n.ID+" says: "+strings.Join(says, ", "), func() bool {
		for _, s := range says {
			if !strings.Contains(n.Log(), s) {
				return false
			}
		}
		return true
	})
	kill(t, n)
}

func TestNodesThatDoNotBelongHereAreToldWhyAndChangeNothing(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	text := config(time.Minute, model(up, "m", "rpm = 100"))
	c := start(t, harness.Options{Nodes: 1, Config: text})
	first := c.Nodes[0]
	key := createKey(t, first, harness.KeySpec{}).Secret

	t.Run("another secret", func(t *testing.T) {
		stranger, err := c.Add()
		if err != nil {
			t.Fatal(err)
		}
		kill(t, stranger)
		wipe(t, stranger)
		_, _ = ask(t, first, "/cluster/remove", stranger.ID) // it may have been quick
		stranger.SetEnv("SLUICE_CLUSTER_SECRET", "quite-another-secret-of-32-bytes")
		refusedNode(t, stranger, "cluster.secret")
		awaitMembers(t, first, 1, 0)
	})
	t.Run("state of another cluster", func(t *testing.T) {
		other := start(t, harness.Options{Nodes: 1, Config: text})
		foreign := other.Nodes[0]
		kept := createKey(t, foreign, harness.KeySpec{}).Secret
		kill(t, foreign)
		foreign.SetFlag("join", first.ClusterAddr)
		refusedNode(t, foreign, "another cluster answers at an address of this node's list")
		awaitMembers(t, first, 1, 0)
		foreign.DropFlag("join")
		restart(t, foreign)
		if r := chat(t, foreign, kept, "m"); r.Status != http.StatusOK {
			t.Errorf("its own key: status %d: %s", r.Status, r.Body)
		}
	})
	t.Run("one id at two addresses", func(t *testing.T) {
		second := add(t, c)
		awaitMembers(t, first, 2, 0)
		twin, err := c.Add("--node-id", second.ID)
		if err != nil {
			t.Fatal(err)
		}
		refusedNode(t, twin, second.ID, "give ")
		awaitMembers(t, first, 2, 0)
		if r := chat(t, second, key, "m"); r.Status != http.StatusOK {
			t.Errorf("the one that was there: status %d: %s", r.Status, r.Body)
		}
		if status, says := ask(t, first, "/cluster/remove", second.ID); status != http.StatusOK {
			t.Fatalf("%d %s", status, says)
		}
	})
	t.Run("another master key", func(t *testing.T) {
		odd, err := c.Add()
		if err != nil {
			t.Fatal(err)
		}
		kill(t, odd)
		const oddKey = "sk-some-other-master-key"
		odd.SetEnv("SLUICE_MASTER_KEY", oddKey)
		if err := odd.Start(); err != nil {
			t.Fatal(err)
		}
		for _, n := range []*harness.Node{odd, first} {
			eventually(t, 10*time.Second, n.ID+" warns", func() bool {
				return strings.Contains(n.Log(), "setting=gateway.master_key")
			})
			if strings.Contains(n.Log(), oddKey) || strings.Contains(n.Log(), harness.DefaultMasterKey) {
				t.Errorf("a master key is in the log of %s", n.ID)
			}
		}
	})
}

func TestASecondProcessOnADataDirectoryEndsAtOnce(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	c := start(t, harness.Options{Nodes: 1, Config: config(time.Minute, model(up, "m", "rpm = 100"))})
	second, err := c.Add()
	if err != nil {
		t.Fatal(err)
	}
	kill(t, second)
	second.DropFlag("join")
	second.SetFlag("data-dir", c.Nodes[0].DataDir)
	second.SetFlag("node-id", c.Nodes[0].ID)
	before, err := os.ReadFile(filepath.Join(c.Nodes[0].DataDir, "node-id"))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	code, err := second.Wait(within(t, 10*time.Second))
	if took := time.Since(began); err != nil || code != 1 || took > 2*time.Second {
		t.Errorf("it ended with %d, %v after %v", code, err, took)
	}
	if last := second.LogTail(1); !strings.HasPrefix(last, "sluice: ") || !strings.Contains(last, "in use by another process") {
		t.Errorf("its last words: %s", last)
	}
	if after, err := os.ReadFile(filepath.Join(c.Nodes[0].DataDir, "node-id")); err != nil || string(after) != string(before) {
		t.Errorf("the id is now %s, %v", after, err)
	}
	createKey(t, c.Nodes[0], harness.KeySpec{})
}
