package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/examples/harness"
)

func TestAKeyWorksOnEveryNodeTheMomentItsCreationIsAcknowledged(t *testing.T) {
	t.Parallel()
	const rounds, workers = 1000, 8
	c := start(t, harness.Options{Nodes: 3, Config: config(time.Minute, mockModel("m"))})

	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := next.Add(1); i <= rounds && !t.Failed(); i = next.Add(1) {
				if err := roundTrip(t, c, int(i)); err != nil {
					t.Errorf("round %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

// roundTrip makes a key on one node and uses it at once on the others, each of
// which was asked for the same key just before it existed: a node that
// remembers the miss would refuse it.
func roundTrip(t *testing.T, c *harness.Cluster, i int) error {
	secret := fmt.Sprintf("sk-round-%d-%d", i, time.Now().UnixNano())
	home := c.Nodes[i%3]
	for _, n := range c.Others(home) {
		r, err := n.As(secret).Chat(t.Context(), "m")
		if err != nil {
			return err
		}
		if r.Status != http.StatusUnauthorized {
			return fmt.Errorf("an unknown key on %s: status %d: %s", n.ID, r.Status, r.Body)
		}
	}
	if _, err := home.Admin().CreateKey(t.Context(), harness.KeySpec{Secret: secret}); err != nil {
		return err
	}
	for _, n := range c.Others(home) {
		r, err := n.As(secret).Chat(t.Context(), "m")
		if err != nil {
			return err
		}
		if r.Status != http.StatusOK {
			return fmt.Errorf("the new key of %s on %s: status %d: %s", home.ID, n.ID, r.Status, r.Body)
		}
	}
	return nil
}
