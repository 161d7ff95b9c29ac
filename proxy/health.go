package proxy

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// cooldown is how long a deployment takes no traffic for which its provider
	// names no time.
	cooldown = 5 * time.Second
	// maxCooldown bounds what a provider may ask for: after it one call finds
	// out whether that still holds.
	maxCooldown = time.Hour
	// fewCalls in a minute say nothing about a deployment.
	fewCalls = 5
)

// pause is a time until which something takes no traffic. Any goroutine may
// use it.
type pause struct{ until atomic.Int64 } // nanoseconds since 1970

// extend keeps the latest end.
func (p *pause) extend(until time.Time) {
	for {
		old := p.until.Load()
		if old >= until.UnixNano() || p.until.CompareAndSwap(old, until.UnixNano()) {
			return
		}
	}
}

// left returns how long it lasts, 0 if it is over.
func (p *pause) left(now time.Time) time.Duration {
	until := p.until.Load()
	if until == 0 {
		return 0
	}
	return max(time.Duration(until-now.UnixNano()), 0)
}

// health is what this node knows of one deployment. Any goroutine may use it.
type health struct {
	throttled pause // by a 429
	failing   pause
	streak    atomic.Int64 // failures since the last success
	mu        sync.Mutex
	calls     lastMinute // all, failed
}

// call counts one call.
func (h *health) call(now time.Time) {
	h.mu.Lock()
	h.calls.add(now, 1, 0)
	h.mu.Unlock()
}

// succeed ends a row of failures.
func (h *health) succeed() {
	if h.streak.Load() != 0 {
		h.streak.Store(0)
	}
}

// fail counts a call that failed, and pauses a deployment of which half the
// calls of the last minute did, or the last few: one that was busy and dies is
// not believed for another half a minute.
func (h *health) fail(now time.Time) {
	row := h.streak.Add(1)
	h.mu.Lock()
	h.calls.add(now, 0, 1)
	calls, failed := h.calls.sum(now)
	h.mu.Unlock()
	if row >= fewCalls || calls >= fewCalls && 2*failed >= calls {
		h.failing.extend(now.Add(cooldown))
	}
}

// refuse pauses a deployment at once: its provider refused the credential, or
// does not know its model.
func (h *health) refuse(now time.Time) { h.failing.extend(now.Add(cooldown)) }

// recollection is what outlives a configuration version: deployments, quota groups
// and models go on as they were under the same names. It is used under
// Proxy.tableMu.
type recollection struct {
	health  map[string]*health // by deployment
	quotas  map[string]*pause  // by quota group
	budgets map[string]*budget // by model
}

func newRecollection() recollection {
	return recollection{map[string]*health{}, map[string]*pause{}, map[string]*budget{}}
}

// kept returns what is known under a name, from before if that is where it is.
func kept[T any](now, before map[string]*T, name string) *T {
	v := now[name]
	if v == nil {
		if v = before[name]; v == nil {
			v = new(T)
		}
		now[name] = v
	}
	return v
}
