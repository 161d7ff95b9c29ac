package e2e

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"sluice/examples/harness"
)

func TestRestartOfAllNodesKeepsKeysAndTheRunningWindow(t *testing.T) {
	for _, tt := range []struct {
		name string
		stop func(*testing.T, *harness.Node)
	}{
		{"SIGTERM", terminate},
		{"SIGKILL", kill},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const limit = 20
			const window = 15 * time.Second
			up := startUpstream(t)
			c := start(t, harness.Options{Nodes: 3, Config: config(window, model(up, "m", "rpm = 20"))})
			key := createKey(t, c.Nodes[0], harness.KeySpec{}).Secret

			opening := time.Now()
			for i := range limit {
				if r := chat(t, c.Nodes[i%3], key, "m"); r.Status != http.StatusOK {
					t.Fatalf("request %d: status %d: %s", i, r.Status, r.Body)
				}
			}
			if r := chat(t, c.Nodes[0], key, "m"); r.Status != http.StatusTooManyRequests {
				t.Fatalf("over the limit: status %d", r.Status)
			}
			for _, n := range c.Nodes {
				tt.stop(t, n)
			}
			if err := c.Restart(t.Context(), 20*time.Second); err != nil {
				t.Fatal(err)
			}
			t.Logf("all nodes back %s after the window opened", time.Since(opening).Round(time.Millisecond))

			admitted := refusedUntilAdmitted(t, c, key)
			if early := window - admitted.Sub(opening); early > 0 {
				t.Errorf("admitted %s before the window's end", early)
			}
			if late := admitted.Sub(opening) - window; late > 3*time.Second {
				t.Errorf("admitted %s after the window's end", late)
			}
		})
	}
}

// refusedUntilAdmitted asks all nodes in turn until one admits the request, and
// returns when it had answered. Every refusal must tell when the window ends.
func refusedUntilAdmitted(t *testing.T, c *harness.Cluster, key string) time.Time {
	t.Helper()
	var promised time.Time // the earliest moment that a retry-after named
	refusals := 0
	for i := 0; ; i++ {
		asked := time.Now()
		r := chat(t, c.Nodes[i%3], key, "m")
		switch r.Status {
		case http.StatusTooManyRequests:
			refusals++
			s, err := strconv.Atoi(r.Header.Get("Retry-After"))
			if err != nil || s < 1 {
				t.Fatalf("retry-after %q", r.Header.Get("Retry-After"))
			}
			at := asked.Add(time.Duration(s) * time.Second)
			if promised.IsZero() || at.Before(promised) {
				promised = at
			}
			time.Sleep(50 * time.Millisecond)
		case http.StatusOK:
			if refusals == 0 {
				t.Fatal("the window did not survive: nothing was refused after the restart")
			}
			if off := promised.Sub(asked); off > 1200*time.Millisecond || off < -1200*time.Millisecond {
				t.Errorf("admitted %s away from the retry-after", off)
			}
			return time.Now()
		default:
			t.Fatalf("status %d: %s", r.Status, r.Body)
		}
		if i > 1000 {
			t.Fatal("the window never ends")
		}
	}
}

func terminate(t *testing.T, n *harness.Node) {
	t.Helper()
	if err := n.Terminate(); err != nil {
		t.Fatal(err)
	}
	if code, err := n.Wait(within(t, 20*time.Second)); err != nil || code != 0 {
		t.Fatalf("%s ended with %d, %v", n.ID, code, err)
	}
}

func kill(t *testing.T, n *harness.Node) {
	t.Helper()
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
}
