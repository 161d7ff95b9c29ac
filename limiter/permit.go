package limiter

import (
	"math"
	"time"
)

// A permit is the right to one request in one scope, counted in the Ledger
// before it is used: a node that holds one of each scope that limits a request
// admits it without asking. Permits die with their window, so a node that dies
// with them strands capacity but never exceeds a limit.

// ScopeRef names one counter of the Ledger.
type ScopeRef struct {
	Scope Scope
	ID    string // of the key or team; the pool's name for ScopePool
	Model string // "" for ScopeKey and ScopeTeam
}

// Held is the permits that a reservation brings: the start of the window they
// are counted in, by scope, NoWindow where it brings none. A permit of another
// window than the running one is void, and its scope is counted again.
type Held [NumScopes]Time

// noneHeld brings no permit.
var noneHeld = Held{NoWindow, NoWindow, NoWindow, NoWindow, NoWindow, NoWindow}

// Ask is a wish for permits beyond what the batch's reservations need.
type Ask struct {
	Ref  ScopeRef
	Want int64
	// Parts is how many nodes share the scope, ≥ 1: a grant is at most half of
	// an even part of what is left, so that the last requests of a limit are
	// decided in the log and a limit of 10 on five nodes serves exactly 10.
	Parts int64
	// For is how long the permits may be held, > 0.
	For time.Duration
}

// Grant answers an Ask: N permits, counted already. Zero if the scope's window
// does not run, is used up, or has no limit that the node may act on by itself.
type Grant struct {
	N     int64
	Start Time          // of the window
	EndIn time.Duration // until the window ends
	// Strict, of a pool: the permits were counted against the pool's share.
	Strict bool
	Limits Limits
	Used   Used // with the granted ones
	// Room, of a pool under work-conserving allocation: the tokens that it may still take.
	Room int64 `json:",omitzero"`
}

// Return gives back what was counted in a window and not used: permits, and the
// places of requests that were given up before they were decided.
type Return struct {
	Ref   ScopeRef
	Start Time
	N     int64
}

// grant counts as many permits as may be lent.
func (l *Ledger) grant(now Time, a *Ask, p Policy, rules *Rules) Grant {
	window := rules.Window
	c, limits := l.counter(a.Ref), limitsOf(p, a.Ref)
	if c == nil || limits == nil || a.Want <= 0 || a.Parts <= 0 {
		return Grant{}
	}
	start, live := c.start, c.live(now, window)
	conserved := a.Ref.Scope == ScopePool && rules.Sharing.Conserving
	strict, room := false, int64(0)
	left := limits.Requests.minus(c.requests)
	if m := p.Model(a.Ref.Model); m != nil && (a.Ref.Scope == ScopeModel || a.Ref.Scope == ScopePool) {
		mc := l.models[a.Ref.Model]
		start, live = mc.start, mc.live(now, window)
		strict = rules.strict(m, saturationOf(&mc.count, m.Limits))
		if conserved {
			q := &question{now: now, model: a.Ref.Model, policy: m, pool: m.Pool(a.Ref.ID), rules: rules}
			claims := l.claims(q, false)
			may := claims.rooms(q)
			left, room = may.requests, may.tokens
		}
		if m.Pools != nil && !strict {
			// Up to the threshold pools refuse nothing, and beyond it they do:
			// what is lent now must not lead past it.
			generous := m.untilStrict(mc.requests)
			if a.Ref.Scope == ScopePool {
				left = generous
			}
			left = min(left, generous)
		}
	}
	switch n, ok := limits.Tokens.Get(); {
	case !live, conserved && room <= 0:
		return Grant{}
	case ok && !conserved && (a.Ref.Scope != ScopePool || strict) && c.tokens >= n:
		return Grant{}
	}
	n := min(a.Want, left/(2*a.Parts))
	if n <= 0 {
		return Grant{}
	}
	c.requests += n
	c.lent = max(c.lent, now.Add(a.For))
	if !limits.Tokens.IsSet() {
		room = 0 // nothing to say
	}
	return Grant{
		N: n, Start: start, EndIn: start.Add(window).Sub(now), Strict: strict,
		Limits: *limits, Used: Used{Requests: c.requests, Tokens: c.tokens}, Room: room,
	}
}

// giveBack takes returned permits out of their window, if it still runs.
func (l *Ledger) giveBack(now Time, r *Return, window time.Duration) {
	c := l.counter(r.Ref)
	if c == nil {
		return
	}
	running := c
	if r.Ref.Scope == ScopePool {
		running = &l.models[r.Ref.Model].count
	}
	if !running.live(now, window) || running.start != r.Start {
		return
	}
	c.requests = max(c.requests-max(r.N, 0), 0)
	if c == running && c.requests == 0 && c.tokens == 0 {
		c.start = NoWindow // nobody was served in it: the next request opens one
	}
}

// counter returns the counter that ref names, nil if nothing was counted in it.
func (l *Ledger) counter(ref ScopeRef) *count {
	switch ref.Scope {
	case ScopeKey, ScopeKeyModel:
		return l.keys.counter(ref)
	case ScopeTeam, ScopeTeamModel:
		return l.teams.counter(ref)
	}
	m := l.models[ref.Model]
	switch {
	case m == nil:
		return nil
	case ref.Scope == ScopePool:
		return m.pools[ref.ID]
	}
	return &m.count
}

func (ss *subjects) counter(ref ScopeRef) *count {
	s := ss.byID[ref.ID]
	switch {
	case s == nil:
		return nil
	case ref.Model != "":
		return s.models[ref.Model]
	}
	return &s.total
}

// limitsOf returns what p says about the scope, nil if it says nothing.
func limitsOf(p Policy, ref ScopeRef) *Limits {
	var sp *SubjectPolicy
	switch ref.Scope {
	case ScopeKey, ScopeKeyModel:
		sp = p.Key(ref.ID)
	case ScopeTeam, ScopeTeamModel:
		sp = p.Team(ref.ID)
	case ScopeModel:
		if m := p.Model(ref.Model); m != nil {
			return &m.Limits
		}
		return nil
	case ScopePool:
		if m := p.Model(ref.Model); m != nil && m.Pools != nil {
			return &m.Pool(ref.ID).Limits
		}
		return nil
	}
	switch {
	case sp == nil:
		return nil
	case ref.Model == "":
		return &sp.Limits
	}
	if l, ok := sp.PerModel[ref.Model]; ok {
		return &l
	}
	return nil
}

// maxLent bounds a grant of a scope without a limit.
const maxLent = 1 << 20

// minus returns what is left of the limit, at least 0.
func (l Limit) minus(used int64) int64 {
	if !l.set {
		return maxLent
	}
	return max(l.n-used, 0)
}

// untilStrict returns how many more requests are decided below the threshold.
func (m *ModelPolicy) untilStrict(used int64) int64 {
	n, ok := m.Limits.Requests.Get()
	if !ok {
		return maxLent
	}
	return max(int64(math.Ceil(m.Threshold*float64(n)-1e-9))-used, 0)
}
