package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

// occupy sends a request that the provider holds, and waits until it runs.
func occupy(t *testing.T, up *upstream.Server, n *harness.Node, key string) {
	t.Helper()
	before := up.Count("m")
	up.Play(upstream.Match{Model: "m"}, upstream.Step{DelayMS: 60_000})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { _, _ = n.As(key).Chat(ctx, "m") }()
	eventually(t, 10*time.Second, "the request runs", func() bool { return up.Count("m") > before })
}

func TestSlotsOfADeadNodeAreFreeWithinFiveSeconds(t *testing.T) {
	for _, who := range []string{"a follower", "the leader"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			up := startUpstream(t)
			c := start(t, harness.Options{Nodes: 3, Config: config(time.Minute, model(up, "m", "rpm = 10000"))})
			one := int64(1)
			key := createKey(t, c.Nodes[0], harness.KeySpec{MaxParallel: &one}).Secret
			leader, err := c.Leader(within(t, 10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			dying := leader
			if who == "a follower" {
				dying = c.Others(leader)[0]
			}
			occupy(t, up, dying, key)
			other := c.Others(dying)[0]
			if r := chat(t, other, key, "m"); r.Status != http.StatusTooManyRequests {
				t.Fatalf("a second request at once: status %d", r.Status)
			}
			killed := time.Now()
			kill(t, dying)
			eventually(t, 15*time.Second, "the slot is free", func() bool { return chat(t, other, key, "m").Status == http.StatusOK })
			took := time.Since(killed)
			t.Logf("free %v after kill -9 of %s", took.Round(time.Millisecond), who)
			if took > 5*time.Second {
				t.Errorf("that took %v, want at most 5s", took)
			}
		})
	}
}

func TestSlotsOfANodeThatPausesForTwoSecondsAreKept(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	c := start(t, harness.Options{Nodes: 3, Config: config(time.Minute, model(up, "m", "rpm = 10000"))})
	one := int64(1)
	key := createKey(t, c.Nodes[0], harness.KeySpec{MaxParallel: &one}).Secret
	leader, err := c.Leader(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	slow := c.Others(leader)[0]
	occupy(t, up, slow, key)
	if err := slow.Pause(); err != nil {
		t.Fatal(err)
	}
	resume := time.AfterFunc(2*time.Second, func() { _ = slow.Resume() })
	defer resume.Stop()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if r := chat(t, leader, key, "m"); r.Status != http.StatusTooManyRequests {
			t.Fatalf("status %d while a request of a slow node runs", r.Status)
		}
	}
}
