package limiter

// AsServed corrects what the Ledger counts by what this node alone knows, for
// people who look at a window: permits that it holds and has not used are taken
// off, tokens that it has settled and the replica does not show yet are added.
// Permits and tokens of other nodes are seen half a second late at most. What it
// has admitted without the log and not reported yet is added, also where no
// window runs. The mode is left alone, because decisions rest on the Ledger's count.
func (g *Gate) AsServed(ms ModelState) ModelState {
	g.correct(ms.Live, ScopeRef{Scope: ScopeModel, Model: ms.Model}, &ms.Used)
	for i := range ms.Pools {
		g.correct(ms.Live, ScopeRef{Scope: ScopePool, ID: ms.Pools[i].Name, Model: ms.Model}, &ms.Pools[i].Used)
	}
	st := Standing{Limits: ms.Limits, Used: ms.Used}
	ms.Saturation = saturation(&st)
	return ms
}

// Permits returns how many permits of the model this node holds and has not used.
func (g *Gate) Permits(model string) int64 {
	if a := g.bank.open(ScopeRef{Scope: ScopeModel, Model: model}); a != nil {
		return g.bank.unused(a)
	}
	return 0
}

func (g *Gate) correct(live bool, ref ScopeRef, u *Used) {
	if a := g.bank.open(ref); a != nil && live {
		u.Tokens += a.pending.Load()
		u.Requests = max(u.Requests-g.bank.unused(a), 0)
	}
	own := g.alone.unreportedOf(ref, g.bank.now(), g.window)
	u.Requests += own.requests
	u.Tokens += own.tokens
}

// unused returns the permits of a window that still runs.
func (b *bank) unused(a *account) int64 {
	if l := a.lease.Load(); l != nil && b.now() < l.end {
		return max(l.left.Load(), 0)
	}
	return 0
}
