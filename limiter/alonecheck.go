package limiter

import "time"

// verdict is a node's decision on one ticket, without the log.
type verdict struct {
	al       *alone
	now      time.Duration
	ticket   *Ticket
	outlook  *Outlook
	parts    int64
	decision *Decision
}

// check holds every scope's part against the ticket; false if a part is nothing
// at all, or never enough.
func (v *verdict) check() bool {
	d, o := v.decision, v.outlook
	conserving := o.Rules.Sharing.Conserving
	if o.Rules.Reserve {
		d.Need = o.Rules.counted(v.ticket.Estimate)
		if !o.Rules.Alone && d.oversize(conserving || o.Model != nil && o.Model.Threshold > 0) {
			d.Admitted = false
			return true
		}
	}
	for s := Scope(0); s < numScopes; s++ {
		st := &d.Standings[s]
		if !st.counts && !st.Limits.Parallel.IsSet() {
			continue
		}
		part := v.part(s)
		defer part.show(d)
		switch {
		case s == ScopeModel:
			d.Saturation = part.saturation()
			d.Strict = o.Rules.strict(o.Model, d.Saturation)
		case s == ScopePool && !d.Strict:
			continue
		case s == ScopePool && conserving && v.mayBorrow():
			continue
		}
		if !part.check(v.now, s, d) {
			return false
		}
	}
	return true
}

// part returns the node's part of one scope of the ticket.
func (v *verdict) part(s Scope) partOf {
	c := v.al.counts[refOf(s, v.ticket, v.outlook.Pool)]
	if c == nil {
		c = &aloneCount{}
	}
	c.ring.advance(v.now, v.outlook.Rules.Window)
	return partOf{
		count: c, st: &v.decision.Standings[s], parts: v.parts, need: v.decision.Need,
		endsIn: v.outlook.EndsIn[s], window: v.outlook.Rules.Window,
	}
}

// mayBorrow reports whether the pool may go beyond its floor: the node leaves
// its part of the floors of those that it has seen in the last window's length.
func (v *verdict) mayBorrow() bool {
	o, model := v.outlook, v.part(ScopeModel)
	var kept sums
	keep := func(p *PoolPolicy) {
		c := v.al.counts[ScopeRef{Scope: ScopePool, ID: p.Name, Model: v.ticket.Model}]
		if p.Name == o.Pool || c == nil {
			return
		}
		c.ring.advance(v.now, o.Rules.Window)
		if c.ring.total != (sums{}) {
			kept.requests += max(p.Floor.Requests.n/v.parts-c.ring.total.requests, 0)
			kept.tokens += max(p.Floor.Tokens.n/v.parts-c.ring.total.tokens, 0)
		}
	}
	for _, p := range o.Model.Pools {
		keep(p)
	}
	keep(o.Model.Default)
	left := model.room()
	return left.requests > kept.requests && left.tokens > kept.tokens && left.tokens >= kept.tokens+v.decision.Need
}

// partOf is a node's part of one scope's limits.
type partOf struct {
	count  *aloneCount
	st     *Standing
	parts  int64
	need   int64         // tokens that the request reserves
	endsIn time.Duration // of the window that runs; 0: none
	window time.Duration
}

// left returns what may still be admitted of a limit: of its part of the limit,
// and of its part of what the running window had left.
func (p *partOf) left(limit, used, ring, unseen int64) int64 {
	left := limit/p.parts - ring
	if p.endsIn > 0 {
		left = min(left, max(limit-used, 0)/p.parts-unseen)
	}
	return left
}

// room returns what is left of both dimensions, without a limit more than any
// request needs.
func (p *partOf) room() sums {
	c, st, room := p.count, p.st, sums{maxLent, maxLent}
	unseen := c.unseen()
	if n, ok := st.Limits.Requests.Get(); ok {
		room.requests = p.left(n, st.Used.Requests, c.ring.total.requests, unseen.requests)
	}
	if n, ok := st.Limits.Tokens.Get(); ok {
		room.tokens = p.left(n, st.Used.Tokens, c.ring.total.tokens, unseen.tokens)
	} else {
		room.tokens += p.need
	}
	return room
}

// check refuses where nothing is left; false if the part of a limit that is
// not 0 is nothing at all, or less than the request needs.
func (p *partOf) check(now time.Duration, s Scope, d *Decision) bool {
	c, st, room := p.count, p.st, p.room()
	if n, ok := st.Limits.Parallel.Get(); ok && c.held() >= max(n-st.Used.Parallel, 0)/p.parts {
		if n > 0 && n < p.parts {
			return false
		}
		d.refuse(s, Parallel, SlotRetry, SlotRetry)
	}
	if n, ok := st.Limits.Requests.Get(); ok && room.requests <= 0 {
		if n > 0 && n < p.parts {
			return false
		}
		p.refuse(now, s, Requests, n, 1, d)
	}
	if n, ok := st.Limits.Tokens.Get(); ok && (room.tokens <= 0 || room.tokens < p.need) {
		need := max(p.need, 1)
		if n > 0 && n/p.parts < need {
			return false
		}
		p.refuse(now, s, Tokens, n, need, d)
	}
	return true
}

// refuse says that the limit is used up, and when need of it is free again: once
// enough of the node's own has left the ring, and the running window is over if
// that is what is used up.
func (p *partOf) refuse(now time.Duration, s Scope, dim Dimension, limit, need int64, d *Decision) {
	free := sums{requests: p.count.ring.total.requests - limit/p.parts + need}
	if dim == Tokens {
		free = sums{tokens: p.count.ring.total.tokens - limit/p.parts + need}
	}
	var wait time.Duration
	if free.requests > 0 || free.tokens > 0 {
		wait = p.count.ring.until(now, free)
	}
	if wait = max(wait, p.endsIn); wait == 0 {
		wait = p.window
	}
	d.refuse(s, dim, wait, wait)
}

// show lets the standing say what this node may still admit, whatever the others
// have left.
func (p *partOf) show(d *Decision) {
	room, taken := p.room(), int64(0)
	if d.Admitted {
		taken = 1
	}
	if n, ok := p.st.Limits.Requests.Get(); ok {
		p.st.Used.Requests = n - min(max(room.requests-taken, 0), n)
	}
	if n, ok := p.st.Limits.Tokens.Get(); ok {
		p.st.Used.Tokens = n - min(max(room.tokens-p.need, 0), n)
	}
}

// saturation of the model, as far as a node alone can tell: it takes the others
// to be as busy as itself.
func (p *partOf) saturation() float64 {
	used := sums{p.count.ring.total.requests * p.parts, p.count.ring.total.tokens * p.parts}
	if p.endsIn > 0 {
		unseen := p.count.unseen()
		used.requests = max(used.requests, p.st.Used.Requests+unseen.requests*p.parts)
		used.tokens = max(used.tokens, p.st.Used.Tokens+unseen.tokens*p.parts)
	}
	return max(ratio(used.requests, p.st.Limits.Requests), ratio(used.tokens, p.st.Limits.Tokens))
}
