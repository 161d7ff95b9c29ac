package node

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

func TestDialsAndWritesGoThroughTheOptions(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	dialled := map[string]bool{}
	var writes atomic.Int64
	nodes := openCluster(t, 3, func(o *Options) {
		o.BeforeWrite = func() { writes.Add(1) }
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			mu.Lock()
			dialled[addr] = true
			mu.Unlock()
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	})
	before := writes.Load()
	apply(t, nodes[0], "a")
	waitApplied(t, "a", nodes...)
	if writes.Load()-before < 2 {
		t.Errorf("%d writes of a log with a majority of two", writes.Load()-before)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, n := range nodes {
		if !dialled[n.Addr()] {
			t.Errorf("nobody dialled %s through the option: %v", n.Addr(), dialled)
		}
	}
}
