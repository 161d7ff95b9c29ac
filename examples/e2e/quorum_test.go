package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/examples/harness"
)

func TestWithoutALeaderKnownKeysGoOnAndWritesSayWhyNot(t *testing.T) {
	for _, mode := range []string{"deny", "allow", "share"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			up := startUpstream(t)
			c := start(t, harness.Options{Nodes: 3, Config: config(time.Minute, model(up, "m", "rpm = 30")+
				"\n[limits]\non_no_quorum = \""+mode+"\"\n")})
			key := createKey(t, c.Nodes[0], harness.KeySpec{}).Secret
			for _, n := range c.Nodes {
				if r := chat(t, n, key, "m"); r.Status != http.StatusOK {
					t.Fatalf("with all nodes: status %d: %s", r.Status, r.Body)
				}
			}
			last := c.Nodes[0]
			eventually(t, 5*time.Second, "the last node knows of all three", func() bool {
				l, err := last.Admin().Limits(t.Context(), "m")
				return err == nil && l.RPM.Used == 3
			})
			for _, n := range c.Others(last) {
				kill(t, n)
			}
			eventually(t, 10*time.Second, "the last node notices", func() bool {
				s, err := last.Admin().Status(t.Context())
				return err == nil && s.Leader == nil
			})
			aloneReadiness(t, last, mode) // before anybody has asked
			aloneDataPlane(t, last, key, mode)
			aloneManagement(t, last)
			aloneReadiness(t, last, mode)

			if err := c.Restart(t.Context(), 20*time.Second); err != nil {
				t.Fatal(err)
			}
			eventually(t, 10*time.Second, "writes and exact admissions again", func() bool {
				_, err := last.Admin().CreateKey(t.Context(), harness.KeySpec{})
				r := chat(t, last, key, "m")
				return err == nil && r.Header.Get("X-Sluice-Limits") == "exact"
			})
		})
	}
}

func aloneDataPlane(t *testing.T, n *harness.Node, key, mode string) {
	t.Helper()
	if r, err := n.As(key).Get(t.Context(), "/v1/models"); err != nil || r.Status != http.StatusOK {
		t.Errorf("a known key lists models: %v %v", r, err)
	}
	r := chat(t, n, key, "m")
	switch mode {
	case "deny":
		if r.Status != http.StatusServiceUnavailable || r.LimitedBy() != "quorum" || r.ErrorMessage() == "" {
			t.Errorf("deny: status %d, limited by %q: %s", r.Status, r.LimitedBy(), r.Body)
		}
	case "allow", "share":
		if r.Status != http.StatusOK || r.Header.Get("X-Sluice-Limits") != mode {
			t.Errorf("%s: status %d, limits %q: %s", mode, r.Status, r.Header.Get("X-Sluice-Limits"), r.Body)
		}
		// Three of 30 are used. With allow the node has all that is left, with
		// share a third of it.
		served := 1
		for range 40 {
			if r = chat(t, n, key, "m"); r.Status == http.StatusOK {
				served++
			}
		}
		if want := map[string]int{"allow": 27, "share": 9}[mode]; served != want || r.Status != http.StatusTooManyRequests {
			t.Errorf("%s: %d served, want %d; then %d: %s", mode, served, want, r.Status, r.Body)
		}
	}
	// Nobody can say whether a key it never saw exists.
	if r := chat(t, n, "sk-never-seen-before", "m"); r.Status != http.StatusServiceUnavailable {
		t.Errorf("an unknown key without a leader: status %d: %s", r.Status, r.Body)
	}
}

func aloneManagement(t *testing.T, n *harness.Node) {
	t.Helper()
	began := time.Now()
	r, err := n.Admin().Do(t.Context(), http.MethodPost, "/key/generate", map[string]any{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ToLower(r.ErrorMessage())
	if r.Status != http.StatusServiceUnavailable || !strings.Contains(text, "leader") && !strings.Contains(text, "quorum") {
		t.Errorf("a management write: status %d: %s", r.Status, r.Body)
	}
	if took := time.Since(began); took > 12*time.Second {
		t.Errorf("the refusal took %s", took)
	}
	if r, err := n.Admin().Get(t.Context(), "/key/list"); err != nil || r.Status != http.StatusOK {
		t.Errorf("a management read: %v %v", r, err)
	}
}

func aloneReadiness(t *testing.T, n *harness.Node, mode string) {
	t.Helper()
	r, err := n.Admin().Get(t.Context(), "/health/readiness")
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		Degraded bool
		Limits   string
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Errorf("readiness is no JSON: %s", r.Body)
	}
	switch mode {
	case "deny":
		if r.Status != http.StatusServiceUnavailable {
			t.Errorf("readiness in deny: %d %s", r.Status, r.Body)
		}
	case "allow", "share":
		if r.Status != http.StatusOK || !body.Degraded || body.Limits != mode {
			t.Errorf("readiness in %s: %d %s", mode, r.Status, r.Body)
		}
	}
}
