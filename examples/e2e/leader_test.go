package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/examples/harness"
)

func TestKillingTheLeaderUnderLoadBreaksNoLimitAndLosesNoKey(t *testing.T) {
	t.Parallel()
	const limit = 1500
	up := startUpstream(t)
	c := start(t, harness.Options{Nodes: 3, Config: config(5*time.Minute, model(up, "m", fmt.Sprintf("rpm = %d", limit))+`
[limits]
on_no_quorum = "deny"
`)})
	key := createKey(t, c.Nodes[0], harness.KeySpec{}).Secret
	leader, err := c.Leader(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}

	load := startLoad(t, c, key, "m")
	writes := startWrites(t, c)
	eventually(t, 20*time.Second, "a third of the limit is used up", func() bool { return up.Count("m") > limit/3 })
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	survivor := c.Others(leader)[0]
	for attempt := 0; ; attempt++ {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := survivor.Admin().CreateKey(ctx, harness.KeySpec{Alias: fmt.Sprintf("after-%d", attempt)})
		cancel()
		if err == nil {
			break
		}
		if time.Since(killed) > 10*time.Second {
			t.Fatalf("no management write succeeds after the leader's death: %v", err)
		}
	}
	if took := time.Since(killed); took > 2*time.Second {
		t.Errorf("the first write after the leader's death succeeded after %s, want at most 2s", took)
	} else {
		t.Logf("writes again after %s", took)
	}
	eventually(t, 20*time.Second, "the limit is reached by the survivors", func() bool { return load.refused.Load() > 50 })
	if err := c.Restart(t.Context(), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	before := load.refused.Load()
	eventually(t, 20*time.Second, "the load goes on after the restart", func() bool { return load.refused.Load() > before+50 })
	load.stop()
	acknowledged := writes.stop()

	if n := up.Count("m"); n > limit {
		t.Errorf("the provider executed %d requests in one window, the limit is %d", n, limit)
	} else {
		t.Logf("executed %d of %d, answered %d, failed %d", n, limit, load.served.Load(), load.failed.Load())
	}
	// What was admitted but not yet sent when the node died stays counted, and so
	// do the permits that it held: stranded, but never exceeded.
	if n := up.Count("m"); n < limit-loadWorkers-limit/stranded {
		t.Errorf("the provider executed only %d of %d", n, limit)
	}
	for _, k := range acknowledged {
		for _, n := range c.Nodes {
			r, err := n.Admin().Get(t.Context(), "/key/info?key="+k.Hash)
			if err != nil || r.Status != http.StatusOK {
				t.Fatalf("%s does not know an acknowledged key: %v %v", n.ID, r, err)
			}
		}
	}
	t.Logf("%d acknowledged keys, all known on all nodes", len(acknowledged))
}

const loadWorkers = 12

// stranded is the part of what is left that a node of three may hold in permits:
// half of its even part.
const stranded = 6

// load is a closed loop of requests over all nodes; broken connections and
// 503s are part of the exercise.
type load struct {
	served, refused, failed atomic.Int64
	cancel                  context.CancelFunc
	wg                      sync.WaitGroup
}

func startLoad(t *testing.T, c *harness.Cluster, key, model string) *load {
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel}
	for w := range loadWorkers {
		l.wg.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				r, err := c.Nodes[i%len(c.Nodes)].As(key).Chat(ctx, model)
				switch {
				case err != nil || r.Status >= 500:
					l.failed.Add(1)
					time.Sleep(5 * time.Millisecond)
				case r.Status == http.StatusOK:
					l.served.Add(1)
				case r.Status == http.StatusTooManyRequests:
					l.refused.Add(1)
					time.Sleep(5 * time.Millisecond)
				default:
					t.Errorf("status %d: %s", r.Status, r.Body)
				}
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

// writes creates keys all the time and remembers those that were acknowledged.
type writes struct {
	mu     sync.Mutex
	keys   []harness.Key
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func startWrites(t *testing.T, c *harness.Cluster) *writes {
	ctx, cancel := context.WithCancel(t.Context())
	w := &writes{cancel: cancel}
	for _, n := range c.Nodes {
		w.wg.Go(func() {
			for ctx.Err() == nil {
				k, err := n.Admin().CreateKey(ctx, harness.KeySpec{})
				if err == nil {
					w.mu.Lock()
					w.keys = append(w.keys, k)
					w.mu.Unlock()
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *writes) stop() []harness.Key {
	w.cancel()
	w.wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keys
}
