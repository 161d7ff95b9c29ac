package limiter

import "time"

// ringSlots is how finely a ring tells the age of what it counts.
const ringSlots = 64

// sums are requests and tokens.
type sums struct{ requests, tokens int64 }

func (s *sums) add(o sums) { s.requests += o.requests; s.tokens += o.tokens }

// ring counts what happened in the last window's length, wherever that begins:
// an event is counted for at least one length and at most a 64th longer. Times
// are node times that do not go backwards.
type ring struct {
	width time.Duration // of a slot, > 0
	head  int64         // number of the newest slot; slot n begins at n × width
	slots [ringSlots + 1]sums
	total sums
}

// advance makes room for now and drops what is too old. A ring of another
// length keeps its sum as if all of it had just happened.
func (r *ring) advance(now, length time.Duration) {
	width := max((length+ringSlots-1)/ringSlots, 1)
	head := int64(now / width)
	if r.width != width {
		kept := r.total
		*r = ring{width: width, head: head, total: kept}
		r.slots[head%int64(len(r.slots))] = kept
		return
	}
	if head-r.head >= int64(len(r.slots)) {
		*r = ring{width: width, head: head}
		return
	}
	for r.head < head {
		r.head++
		old := &r.slots[r.head%int64(len(r.slots))]
		r.total.add(sums{-old.requests, -old.tokens})
		*old = sums{}
	}
}

// add counts s at the time of the last advance.
func (r *ring) add(s sums) {
	r.slots[r.head%int64(len(r.slots))].add(s)
	r.total.add(s)
}

// until returns how long after now it takes until at least free has left the
// ring, in both dimensions; what the ring does not hold is not waited for.
func (r *ring) until(now time.Duration, free sums) time.Duration {
	var gone sums
	n := int64(len(r.slots))
	for slot := max(r.head-n+1, 0); slot <= r.head; slot++ {
		if gone.requests >= free.requests && gone.tokens >= free.tokens {
			break
		}
		s := &r.slots[slot%n]
		if *s == (sums{}) {
			continue
		}
		gone.add(*s)
		if gone.requests >= free.requests && gone.tokens >= free.tokens || slot == r.head {
			return time.Duration(slot+n)*r.width - now
		}
	}
	return 0
}
