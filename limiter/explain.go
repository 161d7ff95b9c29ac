package limiter

import "time"

// Explanation says what one more request would meet now, and who holds what it waits for.
type Explanation struct {
	Admitted   bool
	Scope      Scope         // that refuses first, in the order of checks; only if not Admitted
	Dimension  Dimension     // of it
	Oversize   bool          // it never fits
	FitsIn     time.Duration // until it could fit: the longest among the scopes; 0 if Admitted
	Saturation float64       // of the model
	Pool       string        // that it would count in, "" for the default pool or none
	Scopes     []ScopeExplanation
}

// ScopeExplanation is one scope that counts or limits the request.
type ScopeExplanation struct {
	Scope     Scope
	Name      string // of the key, team, model or pool
	Limits    Limits
	Used      Used // with permits that are lent, and with tokens that are reserved
	Live      bool // a window runs; else ResetsIn is 0
	ResetsIn  time.Duration
	Admitted  bool
	Dimension Dimension     // that refuses
	FitsIn    time.Duration // 0 if Admitted
	Lent      bool          // permits may be out, and what is unused of them comes back
	Pools     []PoolHolding // of a model with pools: who holds its capacity
	Nodes     []SlotState   // where its requests in flight are, if they are limited
}

// PoolHolding is what one pool has taken of a model, and what is kept for it.
type PoolHolding struct {
	PoolState
	Floor  Limits // kept while it is active; only under work-conserving allocation
	Active bool   // only under work-conserving allocation
}

// Explain holds the limits against a ticket at now, changing nothing: a function
// of the Ledger, the policy, the ticket and the time.
func (l *Ledger) Explain(now Time, p Policy, t Ticket) Explanation {
	rules, mp := p.Rules(), p.Model(t.Model)
	d := Decision{Admitted: true}
	d.look(l, now, &t, p, mp, rules.Window)
	d.Strict = mp != nil && rules.strict(mp, d.Saturation)
	e := Explanation{Admitted: true, Saturation: d.Saturation, Pool: d.Pool}
	if rules.Reserve {
		d.Need = rules.counted(t.Estimate)
		if !rules.Alone {
			probe := d
			e.Oversize = probe.oversize(rules.Sharing.Conserving || mp != nil && mp.Threshold > 0)
			e.Scope, e.Dimension = probe.Scope, probe.Dimension
			e.Admitted = !e.Oversize
		}
	}
	for s := Scope(0); s < numScopes; s++ {
		if st := &d.Standings[s]; !st.counts && !st.Limits.Any() {
			continue
		}
		x := l.explainScope(now, s, &t, &d, mp, &rules)
		if !x.Admitted {
			if e.Admitted {
				e.Admitted, e.Scope, e.Dimension = false, s, x.Dimension
			}
			e.FitsIn = max(e.FitsIn, x.FitsIn)
		}
		e.Scopes = append(e.Scopes, x)
	}
	return e
}

// explainScope holds one scope against the ticket as if there were no others.
func (l *Ledger) explainScope(now Time, s Scope, t *Ticket, d *Decision, mp *ModelPolicy, rules *Rules) ScopeExplanation {
	st, probe := &d.Standings[s], *d
	switch {
	case s == ScopePool && rules.Sharing.Conserving:
		probe.checkPool(l, &question{now: now, model: t.Model, policy: mp, pool: mp.Pool(t.Priority), rules: rules})
	case s != ScopePool || d.Strict:
		probe.check(s, now, rules.Window)
	}
	ref := refOf(s, t, d.Pool)
	x := ScopeExplanation{
		Scope: s, Name: ref.ID, Limits: st.Limits, Used: st.Used,
		Admitted: probe.Admitted, Dimension: probe.Dimension, FitsIn: probe.RetryIn,
	}
	if st.Start != NoWindow {
		x.Live, x.ResetsIn = true, st.Start.Add(rules.Window).Sub(now)
	}
	if c := l.counter(ref); c != nil {
		x.Lent = now < c.lent
	}
	switch s {
	case ScopeModel:
		x.Name, x.Pools = t.Model, l.holdings(now, t.Model, mp, rules, x.Live)
	case ScopeKey:
		x.Nodes = l.keys.slotsOf(t.Key)
	case ScopeTeam:
		x.Nodes = l.teams.slotsOf(t.Team)
	}
	return x
}

// holdings lists the pools of a model by name, the default pool last.
func (l *Ledger) holdings(now Time, model string, mp *ModelPolicy, rules *Rules, live bool) (out []PoolHolding) {
	if mp == nil || mp.Pools == nil {
		return nil
	}
	add := func(p *PoolPolicy) {
		h := PoolHolding{PoolState: l.models[model].inspectPool(p, live)}
		if rules.Sharing.Conserving {
			h.Floor, h.Active = p.Floor, now < l.active[model][p.Name]
		}
		out = append(out, h)
	}
	for _, name := range sortedNames(mp.Pools) {
		add(mp.Pools[name])
	}
	add(mp.Default)
	return out
}

// slotsOf returns how many requests each node has in flight for the subject.
func (ss *subjects) slotsOf(id string) (out []SlotState) {
	s := ss.byID[id]
	if s == nil {
		return nil
	}
	counts := map[string]int64{}
	for i := range s.slots {
		if s.slots[i].n > 0 && !s.slots[i].silent {
			counts[s.slots[i].node] = s.slots[i].n
		}
	}
	for _, node := range sortedNames(counts) {
		out = append(out, SlotState{node, counts[node]})
	}
	return out
}
