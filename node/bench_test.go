package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkCommit compares a commit through Node.Apply with the bare library on
// the same three nodes, alone and with many callers; "seen" includes the wait
// until the follower that asked shows its own write.
func BenchmarkCommit(b *testing.B) {
	nodes, leader := benchCluster(b)
	follower := nodes[0]
	if follower == leader {
		follower = nodes[1]
	}
	ctx := context.Background()
	cmd := make([]byte, 200)
	ways := []struct {
		name string
		do   func() error
	}{
		{"library", func() error { return leader.raft.Load().Apply(cmd, 0).Error() }},
		{"leader", func() error { _, _, err := leader.Apply(ctx, cmd); return err }},
		{"follower", func() error { _, _, err := follower.Apply(ctx, cmd); return err }},
		{"seen", func() error {
			_, index, err := follower.Apply(ctx, cmd)
			for err == nil && follower.opts.AppliedIndex() < index {
				time.Sleep(100 * time.Microsecond)
			}
			return err
		}},
		{"read-index", func() error { _, err := follower.ReadIndex(ctx); return err }},
	}
	for _, callers := range []int{1, 64, 512} {
		for _, w := range ways {
			b.Run(fmt.Sprintf("%s/callers=%d", w.name, callers), func(b *testing.B) {
				var mu sync.Mutex
				var took []time.Duration
				left := make(chan struct{}, b.N)
				for range b.N {
					left <- struct{}{}
				}
				close(left)
				var wg sync.WaitGroup
				for range callers {
					wg.Go(func() {
						for range left {
							start := time.Now()
							if err := w.do(); err != nil {
								b.Error(err)
								return
							}
							d := time.Since(start)
							mu.Lock()
							took = append(took, d)
							mu.Unlock()
						}
					})
				}
				wg.Wait()
				slices.Sort(took)
				if len(took) > 0 {
					b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
				}
			})
		}
	}
}

func benchCluster(b *testing.B) ([]*Node, *Node) {
	b.Helper()
	var nodes []*Node
	var join []string
	for i := range 3 {
		fsm := &countFSM{}
		o := Options{
			ID: fmt.Sprintf("n%d", i), DataDir: b.TempDir(), Listen: "127.0.0.1:0", FSM: fsm,
			AppliedIndex: fsm.index.Load, Join: join,
		}
		n, err := Open(context.Background(), o)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if err := n.Shutdown(ctx); err != nil {
				b.Error(err)
			}
		})
		nodes = append(nodes, n)
		join = []string{nodes[0].Addr()}
		<-n.Formed()
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatal("no cluster of three voters")
		}
		if r := nodes[0].leading(); r != nil && nodes[0].voters(r) == 3 {
			return nodes, nodes[0]
		}
	}
}
