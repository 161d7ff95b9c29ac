package limiter

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestManyLimitedKeysCostNoMoreEntriesThanOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, nodes, seconds = 100, 3, 20
		p := newTable().model("m", Limits{Requests: Of(1_000_000)}, Reservation{})
		for k := range keys {
			p.keys[fmt.Sprint("key", k)] = &SubjectPolicy{Limits: Limits{Requests: Of(100_000)}}
		}
		l := newCluster(t, nodes, p, 500*time.Millisecond)
		turn := 0
		next := func(int) Ticket {
			l.mu.Lock()
			defer l.mu.Unlock()
			turn++
			return Ticket{Model: "m", Key: fmt.Sprint("key", turn%keys)}
		}
		l.spend = Usage{Input: 10}
		rates := []float64{2000, 2000, 2000}
		l.play(t, 2*time.Second, rates, next)
		before := l.batches
		served := sum(l.play(t, seconds*time.Second, rates, next))
		perNode := float64(l.batches-before) / seconds / nodes
		t.Logf("served %d, %.1f entries a second and node", served, perNode)
		if perNode > 40 {
			t.Errorf("%.1f entries a second and node, want at most 40", perNode)
		}
		l.close(t)
	})
}

func TestFewPermitsAreNotRenewedBeforeTheyAreNeeded(t *testing.T) {
	l := &lease{n: 4}
	l.left.Store(1)
	if l.scarce() {
		t.Error("permits that were cut because the limit is near are renewed early")
	}
	l.plenty = true
	if !l.scarce() {
		t.Error("permits that are used up by most are not renewed")
	}
	l.left.Store(3)
	if l.scarce() {
		t.Error("permits that are hardly used are renewed")
	}
}
