package proxy

import (
	"sync"
	"time"
)

// lastMinute counts two things that happened within the last minute, in slots
// of ten seconds. It is not safe for concurrent use.
type lastMinute struct {
	at    int64 // slot that was counted in last, since 1970
	slots [minuteSlots][2]int64
}

const (
	minuteSlots  = 6
	slotDuration = int64(10 * time.Second)
)

// add counts in the slot of now.
func (m *lastMinute) add(now time.Time, first, second int64) {
	m.turn(now)
	s := &m.slots[m.at%minuteSlots]
	s[0] += first
	s[1] += second
}

// sum returns both counts.
func (m *lastMinute) sum(now time.Time) (first, second int64) {
	m.turn(now)
	for i := range m.slots {
		first += m.slots[i][0]
		second += m.slots[i][1]
	}
	return first, second
}

// turn empties the slots that have become a minute old. A clock that goes back
// counts on in the newest slot.
func (m *lastMinute) turn(now time.Time) {
	at := now.UnixNano() / slotDuration
	if at <= m.at {
		return
	}
	for range min(at-m.at, minuteSlots) {
		m.at++
		m.slots[m.at%minuteSlots] = [2]int64{}
	}
	m.at = at
}

// budget bounds the retries of one model: a part of its requests of the last
// minute, but always freeRetries. An outage is not multiplied then, and a model
// that is asked seldom still gets its retries. Any goroutine may use it.
type budget struct {
	mu    sync.Mutex
	calls lastMinute // requests, retries
}

// freeRetries a minute need no requests to be a part of.
const freeRetries = 10

// request counts one request.
func (b *budget) request(now time.Time) {
	b.mu.Lock()
	b.calls.add(now, 1, 0)
	b.mu.Unlock()
}

// take takes one retry, unless ratio of the requests are used up.
func (b *budget) take(now time.Time, ratio float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	requests, retries := b.calls.sum(now)
	if retries >= max(freeRetries, int64(ratio*float64(requests))) {
		return false
	}
	b.calls.add(now, 0, 1)
	return true
}
