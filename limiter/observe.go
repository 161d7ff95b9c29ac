package limiter

import "time"

// Observe tells the Gate what a batch of any node has changed in this node's
// replica: the tokens recorded, and which models are at their threshold. The
// state machine calls it after each batch, on the applying goroutine, while the
// Ledger stands still. It does not wait for anybody.
func (g *Gate) Observe(now Time, b *Batch, a *Answer, l *Ledger, p Policy) {
	g.bank.offset = min(g.bank.offset, g.bank.now()-time.Duration(now))
	rules := p.Rules()
	g.bank.observeRules(rules)
	for i := range b.Settles {
		g.bank.observeSettle(&b.Settles[i], b.Node == g.o.Node, l, p)
	}
	models := map[string]bool{}
	for i := range b.Reports {
		ref := b.Reports[i].Ref
		models[ref.Model] = true
		g.bank.observeTokens(ref, l)
	}
	for i := range b.Settles {
		models[b.Settles[i].Ticket.Model] = true
	}
	for i := range b.Reserves {
		models[b.Reserves[i].Model] = true
	}
	for i := range b.Grants {
		models[b.Grants[i].Ref.Model] = true
	}
	for i := range b.Returns {
		models[b.Returns[i].Ref.Model] = true
		g.bank.observeReturn(b.Returns[i].Ref)
		if ref := &b.Returns[i].Ref; ref.Scope == ScopeModel && rules.Sharing.Conserving {
			g.bank.observePoolReturns(ref.Model, p)
		}
	}
	for name := range models {
		g.bank.observeModel(now, name, l, p, &rules)
	}
	if b.Node != g.o.Node {
		g.bank.overhear(now, b, a)
	}
}

// Forget drops all permits and what else rests on the Ledger, because the state
// machine has replaced it by another one. Same goroutine as Observe.
func (g *Gate) Forget() { g.bank.forget() }

// observeRules drops the pending tokens when others begin to count: they would
// not be taken off as they were added, and what is left over would stay.
func (b *bank) observeRules(now Rules) {
	was := b.rules
	if b.rules = now; was.TokenType == now.TokenType && was.IgnoreCached == now.IgnoreCached {
		return
	}
	b.accounts.Range(func(_, v any) bool {
		v.(*account).pending.Store(0)
		return true
	})
}

func (b *bank) observeSettle(s *Settle, own bool, l *Ledger, p Policy) {
	for scope, start := range s.Starts {
		if start == NoWindow {
			continue
		}
		a := b.observeTokens(refOf(Scope(scope), &s.Ticket, s.Pool), l)
		if own && a != nil { // after seen, so that no moment shows too few
			a.settled(p.Rules().news(s))
		}
	}
}

// observeTokens notes what is recorded in a scope that has an account.
func (b *bank) observeTokens(ref ScopeRef, l *Ledger) *account {
	a := b.open(ref)
	if a == nil {
		return nil
	}
	if c := l.counter(ref); c != nil {
		a.seen.Store(&seen{start: l.startOf(ref, c), tokens: c.tokens})
	}
	return a
}

// startOf returns the start of the counter's window; a pool has its model's.
func (l *Ledger) startOf(ref ScopeRef, c *count) Time {
	if ref.Scope == ScopePool {
		return l.models[ref.Model].start
	}
	return c.start
}

// observeReturn forgets a refusal: permits that stayed out for longer than they
// were lent (the log was silent, or the last of them were on their way) have
// come back, and the scope may admit again.
func (b *bank) observeReturn(ref ScopeRef) {
	if a := b.open(ref); a != nil {
		a.returned.Store(int64(b.now()))
		a.refused.Store(nil)
	}
}

// observePoolReturns does the same for the pools of a model, all of which may
// take what another one has left.
func (b *bank) observePoolReturns(model string, p Policy) {
	mp := p.Model(model)
	if mp == nil || mp.Pools == nil {
		return
	}
	b.reconsider(ScopeRef{Scope: ScopePool, Model: model})
	for pool := range mp.Pools {
		b.reconsider(ScopeRef{Scope: ScopePool, ID: pool, Model: model})
	}
}

// reconsider lets the ledger be asked again, but for no permits before it admits.
func (b *bank) reconsider(pool ScopeRef) {
	a := b.open(pool)
	if a == nil {
		return
	}
	a.returned.Store(int64(b.now()))
	r := a.refused.Load()
	if r == nil {
		return
	}
	soon := r.soon
	if a.pressing(b.now()) {
		soon = 0 // these were called back for it
	}
	if r.until > soon {
		again := *r
		again.until = soon
		a.refused.CompareAndSwap(r, &again)
	}
}

func (b *bank) observeModel(now Time, name string, l *Ledger, p Policy, rules *Rules) {
	a, mp := b.open(ScopeRef{Scope: ScopeModel, Model: name}), p.Model(name)
	if a == nil || mp == nil {
		return
	}
	strict := rules.strict(mp, 0)
	if m := l.models[name]; m != nil && m.live(now, rules.Window) {
		strict = rules.strict(mp, saturationOf(&m.count, mp.Limits))
	}
	if a.strict.Swap(strict) != strict {
		b.sweep.Store(true) // permits of the other mode go back
		b.poke()
	}
	if mp.Pools == nil || !rules.Sharing.Conserving {
		return
	}
	was := a.active
	if a.active = l.activePools(now, name); a.active > was {
		b.recallPools(name, mp) // they may be a part of the newcomer's floor
	}
}

// hearsay is how much later than its decision a refusal of another node may be
// heard of: asking the ledger that much too early costs little, and refusing
// beyond the window's end would be wrong.
const hearsay = 25 * time.Millisecond

// overhear learns from what another node was refused. For good: then this node
// need not ask either. Because of permits that are out: then it gives back what
// it holds, so that the last requests of a limit go to whoever asks for them.
func (b *bank) overhear(now Time, batch *Batch, a *Answer) {
	for i := range a.Decisions {
		d, t := &a.Decisions[i], &batch.Reserves[i]
		switch {
		case d.Admitted:
		case d.Final:
			b.hear(now, t, d)
		case d.Dimension == Requests:
			ref := refOf(d.Scope, t, d.Pool)
			if a := b.open(ref); a != nil && !a.press(a.basis.Load(), b.now()) {
				continue
			}
			b.urgent.Store(true)
			b.recall(ref)
			if d.Scope == ScopePool { // the model may turn generous again
				b.recall(ScopeRef{Scope: ScopeModel, Model: t.Model})
			}
		}
	}
}

// hear remembers a refusal that another node got at now. A replica that was
// stopped or cut off hears of it long after.
func (b *bank) hear(now Time, t *Ticket, d *Decision) {
	if a := b.open(refOf(d.Scope, t, d.Pool)); a != nil {
		b.remember(t, d, a.basis.Load(), b.offset+time.Duration(now)-hearsay)
	}
}

func (b *bank) recall(ref ScopeRef) {
	if a := b.open(ref); a != nil {
		b.revoke(a)
	}
}

// recallPools gives back all permits of a model's pools.
func (b *bank) recallPools(model string, mp *ModelPolicy) {
	b.urgent.Store(true)
	b.recall(ScopeRef{Scope: ScopePool, Model: model})
	for pool := range mp.Pools {
		b.recall(ScopeRef{Scope: ScopePool, ID: pool, Model: model})
	}
}
