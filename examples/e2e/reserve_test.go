package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/examples/harness"
)

func TestReservedTokensMakeTheLimitHardOverThreeNodes(t *testing.T) {
	t.Parallel()
	c := start(t, harness.Options{Nodes: 3, Config: config(5*time.Minute, mockModel("m")+"tpm = 110\nmock_latency = \"500ms\"\n"+`
[limits]
token_accounting = "reserve"
`)})
	key := createKey(t, c.Nodes[0], harness.KeySpec{}).Secret
	ask := func(n *harness.Node, most int) *harness.Reply {
		r, err := n.As(key).Do(t.Context(), http.MethodPost, "/v1/chat/completions",
			fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"Hello world!"}],"max_tokens":%d}`, most), nil)
		if err != nil {
			t.Fatalf("chat on %s: %v", n.ID, err)
		}
		return r
	}
	if r := ask(c.Nodes[1], 1000); r.Status != http.StatusBadRequest || !strings.Contains(r.ErrorMessage(), "the limit of model m is 110 tokens per window") {
		t.Errorf("a request beyond the whole limit: status %d, %q", r.Status, r.ErrorMessage())
	}

	// All at once: with about 34 tokens each no more than three are ever let in,
	// although none of them has used anything yet.
	var served, refused atomic.Int64
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			switch r := ask(c.Nodes[i%3], 20); {
			case r.Status == http.StatusOK:
				served.Add(1)
			case r.Status == http.StatusTooManyRequests && r.LimitedBy() == "model":
				refused.Add(1)
			default:
				t.Errorf("status %d: %s", r.Status, r.Body)
			}
		})
	}
	wg.Wait()
	if served.Load() != 3 || refused.Load() != 27 {
		t.Errorf("%d served and %d refused, want 3 and 27", served.Load(), refused.Load())
	}
	eventually(t, 5*time.Second, "what was not used is free again", func() bool {
		l, err := c.Nodes[2].Admin().Limits(t.Context(), "m")
		return err == nil && l.TPM.Used == 90
	})
}
