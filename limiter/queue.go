package limiter

import (
	"cmp"
	"slices"
)

// expiry says that a window of the subject opened at start.
type expiry struct {
	start Time
	id    string
}

// queue is a first-in first-out ring that uses its memory again.
type queue struct {
	ring []expiry
	head int
	n    int
}

func (q *queue) len() int       { return q.n }
func (q *queue) front() *expiry { return &q.ring[q.head] }

func (q *queue) push(e expiry) {
	if q.n == len(q.ring) {
		ring := make([]expiry, max(2*len(q.ring), 64))
		for i := range q.n {
			ring[i] = q.ring[(q.head+i)%len(q.ring)]
		}
		q.ring, q.head = ring, 0
	}
	q.ring[(q.head+q.n)%len(q.ring)] = e
	q.n++
}

func (q *queue) pop() expiry {
	e := q.ring[q.head]
	q.ring[q.head] = expiry{}
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return e
}

// sort puts the entries in order after a load.
func (q *queue) sort() {
	all := make([]expiry, 0, q.n)
	for q.n > 0 {
		all = append(all, q.pop())
	}
	slices.SortStableFunc(all, func(a, b expiry) int { return cmp.Compare(a.start, b.start) })
	for _, e := range all {
		q.push(e)
	}
}
