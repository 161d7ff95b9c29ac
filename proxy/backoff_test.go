package proxy

import (
	"math/rand/v2"
	"testing"
	"time"

	"sluice/fsm"
)

func TestDelaysStayInTheirBounds(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		name          string
		jitter        string
		n             int64
		before, floor time.Duration
		lo, hi, mean  time.Duration
	}{
		{"full, first", fsm.JitterFull, 0, 0, 0, 100 * ms, s, 550 * ms},
		{"full, third", fsm.JitterFull, 2, 0, 0, 100 * ms, 4 * s, 2050 * ms},
		{"full, at the cap", fsm.JitterFull, 60, 0, 0, 100 * ms, 60 * s, 30050 * ms},
		{"equal, third", fsm.JitterEqual, 2, 0, 0, 2 * s, 4 * s, 3 * s},
		{"decorrelated, first", fsm.JitterDecorrelated, 0, 0, 0, s, 3 * s, 2 * s},
		{"decorrelated, after four seconds", fsm.JitterDecorrelated, 1, 4 * s, 0, s, 12 * s, 6500 * ms},
		{"decorrelated, at the cap", fsm.JitterDecorrelated, 9, 50 * s, 0, s, 60 * s, 30500 * ms},
		{"none, third", fsm.JitterNone, 2, 0, 0, 4 * s, 4 * s, 4 * s},
		{"none, with a floor", fsm.JitterNone, 0, 0, 7 * s, 7 * s, 7 * s, 7 * s},
		{"the provider's floor", fsm.JitterFull, 0, 0, 20 * s, 20 * s, 21 * s, 20500 * ms},
		{"a floor below the backoff", fsm.JitterNone, 3, 0, 2 * s, 8 * s, 8 * s, 8 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := fsm.RetrySettings{Jitter: c.jitter}.Retries()
			source := rand.New(rand.NewPCG(1, 2))
			const draws = 20_000
			var sum time.Duration
			seen := map[time.Duration]int{}
			for range draws {
				d := delay(&r, c.n, c.before, c.floor, source.Uint64(), source.Uint64())
				if d < c.lo || d > c.hi {
					t.Fatalf("%v is outside %v..%v", d, c.lo, c.hi)
				}
				sum += d
				seen[d/time.Millisecond]++
			}
			if mean := sum / draws; mean < c.mean*97/100 || mean > c.mean*103/100 {
				t.Errorf("mean %v, want about %v", mean, c.mean)
			}
			if c.lo == c.hi {
				return
			}
			// Those who fail together must not come back together.
			for at, n := range seen {
				if n > draws/50 {
					t.Errorf("%d of %d wait the same %v", n, draws, at*time.Millisecond)
				}
			}
		})
	}
}

func TestExtremeDrawsAreTheEnds(t *testing.T) {
	if d := uniform(5, 9, 0); d != 5 {
		t.Errorf("least %d", d)
	}
	if d := uniform(5, 9, ^uint64(0)); d != 9 {
		t.Errorf("most %d", d)
	}
	if d := uniform(9, 5, 77); d != 9 {
		t.Errorf("empty range %d", d)
	}
}
