package limiter

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Work-conserving allocation replaces the threshold: a pool may take whatever
// is left after the unused floors of the others that are active, so that
// nothing lies idle while somebody waits, and a floor is there for whoever
// keeps asking for it, whoever came first.
//
// Per dimension, used being what all pools have taken:
//
//	below its own floor:  used + 1 ≤ limit
//	beyond it:            used + 1 + Σ other active pools max(0, floor − used) + held back ≤ limit
//
// As long as every pool was active when its window opened, the second line keeps
// room for the first. A pool that comes later may find its floor lent: then
// those below their floors share what is left, first come, first served.

// Sharing is how the pools of a model share it. The zero Sharing is the
// threshold rule (ModelPolicy.Threshold).
type Sharing struct {
	Conserving bool          // the rule above
	HoldBack   float64       // 0..1: part of a limit that nobody borrows while a pool with an unused floor is idle
	Active     time.Duration // how long a pool counts as active after a request of its was admitted or refused; > 0
}

// strict reports whether pools are enforced at this saturation.
func (r *Rules) strict(m *ModelPolicy, saturation float64) bool {
	return r.Sharing.Conserving || saturation >= m.Threshold
}

// activity is until when the pools of one model count as active. It outlives
// the window that the requests were counted in.
type activity map[string]Time

// mark notes that a request for the pool came.
func (l *Ledger) mark(now Time, model, pool string, active time.Duration) {
	a := l.active[model]
	until := now.Add(active)
	if a == nil {
		a = activity{}
		l.active[model] = a
		l.lapses.push(expiry{start: until, id: model})
	}
	a[pool] = max(a[pool], until)
}

// pruneActivity forgets the pools that are idle.
func (l *Ledger) pruneActivity(now Time) {
	for l.lapses.len() > 0 && now >= l.lapses.front().start {
		model := l.lapses.pop().id
		last := Time(0)
		for pool, until := range l.active[model] {
			if until <= now {
				delete(l.active[model], pool)
			}
			last = max(last, until)
		}
		if last > now {
			l.lapses.push(expiry{start: last, id: model})
			continue
		}
		delete(l.active, model)
	}
}

// activePools returns how many pools of the model are active.
func (l *Ledger) activePools(now Time, model string) (n int) {
	for _, until := range l.active[model] {
		if now < until {
			n++
		}
	}
	return n
}

// amounts are requests and tokens.
type amounts struct{ requests, tokens int64 }

func (a amounts) plus(b amounts) amounts {
	return amounts{a.requests + b.requests, a.tokens + b.tokens}
}

// claims are what the other pools of a model have a right to.
type claims struct {
	used   amounts // by all pools, with the permits that are out
	own    amounts // by the one that asks
	unmet  amounts // floors of other active pools that are not used yet
	idle   bool    // another pool has an unused floor and does not ask for it
	lapses []lapse // of the others' claims; only if asked for
}

// lapse is when an active pool gives up the unused part of its floor, unless it asks again.
type lapse struct {
	at    Time
	unmet amounts
}

// question is who asks for room.
type question struct {
	now    Time
	model  string // the group; under a wildcard not the policy's name
	policy *ModelPolicy
	pool   *PoolPolicy
	rules  *Rules
	held   int64 // requests that the model has counted and the pools have not
}

// claims looks at the pools of a model for one of them, changing nothing.
func (l *Ledger) claims(q *question, lapses bool) (c claims) {
	mc, pool := l.models[q.model], q.pool
	running := mc != nil && mc.live(q.now, q.rules.Window)
	if running {
		c.used = amounts{mc.requests - q.held, mc.tokens}
		var sum amounts
		for _, p := range mc.pools {
			sum = sum.plus(amounts{p.requests, p.tokens})
		}
		// Permits of model and pool are lent apart: whichever is more counts.
		c.used.requests, c.used.tokens = max(c.used.requests, sum.requests), max(c.used.tokens, sum.tokens)
	}
	used := func(name string) (a amounts) {
		if running {
			if p := mc.pools[name]; p != nil {
				a = amounts{p.requests, p.tokens}
			}
		}
		return a
	}
	c.own = used(pool.Name)
	active := l.active[q.model]
	add := func(p *PoolPolicy) {
		if p == pool {
			return
		}
		unmet := p.unmet(used(p.Name))
		switch until := active[p.Name]; {
		case unmet == (amounts{}):
		case q.now >= until:
			c.idle = true
		default:
			c.unmet = c.unmet.plus(unmet)
			if lapses {
				c.lapses = append(c.lapses, lapse{until, unmet})
			}
		}
	}
	for _, p := range q.policy.Pools {
		add(p)
	}
	add(q.policy.Default)
	return c
}

// unmet returns what is missing to the pool's floor.
func (p *PoolPolicy) unmet(used amounts) amounts {
	return amounts{p.Floor.Requests.below(used.requests), p.Floor.Tokens.below(used.tokens)}
}

// below returns how much is missing to the bound, 0 without one.
func (l Limit) below(used int64) int64 { return max(l.n-used, 0) }

// room returns how much of one dimension the pool may still take.
func (s Sharing) room(limit, floor Limit, used, own, unmet int64, idle bool) int64 {
	n, ok := limit.Get()
	if !ok {
		return math.MaxInt64 / 2
	}
	left := n - used
	if idle {
		unmet += int64(math.Floor(s.HoldBack*float64(n) + 1e-9))
	}
	return max(min(floor.below(own), left), left-unmet, 0)
}

// rooms returns how much the pool may still take in both dimensions.
func (c *claims) rooms(q *question) amounts {
	s, m, p := q.rules.Sharing, q.policy, q.pool
	return amounts{
		s.room(m.Limits.Requests, p.Floor.Requests, c.used.requests, c.own.requests, c.unmet.requests, c.idle),
		s.room(m.Limits.Tokens, p.Floor.Tokens, c.used.tokens, c.own.tokens, c.unmet.tokens, c.idle),
	}
}

// fits returns how long it takes until others have given up so much that the
// pool has room for need, at most end.
func (c *claims) fits(q *question, need amounts, end time.Duration) time.Duration {
	slices.SortFunc(c.lapses, func(a, b lapse) int { return int(min(max(a.at-b.at, -1), 1)) })
	for _, l := range c.lapses {
		c.unmet.requests -= l.unmet.requests
		c.unmet.tokens -= l.unmet.tokens
		c.idle = true
		wait := l.at.Sub(q.now)
		if wait >= end {
			break
		}
		if r := c.rooms(q); r.requests >= need.requests && r.tokens >= need.tokens {
			return max(wait, 1)
		}
	}
	return end
}

// checkPool holds the rule against a request that its model has room for.
func (d *Decision) checkPool(l *Ledger, q *question) {
	st := &d.Standings[ScopePool]
	need := amounts{1, max(d.Need, 1)} // tokens: what is recorded must be below the limit
	switch {
	case st.held:
		need.requests = 0
	case d.Standings[ScopeModel].held:
		q.held = 1
	}
	c := l.claims(q, false)
	room := c.rooms(q)
	if n, ok := q.policy.Limits.Tokens.Get(); ok && d.alone(n, c.used.tokens) {
		room.tokens = need.tokens
	}
	if room.requests >= need.requests && room.tokens >= need.tokens {
		return
	}
	end := q.rules.Window
	if st.Start != NoWindow {
		end = st.Start.Add(end).Sub(q.now)
	}
	dim := Tokens
	if room.requests < need.requests {
		dim = Requests
	}
	c = l.claims(q, true)
	d.refuse(ScopePool, dim, c.fits(q, need, end), end)
}

func (l *Ledger) saveActivity(now Time) (out []ActiveState) {
	for _, model := range sortedNames(l.active) {
		st := ActiveState{Model: model}
		for _, pool := range sortedNames(l.active[model]) {
			if until := l.active[model][pool]; now < until {
				st.Pools = append(st.Pools, PoolMark{pool, until})
			}
		}
		if st.Pools != nil {
			out = append(out, st)
		}
	}
	return out
}

func (l *Ledger) loadActivity(states []ActiveState) error {
	for _, st := range states {
		if l.active[st.Model] != nil {
			return fmt.Errorf("%w: activity of model %q", errState, st.Model)
		}
		a, last := activity{}, Time(0)
		for _, p := range st.Pools {
			if _, twice := a[p.Name]; twice || p.Until < 0 {
				return fmt.Errorf("%w: activity of pool %q of model %q", errState, p.Name, st.Model)
			}
			a[p.Name], last = p.Until, max(last, p.Until)
		}
		l.active[st.Model] = a
		l.lapses.push(expiry{start: last, id: st.Model})
	}
	l.lapses.sort()
	return nil
}
