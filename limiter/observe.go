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
	window := rules.Window
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
	}
	for name := range models {
		g.bank.observeModel(now, name, l, p, window)
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
			a.settled(p.Rules().counted(s.Usage))
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

func (b *bank) observeModel(now Time, name string, l *Ledger, p Policy, window time.Duration) {
	a, mp := b.open(ScopeRef{Scope: ScopeModel, Model: name}), p.Model(name)
	if a == nil || mp == nil {
		return
	}
	strict := mp.Threshold <= 0
	if m := l.models[name]; m != nil && m.live(now, window) {
		strict = saturationOf(&m.count, mp.Limits) >= mp.Threshold
	}
	if a.strict.Swap(strict) != strict {
		b.sweep.Store(true) // permits of the other mode go back
		b.poke()
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
			b.urgent.Store(true)
			b.recall(refOf(d.Scope, t, d.Pool))
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
