package limiter

import "time"

// SlotRetry is what a request refused for concurrency is told to wait: nobody
// knows when a slot comes free, and a second is the least retry-after can say.
const SlotRetry = time.Second

// reserve decides one ticket at now: every scope is looked at, then every scope
// counts it or none does. A scope that the ticket brings a permit for has
// counted it before.
func (l *Ledger) reserve(now Time, node string, t *Ticket, held *Held, p Policy, rules Rules, d *Decision) {
	mp := p.Model(t.Model)
	d.look(l, now, t, p, mp, rules.Window)
	d.Strict = mp != nil && rules.strict(mp, d.Saturation)
	if rules.Reserve {
		d.Need = rules.counted(t.Estimate)
		if !rules.Alone && d.oversize(rules.Sharing.Conserving || mp != nil && mp.Threshold > 0) {
			return
		}
	}
	d.Admitted = true
	for s := Scope(0); s < numScopes; s++ {
		st := &d.Standings[s]
		st.held = st.Start != NoWindow && st.Start == held[s]
		if s == ScopePool && st.counts && rules.Sharing.Conserving {
			// Who is kept out by a limit of its own does not wait for this model.
			if d.Admitted || d.Scope == ScopeModel {
				l.mark(now, t.Model, d.Pool, rules.Sharing.Active)
			}
			if d.Admitted {
				d.checkPool(l, &question{now: now, model: t.Model, policy: mp, pool: mp.Pool(t.Priority), rules: &rules})
			}
		} else if s != ScopePool || d.Strict {
			d.check(s, now, rules.Window)
		}
	}
	if d.Admitted {
		d.take(l, now, node, t, rules.Window)
		return
	}
	d.Final = l.final(now, t, d) && (d.Dimension != Tokens || !rules.Reserve)
}

// final reports whether the refusal stands until the reported window ends:
// tokens are never given back, requests only as long as permits are out.
func (l *Ledger) final(now Time, t *Ticket, d *Decision) bool {
	if d.Dimension == Parallel {
		return false
	}
	out := func(ref ScopeRef) bool {
		c := l.counter(ref)
		return c != nil && now < c.lent
	}
	if d.Scope == ScopePool && out(ScopeRef{Scope: ScopeModel, Model: t.Model}) {
		return false // the model may turn generous again
	}
	return d.Dimension == Tokens || !out(refOf(d.Scope, t, d.Pool))
}

// refOf names the counter of one scope of a ticket.
func refOf(s Scope, t *Ticket, pool string) ScopeRef {
	switch s {
	case ScopeKey:
		return ScopeRef{Scope: s, ID: t.Key}
	case ScopeKeyModel:
		return ScopeRef{Scope: s, ID: t.Key, Model: t.Model}
	case ScopeTeam:
		return ScopeRef{Scope: s, ID: t.Team}
	case ScopeTeamModel:
		return ScopeRef{Scope: s, ID: t.Team, Model: t.Model}
	case ScopePool:
		return ScopeRef{Scope: s, ID: pool, Model: t.Model}
	}
	return ScopeRef{Scope: s, Model: t.Model}
}

// look fills in what limits the ticket and what is used, changing nothing.
func (d *Decision) look(l *Ledger, now Time, t *Ticket, p Policy, mp *ModelPolicy, window time.Duration) {
	for s := range d.Standings {
		d.Standings[s].Start = NoWindow
	}
	if t.Key != "" {
		l.keys.look(d, now, t.Key, t.Model, p.Key(t.Key), ScopeKey, ScopeKeyModel, window)
	}
	if t.Team != "" {
		l.teams.look(d, now, t.Team, t.Model, p.Team(t.Team), ScopeTeam, ScopeTeamModel, window)
	}
	if mp == nil {
		return
	}
	st := &d.Standings[ScopeModel]
	st.counts, st.Limits = true, mp.Limits
	m := l.models[t.Model]
	if m != nil {
		st.read(&m.count, now, window)
	}
	d.Saturation = saturation(st)
	pp := mp.Pool(t.Priority)
	if pp == nil {
		return
	}
	ps := &d.Standings[ScopePool]
	ps.counts, ps.Limits, ps.Start = true, pp.Limits, st.Start
	d.Pool = pp.Name
	if st.Start != NoWindow {
		if c := m.pools[pp.Name]; c != nil {
			ps.Used.Requests, ps.Used.Tokens = c.requests, c.tokens
		}
	}
}

// read copies a window into the standing if it runs.
func (s *Standing) read(c *count, now Time, window time.Duration) {
	if c.live(now, window) {
		s.Start = c.start
		s.Used.Requests, s.Used.Tokens = c.requests, c.tokens
	}
}

// saturation is the fuller of the model's two dimensions. A limit of 0 is full.
func saturation(s *Standing) float64 {
	return max(ratio(s.Used.Requests, s.Limits.Requests), ratio(s.Used.Tokens, s.Limits.Tokens))
}

func saturationOf(c *count, l Limits) float64 {
	return max(ratio(c.requests, l.Requests), ratio(c.tokens, l.Tokens))
}

func ratio(used int64, l Limit) float64 {
	n, ok := l.Get()
	switch {
	case !ok:
		return 0
	case n == 0:
		return 1
	}
	return float64(used) / float64(n)
}

// check holds one scope's limits against the request, in the order concurrency,
// requests, tokens. Requests are exact (one more must fit); so are tokens where
// they are reserved, else they are admission control (what is recorded must be
// below the limit).
func (d *Decision) check(s Scope, now Time, window time.Duration) {
	st := &d.Standings[s]
	if n, ok := st.Limits.Parallel.Get(); ok && st.Used.Parallel >= n {
		d.refuse(s, Parallel, SlotRetry, SlotRetry)
	}
	end := window
	if st.Start != NoWindow {
		end = st.Start.Add(window).Sub(now)
	}
	if n, ok := st.Limits.Requests.Get(); ok && !st.held && st.Used.Requests >= n {
		d.refuse(s, Requests, end, end)
	}
	if n, ok := st.Limits.Tokens.Get(); ok && !d.alone(n, st.Used.Tokens) && st.Used.Tokens+max(d.Need, 1) > n {
		d.refuse(s, Tokens, end, end)
	}
}

// alone reports whether a request that is larger than the limit has found an
// empty window. Where it is not let in alone, it was refused before.
func (d *Decision) alone(limit, used int64) bool { return d.Need > limit && limit > 0 && used == 0 }

// oversize refuses a request that needs more than a whole limit. A pool's own
// part is no bound where its pool may also use the others'.
func (d *Decision) oversize(poolsLend bool) bool {
	for s := Scope(0); s < numScopes; s++ {
		n, ok := d.Standings[s].Limits.Tokens.Get()
		if !ok || d.Need <= n || n == 0 || s == ScopePool && poolsLend {
			continue
		}
		d.Scope, d.Dimension, d.Oversize = s, Tokens, true
		return true
	}
	return false
}

// refuse notes the first failing limit for the message and the longest wait of all.
func (d *Decision) refuse(s Scope, dim Dimension, retry, reset time.Duration) {
	if d.Admitted {
		d.Admitted = false
		d.Scope, d.Dimension, d.ResetIn = s, dim, reset
	}
	d.RetryIn = max(d.RetryIn, retry)
}

// take counts the request everywhere it was looked at.
func (d *Decision) take(l *Ledger, now Time, node string, t *Ticket, window time.Duration) {
	if d.Standings[ScopeModel].counts {
		m := l.model(t.Model, now, window)
		if !d.Standings[ScopeModel].held {
			m.requests++
		}
		m.tokens += d.Need
		d.Standings[ScopeModel].read(&m.count, now, window)
		if ps := &d.Standings[ScopePool]; ps.counts {
			c := m.pool(d.Pool)
			if !ps.held {
				c.requests++
			}
			c.tokens += d.Need
			ps.Start, ps.Used.Requests, ps.Used.Tokens = m.start, c.requests, c.tokens
		}
	}
	l.keys.take(d, now, node, t.Key, t.Model, ScopeKey, ScopeKeyModel, window)
	l.teams.take(d, now, node, t.Team, t.Model, ScopeTeam, ScopeTeamModel, window)
}
