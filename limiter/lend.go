package limiter

import (
	"math"
	"slices"
	"time"
)

// asked is an account whose wish is in the batch, and what the wish rests on.
type asked struct {
	account *account
	basis   *basis
	early   bool // nobody is short yet: what is left counts as a part of the wish
}

// refusalMemory is how long a refusal is repeated that may not be final.
const refusalMemory = 50 * time.Millisecond

// poolMemory is the same for a pool under work-conserving allocation: permits of
// the others come back all the time, and mostly leave it where it was.
const poolMemory = 250 * time.Millisecond

// A waiter whose refusal is not final is asked for again after parkTime, so that
// permits which other nodes give back go to those who came for them; parkTries
// times at most.
const (
	parkTime  = 15 * time.Millisecond
	parkTries = 4
)

// maxAsks bounds the wishes of one batch.
const maxAsks = 256

// reserve puts a waiter into the batch, with the permits that it brings and a
// wish for each scope that was short of them. g.mu is held.
func (g *Gate) reserve(b *Batch, w *waiter) {
	b.Reserves = append(b.Reserves, w.ticket)
	g.inflight = append(g.inflight, w)
	if w.path == nil {
		if b.Held != nil {
			b.Held = append(b.Held, noneHeld)
		}
		return
	}
	for len(b.Held) < len(b.Reserves) {
		b.Held = append(b.Held, noneHeld)
	}
	held := &b.Held[len(b.Reserves)-1]
	hopeless := w.path.hopeless(g.bank.now())
	for i := range w.path.steps {
		st := &w.path.steps[i]
		if l := w.got[st.scope]; l != nil {
			held[st.scope] = l.start
		} else if !hopeless && !st.account.asked && len(g.asking) < maxAsks {
			st.account.asked = true
			g.asking = append(g.asking, asked{account: st.account, basis: st.on})
		}
	}
}

// ask adds the wishes to the batch, which is about size bytes without them. g.mu is held.
func (g *Gate) ask(b *Batch, size int) {
	now, parts, lease := g.bank.now(), int64(max(g.o.Parts(), 1)), g.o.Lease()
	if lease > 0 && len(b.Reserves)+len(b.Settles)+len(b.Returns) > 0 {
		g.renew(now, size)
	}
	for _, a := range g.asking {
		a.account.asked = false
		want := a.account.want(now)
		if l := a.account.lease.Load(); a.early && l != nil {
			want = max(want-max(l.left.Load(), 0), 0)
		}
		b.Grants = append(b.Grants, Ask{Ref: a.account.ref, Want: want, Parts: parts, For: lease})
	}
}

// renew adds wishes for permits that will not last until the next batch. They
// travel with what has to be written anyway: else every account of a busy node
// would run short at a moment of its own, and cost an entry of its own.
func (g *Gate) renew(now time.Duration, size int) {
	for _, a := range g.lent {
		if len(g.asking) >= maxAsks || size >= maxBatchBytes {
			return
		}
		if l := a.lease.Load(); l != nil && !a.asked && l.scarce() && !a.stale(l, now) {
			a.asked = true
			size += a.ref.size()
			g.asking = append(g.asking, asked{account: a, basis: l.on, early: true})
		}
	}
}

// lend makes leases of what was granted. Everything is measured from before the
// batch was sent, so that no permit lives longer than the ledger means it to.
func (g *Gate) lend(b *Batch, a *Answer, sent time.Duration, err error) {
	asking := g.asking
	g.asking = g.asking[:0]
	if err != nil {
		return
	}
	for i, as := range asking {
		gr := &a.Grants[i]
		if gr.N <= 0 {
			continue
		}
		l := &lease{on: as.basis, start: gr.Start, strict: gr.Strict, limits: gr.Limits, used: gr.Used}
		l.until = sent + min(b.Grants[i].For, gr.EndIn)
		l.end = g.bank.now() + gr.EndIn // what is returned too late does no harm
		l.n, l.plenty = gr.N, gr.N == b.Grants[i].Want
		l.left.Store(gr.N)
		acc := as.account
		l.ownUntil = acc.own.Load() + as.basis.tokensFor(gr, b.Grants[i].Parts)
		if old := acc.lease.Swap(l); old != nil {
			n := old.close()
			acc.missed.Add(old.spent(n))
			if old.start == l.start && old.strict == l.strict && old.on.same(l.on) {
				l.n += n
				l.left.Add(n)
			} else {
				g.bank.giveBack(acc, old, n)
			}
		}
		if !acc.lent {
			acc.lent = true
			g.lent = append(g.lent, acc)
		}
		g.nextSweep = min(g.nextSweep, l.until)
	}
}

// tokensFor returns how many tokens a node may spend on a grant: up to half of
// an even part of what is left until the limit, or until pools are enforced.
func (on *basis) tokensFor(g *Grant, parts int64) int64 {
	n, limited := g.Limits.Tokens.Get()
	if !limited {
		return math.MaxInt64 / 2
	}
	switch {
	case on.sharing.Conserving:
		return g.Room / (2 * parts)
	case on.reserved && !g.Strict:
		n = int64(on.threshold * float64(n))
	}
	return max(n-g.Used.Tokens, 0) / (2 * parts)
}

// sweep gives back the permits that may not be used any more.
func (g *Gate) sweep() {
	now := g.bank.now()
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if !g.bank.sweep.Swap(false) && now < g.nextSweep && !closed {
		return
	}
	g.nextSweep = forEver
	kept := g.lent[:0]
	for _, a := range g.lent {
		l := a.lease.Load()
		if l == nil || closed || a.stale(l, now) {
			g.bank.revoke(a)
			a.lent = false
			continue
		}
		g.nextSweep = min(g.nextSweep, l.until)
		kept = append(kept, a)
	}
	clear(g.lent[len(kept):])
	g.lent = kept
}

// putBack undoes what a waiter took that was not decided.
func (g *Gate) putBack(w *waiter) {
	if w.path != nil {
		g.bank.putBack(w.path, &w.got)
		w.got = [NumScopes]*lease{}
	}
}

// remember keeps a refusal, so that those who come next need not ask, and puts
// back the permits that the refused one brought.
func (g *Gate) remember(w *waiter, d *Decision, sent time.Duration) {
	if d.Admitted && w.path != nil && w.path.told != nil {
		w.path.told.refused.Store(nil)
	}
	if d.Admitted || w.path == nil {
		return
	}
	g.putBack(w)
	if st := w.path.step(d.Scope); st != nil {
		g.bank.remember(&w.ticket, d, st.on, sent)
	}
}

// park keeps a waiter whose refusal is not final; false if it has to be told.
func (g *Gate) park(w *waiter, d *Decision) bool {
	if d.Admitted || d.Final || d.Dimension != Requests || w.path == nil || w.tries == parkTries || w.over.Load() {
		return false
	}
	if a := w.path.step(d.Scope); a != nil && w.tries == 0 && !a.account.press(a.on, g.bank.now()) {
		return false
	}
	w.tries++
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	if len(g.parked) == 0 {
		g.parkedUntil = g.bank.now() + parkTime
	}
	g.parked = append(g.parked, w)
	return true
}

// unpark lets the parked waiters try again: with permits that have come
// meanwhile, else in the batch that is being made. g.mu is held.
func (g *Gate) unpark() {
	now := g.bank.now()
	for i, w := range g.parked {
		if w.over.Load() || g.bank.draw(w.path, now, &w.got) {
			continue // stays among those who ask the ledger
		}
		w.warm = true
		if !w.conclude(nil, nil) {
			g.putBack(w)
		}
		g.parked[i] = nil
	}
	ask := slices.DeleteFunc(g.parked, func(w *waiter) bool { return w == nil })
	g.waiting, g.parked = append(ask, g.waiting...), nil
}
