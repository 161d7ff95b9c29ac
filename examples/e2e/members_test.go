package e2e

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/examples/harness"
)

// membership returns who votes and who does not, as n sees its cluster.
func membership(ctx context.Context, n *harness.Node) (voters, replicas map[string]bool, leader string) {
	voters, replicas = map[string]bool{}, map[string]bool{}
	s, err := n.Admin().Status(ctx)
	if err != nil {
		return voters, replicas, ""
	}
	for _, m := range s.Nodes {
		if m.Voter {
			voters[m.ID] = m.Reachable
		} else {
			replicas[m.ID] = m.Reachable
		}
		if m.Leader {
			leader = m.ID
		}
	}
	return voters, replicas, leader
}

func awaitMembers(t *testing.T, n *harness.Node, voters, replicas int) {
	t.Helper()
	eventually(t, 15*time.Second, n.ID+" sees the expected voters and replicas", func() bool {
		v, r, leader := membership(t.Context(), n)
		return len(v) == voters && len(r) == replicas && leader != ""
	})
}

func add(t *testing.T, c *harness.Cluster, flags ...string) *harness.Node {
	t.Helper()
	n, err := c.Add(flags...)
	if err == nil {
		err = n.Ready(within(t, 20*time.Second))
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func restart(t *testing.T, n *harness.Node) {
	t.Helper()
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.Ready(within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
}

func wipe(t *testing.T, n *harness.Node) {
	t.Helper()
	if err := os.RemoveAll(n.DataDir); err != nil {
		t.Fatal(err)
	}
}

func TestReplicasServeExactLimitsAndNeverLead(t *testing.T) {
	t.Parallel()
	const limit = 40
	up := startUpstream(t)
	c := start(t, harness.Options{Nodes: 3, Config: config(time.Minute, model(up, "m", "rpm = 40"))})
	add(t, c, "--voter=false")
	add(t, c, "--voter=false")
	awaitMembers(t, c.Nodes[0], 3, 2)
	key := createKey(t, c.Nodes[4], harness.KeySpec{}).Secret // a replica takes writes too
	served := 0
	for i := range 3 * limit {
		switch r := chat(t, c.Nodes[(i+3)%5], key, "m"); r.Status {
		case http.StatusOK:
			served++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("status %d: %s", r.Status, r.Body)
		}
	}
	if served != limit || up.Count("m") != limit {
		t.Errorf("served %d, executed %d, the limit is %d", served, up.Count("m"), limit)
	}

	// Whoever leads next is a voter.
	leader, err := c.Leader(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for _, replica := range c.Nodes[3:] {
		if r, err := leader.Admin().Do(t.Context(), http.MethodPost, "/cluster/transfer", map[string]any{"node": replica.ID}, nil); err != nil || r.Status != http.StatusConflict {
			t.Errorf("leadership to a replica: %v %v", r, err)
		}
	}
	kill(t, leader)
	next, err := c.Leader(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if next == c.Nodes[3] || next == c.Nodes[4] {
		t.Errorf("%s leads without a vote", next.ID)
	}
	restart(t, leader)

	// The setting decides, at each start.
	replica := c.Nodes[3]
	terminate(t, replica)
	replica.DropFlag("voter=false")
	replica.SetFlag("voter", "true")
	restart(t, replica)
	awaitMembers(t, c.Nodes[4], 4, 1)
	terminate(t, replica)
	replica.SetFlag("voter", "false")
	restart(t, replica)
	awaitMembers(t, c.Nodes[4], 3, 2)
}

func TestTwoOfThreeAreLostAndTheThirdIsRecovered(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	c := start(t, harness.Options{Nodes: 3, Config: config(time.Minute, model(up, "m", "rpm = 100"))})
	var keys []string
	for i := range 30 {
		keys = append(keys, createKey(t, c.Nodes[i%3], harness.KeySpec{}).Secret)
	}
	last, lost := c.Nodes[2], c.Nodes[:2]
	recover := func(n *harness.Node, peers string) (string, error) {
		return n.Command(t.Context(), "recover", "--data-dir", n.DataDir, "--peers", peers)
	}
	alone := "n3=" + last.ClusterAddr
	if _, err := recover(last, alone); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("recovering a running node: %v", err)
	}
	eventually(t, 10*time.Second, "the last node has all keys", func() bool {
		r, err := last.As(keys[29]).Get(t.Context(), "/v1/models")
		return err == nil && r.Status == http.StatusOK
	})
	for _, n := range c.Nodes {
		kill(t, n)
	}
	if _, err := recover(last, "n9=127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "n9 was no member") {
		t.Errorf("recovering with a stranger: %v", err)
	}
	out, err := recover(last, alone)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"members were n1=", "are now " + alone, "30 keys", "delete the data directory"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q: %s", want, out)
		}
	}
	if out, err := recover(last, alone); err != nil || !strings.Contains(out, "Nothing to do") {
		t.Errorf("twice: %s %v", out, err)
	}
	restart(t, last)
	for i, key := range keys {
		if r := chat(t, last, key, "m"); r.Status != http.StatusOK {
			t.Fatalf("key %d: status %d: %s", i, r.Status, r.Body)
		}
	}

	// A lost one comes back with its data: it can do no harm, and says what to do.
	if err := lost[0].Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the returned one is told", func() bool {
		return strings.Contains(lost[0].Log(), "another cluster answers at an address of this node's list")
	})
	kill(t, lost[0])
	for _, n := range lost {
		wipe(t, n)
		restart(t, n)
	}
	awaitMembers(t, last, 3, 0)
	for _, n := range lost {
		if r := chat(t, n, keys[0], "m"); r.Status != http.StatusOK {
			t.Errorf("%s: status %d: %s", n.ID, r.Status, r.Body)
		}
	}
	kill(t, last)
	createKey(t, lost[0], harness.KeySpec{})
}

func TestAllNodesMoveToNewAddresses(t *testing.T) {
	for _, how := range []string{"by their join lists", "recovered"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			up := startUpstream(t)
			c := start(t, harness.Options{Nodes: 3, Config: config(time.Minute, model(up, "m", "rpm = 100"))})
			key := createKey(t, c.Nodes[0], harness.KeySpec{}).Secret
			for _, n := range c.Nodes {
				chat(t, n, key, "m")
				kill(t, n)
			}
			addrs, err := c.Addresses(3)
			if err != nil {
				t.Fatal(err)
			}
			var peers []string
			for i, n := range c.Nodes {
				n.SetFlag("cluster-listen", addrs[i])
				n.SetFlag("join", strings.Join(addrs, ","))
				peers = append(peers, n.ID+"="+addrs[i])
			}
			if how == "recovered" {
				for _, n := range c.Nodes {
					n.DropFlag("join") // so that nobody would find anybody
					n.DropFlag("bootstrap-expect")
					if out, err := n.Command(t.Context(), "recover", "--data-dir", n.DataDir, "--peers", strings.Join(peers, ",")); err != nil {
						t.Fatalf("%s %v", out, err)
					}
				}
			}
			if err := c.Restart(t.Context(), 20*time.Second); err != nil {
				t.Fatal(err)
			}
			awaitMembers(t, c.Nodes[0], 3, 0)
			for _, n := range c.Nodes {
				if r := chat(t, n, key, "m"); r.Status != http.StatusOK {
					t.Errorf("%s: status %d: %s", n.ID, r.Status, r.Body)
				}
			}
		})
	}
}

func TestANodeMovesAndAWipedOneComesBackUnderItsName(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	c := start(t, harness.Options{Nodes: 3, Config: config(time.Minute, model(up, "m", "rpm = 100"))})
	key := createKey(t, c.Nodes[0], harness.KeySpec{}).Secret
	addrs, err := c.Addresses(1)
	if err != nil {
		t.Fatal(err)
	}
	moved := c.Nodes[1]
	terminate(t, moved)
	moved.SetFlag("cluster-listen", addrs[0])
	restart(t, moved)
	eventually(t, 10*time.Second, "the others know the new address", func() bool {
		r, err := c.Nodes[0].Admin().Get(t.Context(), "/cluster/status")
		return err == nil && strings.Contains(string(r.Body), addrs[0]) && strings.Count(string(r.Body), `"reachable":true`) == 3
	})
	wiped := c.Nodes[2]
	kill(t, wiped)
	wipe(t, wiped)
	restart(t, wiped)
	awaitMembers(t, c.Nodes[0], 3, 0)
	for _, n := range c.Nodes {
		if r := chat(t, n, key, "m"); r.Status != http.StatusOK {
			t.Errorf("%s: status %d: %s", n.ID, r.Status, r.Body)
		}
	}
}
