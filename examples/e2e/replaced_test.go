package e2e

import (
	"strings"
	"testing"
	"time"

	"sluice/examples/harness"
)

// A node that fell silent was started anew elsewhere, under its id and with an
// empty directory; then the first one wakes up. It must not be taken for the
// member that it was, whose votes and entries are the new one's now.
func TestANodeThatWasReplacedWhileItHungEndsWhenItWakes(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	c := start(t, harness.Options{Nodes: 3, Config: config(time.Minute, model(up, "m", "rpm = 100"))})
	leader, err := c.Leader(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	old := c.Others(leader)[0]
	if err := old.Pause(); err != nil {
		t.Fatal(err)
	}
	next := add(t, c, "--node-id", old.ID)
	listed := func() bool {
		s, err := leader.Admin().Get(t.Context(), "/cluster/status")
		return err == nil && strings.Contains(string(s.Body), next.ClusterAddr) && !strings.Contains(string(s.Body), old.ClusterAddr)
	}
	eventually(t, 15*time.Second, "the new one has the old one's vote", func() bool {
		voters, _, _ := membership(t.Context(), leader)
		return listed() && len(voters) == 3
	})
	if err := old.Resume(); err != nil {
		t.Fatal(err)
	}
	if code, err := old.Wait(within(t, 20*time.Second)); err != nil || code != 1 {
		t.Fatalf("the old one ended with %d, %v", code, err)
	}
	if last := old.LogTail(1); !strings.HasPrefix(last, "sluice: ") || !strings.Contains(last, "runs at "+next.ClusterAddr+" already") {
		t.Errorf("its last words: %s", last)
	}
	if !listed() || !next.Running() {
		t.Error("the new one is not the member any more")
	}
	key := createKey(t, next, harness.KeySpec{}).Secret
	for _, n := range c.Running() {
		if r := chat(t, n, key, "m"); r.Status != 200 {
			t.Errorf("%s: status %d: %s", n.ID, r.Status, r.Body)
		}
	}
}
