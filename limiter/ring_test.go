package limiter

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A ring forgets nothing that is younger than its length, and nothing stays for
// longer than a 64th more.
func TestRingCountsTheLastLength(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		length := time.Duration(1 + r.Int64N(int64(2*time.Minute)))
		type event struct {
			at time.Duration
			n  int64
		}
		var all []event
		var c ring
		now := time.Duration(r.Int64N(int64(time.Hour)))
		c.advance(now, length)
		for range 300 {
			now += time.Duration(r.Int64N(int64(length)/(1+r.Int64N(40)) + 1))
			c.advance(now, length)
			if r.IntN(2) == 0 {
				e := event{now, 1 + r.Int64N(5)}
				all = append(all, e)
				c.add(sums{requests: e.n})
			}
			var least, most int64
			for _, e := range all {
				if now < e.at+length {
					least += e.n
				}
				if now <= e.at+length+length/ringSlots+2*ringSlots {
					most += e.n
				}
			}
			if got := c.total.requests; got < least || got > most {
				t.Fatalf("seed %d: %d counted after %v, want %d to %d", seed, got, now, least, most)
			}
			if c.total.requests == 0 {
				continue
			}
			wait := c.until(now, sums{requests: 1})
			before, after := c, c
			before.advance(now+wait-1, length)
			after.advance(now+wait, length)
			if before.total != c.total || after.total == c.total {
				t.Fatalf("seed %d: nothing leaves the ring after %v", seed, wait)
			}
		}
	}
}

func TestRingKeepsItsSumWhenTheLengthChanges(t *testing.T) {
	var c ring
	c.advance(time.Second, time.Minute)
	c.add(sums{requests: 3, tokens: 9})
	c.advance(2*time.Second, time.Second)
	if c.total != (sums{3, 9}) {
		t.Errorf("%+v after a change", c.total)
	}
	c.advance(3*time.Second+time.Second/ringSlots, time.Second)
	if c.total != (sums{}) {
		t.Errorf("%+v a window later", c.total)
	}
}
