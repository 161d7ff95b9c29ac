package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/examples/harness"
	"sluice/fsm"
)

// A backup is taken while requests run, and restored into a cluster of other
// nodes, with another master key and another cluster secret.
func TestABackupTakenUnderLoadIsRestoredIntoAFreshCluster(t *testing.T) {
	t.Parallel()
	const window = 20 * time.Second
	up := startUpstream(t)
	file := config(window, model(up, "m", "rpm = 1000")+model(up, "small", "rpm = 8")+mockModel("free"))
	old := start(t, harness.Options{Nodes: 3, Config: file})
	keys := populate(t, old)
	second := file + "\n[aliases]\nquick = \"free\"\n"
	if err := old.Nodes[1].ApplyConfig(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	opened := time.Now()
	for i := range 5 {
		if r := chat(t, old.Nodes[i%3], keys[0].Secret, "small"); r.Status != http.StatusOK {
			t.Fatalf("request %d: status %d: %s", i, r.Status, r.Body)
		}
	}
	path := backupUnderLoad(t, old, keys)
	noSecretIn(t, path, keys)

	other := harness.Options{Nodes: 3, MasterKey: "sk-another-master-key", ClusterSecret: "another-cluster-secret-of-32-bytes", IDPrefix: "other",
		Config: config(window, mockModel("somewhere-else"))}
	c := start(t, other)
	for _, n := range c.Nodes[:2] {
		if r := chat(t, n, "sk-another-master-key", "somewhere-else"); r.Status != http.StatusOK {
			t.Fatalf("the fresh cluster: status %d: %s", r.Status, r.Body)
		}
	}
	out, err := follower(t, c).Command(t.Context(), "admin", "restore", path)
	if err != nil || !strings.HasPrefix(out, "Restored 13 keys, 1 teams and configuration version 2") {
		t.Fatalf("%q, %v", out, err)
	}
	wantWindow(t, c, keys[0], opened, window)
	wantSameState(t, c)
	wantKeys(t, c, keys)
	if _, err := c.Nodes[0].Command(t.Context(), "admin", "restore", path); err == nil || !strings.Contains(err.Error(), "fresh cluster") {
		t.Errorf("a second time: %v", err)
	}

	t.Run("all nodes killed and started again", func(t *testing.T) {
		restartAll(t, c, kill)
		wantSameState(t, c)
		wantKeys(t, c, keys)
	})
	t.Run("all nodes stopped and started again", func(t *testing.T) {
		restartAll(t, c, terminate)
		wantSameState(t, c)
		wantKeys(t, c, keys)
	})
	t.Run("a new node joins", func(t *testing.T) {
		if err := c.Grow(t.Context(), other, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		wantSameState(t, c)
		wantKeys(t, c, keys)
	})
	// The file of the fresh cluster, which every node has started with again,
	// must not have come back.
	if r := chat(t, c.Nodes[3], keys[0].Secret, "somewhere-else"); r.Status == http.StatusOK {
		t.Error("a restarted node's file has replaced the restored configuration")
	}
}

// populate makes a team and thirteen keys, the first of which has no limits of
// its own and the others one request a window.
func populate(t *testing.T, c *harness.Cluster) []harness.Key {
	t.Helper()
	team, err := c.Nodes[0].Admin().CreateTeam(t.Context(), harness.TeamSpec{Alias: "red"})
	if err != nil {
		t.Fatal(err)
	}
	one := int64(1)
	keys := []harness.Key{createKey(t, c.Nodes[0], harness.KeySpec{Alias: "free"})}
	for i := range 12 {
		keys = append(keys, createKey(t, c.Nodes[i%3], harness.KeySpec{Alias: fmt.Sprintf("k%d", i), TeamID: team, RPM: &one}))
	}
	return keys
}

// backupUnderLoad takes backups from every node while requests run, and returns
// the last. No request may be held up for long.
func backupUnderLoad(t *testing.T, c *harness.Cluster, keys []harness.Key) string {
	t.Helper()
	var stop atomic.Bool
	var slowest, served atomic.Int64
	var load sync.WaitGroup
	for i := range 6 {
		load.Go(func() {
			for !stop.Load() {
				began := time.Now()
				r, err := c.Nodes[i%3].As(keys[0].Secret).Chat(t.Context(), "free")
				if err != nil || r.Status != http.StatusOK {
					t.Errorf("during the backup: %v, %v", r, err)
					return
				}
				served.Add(1)
				if took := int64(time.Since(began)); took > slowest.Load() {
					slowest.Store(took)
				}
			}
		})
	}
	path := filepath.Join(t.TempDir(), "cluster.backup")
	for _, n := range c.Nodes {
		out, err := n.Command(t.Context(), "admin", "backup", path)
		if err != nil || !strings.Contains(out, ": 13 keys, 1 teams, configuration version 2, ") || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: %q, %v", n.ID, out, err)
		}
	}
	stop.Store(true)
	load.Wait()
	if s := time.Duration(slowest.Load()); served.Load() == 0 || s > 3*time.Second {
		t.Errorf("%d requests were served, the slowest in %s", served.Load(), s)
	}
	return path
}

func noSecretIn(t *testing.T, path string, keys []harness.Key) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{harness.DefaultMasterKey, harness.DefaultClusterSecret, providerKey}
	for _, k := range keys {
		secrets = append(secrets, k.Secret)
	}
	for _, s := range secrets {
		if bytes.Contains(b, []byte(s)) {
			t.Errorf("the backup holds the secret %s", s)
		}
	}
}

func follower(t *testing.T, c *harness.Cluster) *harness.Node {
	t.Helper()
	leader, err := c.Leader(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return c.Others(leader)[0]
}

// wantWindow makes sure that the running window of model small came along: five
// of its eight requests were used.
func wantWindow(t *testing.T, c *harness.Cluster, key harness.Key, opened time.Time, window time.Duration) {
	t.Helper()
	if time.Since(opened) > window*3/4 {
		t.Logf("the machine is slow: %s have passed, so the window cannot be judged", time.Since(opened))
		return
	}
	admitted := 0
	for i := range 8 {
		if r := chat(t, c.Nodes[i%3], key.Secret, "small"); r.Status == http.StatusOK {
			admitted++
		}
	}
	if took := time.Since(opened); took < window && admitted != 3 {
		t.Errorf("%d requests were admitted %s after the window opened in the old cluster, want 3", admitted, took)
	}
	l, err := c.Nodes[0].Admin().Limits(t.Context(), "small")
	if err != nil {
		t.Fatal(err)
	}
	if l.ResetsAt != nil && l.ResetsAt.Sub(opened.Add(window)) > time.Second {
		t.Errorf("the window ends %s after it would have", l.ResetsAt.Sub(opened.Add(window)))
	}
}

// wantSameState compares the nodes' states byte for byte: the checksum of a
// backup is that of the whole state as of an index.
func wantSameState(t *testing.T, c *harness.Cluster) {
	t.Helper()
	eventually(t, 20*time.Second, "the same state on all nodes", func() bool {
		states := map[string]bool{}
		for _, n := range c.Nodes {
			r, err := n.Admin().Get(t.Context(), "/cluster/backup")
			if err != nil || r.Status != http.StatusOK {
				return false
			}
			info, err := fsm.VerifyBackup(bytes.NewReader(r.Body))
			if err != nil {
				t.Fatalf("%s: %v", n.ID, err)
			}
			states[fmt.Sprint(info.AppliedIndex, " ", info.SHA256)] = true
		}
		return len(states) == 1
	})
}

// wantKeys uses every key on every node: the first has no limit, the others
// have at most one request in a window over all nodes.
func wantKeys(t *testing.T, c *harness.Cluster, keys []harness.Key) {
	t.Helper()
	for i, k := range keys {
		admitted := 0
		for _, n := range c.Nodes {
			switch r := chat(t, n, k.Secret, "free"); r.Status {
			case http.StatusOK:
				admitted++
			case http.StatusTooManyRequests:
				if r.LimitedBy() != "key" {
					t.Errorf("key %d on %s is limited by %s", i, n.ID, r.LimitedBy())
				}
			default:
				t.Errorf("key %d on %s: status %d: %s", i, n.ID, r.Status, r.Body)
			}
		}
		if i == 0 && admitted != len(c.Nodes) || i > 0 && admitted > 1 {
			t.Errorf("key %d: %d requests were admitted", i, admitted)
		}
	}
}

func restartAll(t *testing.T, c *harness.Cluster, stop func(*testing.T, *harness.Node)) {
	t.Helper()
	for _, n := range c.Nodes {
		stop(t, n)
	}
	if err := c.Restart(t.Context(), 30*time.Second); err != nil {
		t.Fatal(err)
	}
}
