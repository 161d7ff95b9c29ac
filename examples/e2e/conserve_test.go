package e2e

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/examples/harness"
)

func TestWorkConservingAllocationOverThreeNodes(t *testing.T) {
	t.Parallel()
	c := start(t, harness.Options{Nodes: 3, Config: config(5*time.Minute, mockModel("lone")+"rpm = 100\n"+mockModel("both")+"rpm = 100\n"+`
[priority_reservation]
a = 0.75
b = 0.25

[limits]
allocation    = "work_conserving"
hold_back     = 0.1
active_window = "5m"
`)})
	keys := map[string]string{}
	for _, p := range []string{"a", "b"} {
		keys[p] = createKey(t, c.Nodes[0], harness.KeySpec{Priority: p}).Secret
	}
	send := func(n int, priority, model string) int64 {
		return flood(t, n, 8, model, func(i int) (*harness.Node, string) { return c.Nodes[i%3], keys[priority] })
	}
	// all sends until everything that lay on some node as a permit has come back.
	all := func(priority, model string) (served int64) {
		for {
			n := send(200, priority, model)
			if served += n; n == 0 {
				return served
			}
			time.Sleep(700 * time.Millisecond)
		}
	}
	if n := all("b", "lone"); n != 90 {
		t.Errorf("a lone priority was served %d of 100, want all but the 10 that are held back", n)
	}
	// Both are active from the window's start; then the smaller one comes first.
	got := map[string]int64{"a": send(1, "a", "both"), "b": send(1, "b", "both")}
	for _, p := range []string{"b", "a"} {
		got[p] += all(p, "both")
	}
	if want := map[string]int64{"a": 75, "b": 25}; !maps.Equal(got, want) {
		t.Errorf("served %v, want %v", got, want)
	}
	r := chat(t, c.Nodes[2], keys["a"], "both")
	told := r.Header.Get("X-Sluice-Explain")
	_, path, found := strings.Cut(told, "; see=")
	if r.Status != http.StatusTooManyRequests || !found || !strings.HasPrefix(told, "model requests; used=100; limit=100; fits-in=") {
		t.Fatalf("status %d, x-sluice-explain: %q", r.Status, told)
	}
	r, err := c.Nodes[0].Admin().Get(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"admitted":false,"limited_by":"model","scope":"model","dimension":"requests"`,
		`"priority":"a","share":0.75,"rpm":{"limit":75,"used":75}`, `"floor_rpm":25,"floor_tpm":null,"active":true`} {
		if !strings.Contains(string(r.Body), want) {
			t.Errorf("%s says nothing of %s: %s", path, want, r.Body)
		}
	}
	l, err := c.Nodes[1].Admin().Limits(t.Context(), "both")
	if err != nil || l.Mode != "work_conserving" {
		t.Errorf("the mode is shown as %q (%v)", l.Mode, err)
	}
}
