package limiter

import (
	"sync"
	"sync/atomic"
	"time"
)

// bank holds this node's permits. Admissions read it without a lock; what it
// has to give back waits for the next batch.
type bank struct {
	now      func() time.Duration // node time: monotonic, since the Gate began
	paths    pathMap
	accounts sync.Map     // ScopeRef → *account
	opened   atomic.Int64 // accounts, about

	// Of the applying goroutine.
	rules  Rules         // as last observed
	offset time.Duration // of node time from ledger time, with the shortest way of an entry to here

	sweep  atomic.Bool // leases are to be looked through at once
	urgent atomic.Bool // somebody waits for the returns

	mu      sync.Mutex
	returns map[returnKey]int64
	poke    func()
}

type returnKey struct {
	ref   ScopeRef
	start Time
}

func newBank(now func() time.Duration, poke func()) *bank {
	return &bank{now: now, poke: poke, returns: map[returnKey]int64{}, offset: forEver}
}

func (b *bank) account(ref ScopeRef) *account {
	if a, ok := b.accounts.Load(ref); ok {
		return a.(*account)
	}
	if b.opened.Add(1) > maxAccounts {
		b.restart()
	}
	made := &account{ref: ref}
	if ref.Scope == ScopePool {
		made.model = b.account(ScopeRef{Scope: ScopeModel, Model: ref.Model})
	}
	a, _ := b.accounts.LoadOrStore(ref, made)
	return a.(*account)
}

// maxAccounts bounds the accounts: under a wildcard with limits per name
// clients can make up as many as they like.
const maxAccounts = 200_000

// restart forgets all accounts and returns their permits. Who still holds one
// of them goes on with it to the end of its lease.
func (b *bank) restart() {
	b.opened.Store(1)
	b.accounts.Range(func(k, v any) bool {
		b.accounts.Delete(k)
		b.revoke(v.(*account))
		return true
	})
	b.paths.clear()
}

// open returns the account if there is one.
func (b *bank) open(ref ScopeRef) *account {
	if a, ok := b.accounts.Load(ref); ok {
		return a.(*account)
	}
	return nil
}

// revoke closes the account's lease and returns what is left of it.
func (b *bank) revoke(a *account) {
	if l := a.lease.Swap(nil); l != nil {
		b.giveBack(a, l, l.close())
	}
}

// giveBack queues n permits for return, unless their window is over.
func (b *bank) giveBack(a *account, l *lease, n int64) {
	if n <= 0 || b.now() >= l.end {
		return
	}
	b.owe(a.ref, l.start, n)
	b.poke()
}

// owe queues n counted requests that were not used for return.
func (b *bank) owe(ref ScopeRef, start Time, n int64) {
	b.mu.Lock()
	b.returns[returnKey{ref, start}] += n
	b.mu.Unlock()
}

// takeReturns empties the queue of returns, n of them at most.
func (b *bank) takeReturns(n int) (out []Return) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, count := range b.returns {
		if len(out) == n {
			break
		}
		out = append(out, Return{Ref: k.ref, Start: k.start, N: count})
		delete(b.returns, k)
	}
	if len(b.returns) == 0 {
		b.urgent.Store(false)
	}
	return out
}

func (b *bank) owes() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.returns) > 0
}

// hurry reports whether there are returns that somebody waits for.
func (b *bank) hurry() bool { return b.urgent.Load() && b.owes() }

// remember keeps a refusal that was decided at node time at or later: until its
// scope's window ends if it is final, else for a moment. It holds for those who
// rest on the same basis as the account did when the batch was made.
func (b *bank) remember(t *Ticket, d *Decision, on *basis, at time.Duration) {
	a := b.open(refOf(d.Scope, t, d.Pool))
	if a == nil || d.Dimension == Parallel {
		return
	}
	r := &refused{on: on, dimension: d.Dimension, end: at + d.ResetIn, saturation: d.Saturation, standing: d.Standings[d.Scope], model: d.Standings[ScopeModel]}
	r.until = r.end
	if d.Scope == ScopePool { // sooner, if others give up a part of the model by then
		r.until = min(r.until, at+d.RetryIn)
	}
	r.fits = r.until
	r.soon = b.now() + refusalMemory
	if on.conserving() && !a.pressing(b.now()) {
		r.soon = b.now() + poolMemory
	}
	if !d.Final || a.returned.Load() > int64(at) {
		r.until = min(r.until, r.soon)
	}
	a.refused.Store(r)
}

// refusal returns the first remembered refusal on the path as a Decision, nil
// if there is none. The wait is the longest of those remembered.
func (b *bank) refusal(pa *path, got *[NumScopes]*lease, now time.Duration) *Decision {
	var d *Decision
	for i := range pa.steps {
		st := &pa.steps[i]
		r := st.account.refused.Load()
		if m := st.account.model; r == nil || now >= r.until || !r.on.same(st.on) || m != nil && !m.strict.Load() {
			continue
		}
		if got[st.scope] != nil && r.on.conserving() {
			continue // it is about those who have no permit
		}
		wait, fits := r.end-now, r.fits-now
		if d == nil {
			d = &Decision{Scope: st.scope, Dimension: r.dimension, ResetIn: wait, Saturation: r.saturation, Pool: pa.pool, Strict: true}
			for s := range d.Standings {
				d.Standings[s].Start = NoWindow
			}
			d.Standings[ScopeModel] = r.model
			d.Standings[st.scope] = r.standing
		}
		d.RetryIn = max(d.RetryIn, fits)
	}
	return d
}

// draw takes one permit of each scope on the path. Where that is not possible
// everywhere it keeps what it got, for the ledger to decide on the rest: short
// is then true.
func (b *bank) draw(pa *path, now time.Duration, got *[NumScopes]*lease) (short bool) {
	for i := range pa.steps {
		st := &pa.steps[i]
		l := st.account.lease.Load()
		if l == nil || !st.account.mayUse(l, st.on, now) || !l.take() {
			st.account.missed.Add(1)
			short = true
			continue
		}
		got[st.scope] = l
	}
	return short
}

// forget drops everything that rests on a ledger that was replaced.
func (b *bank) forget() {
	b.offset = forEver
	b.accounts.Range(func(_, v any) bool {
		a := v.(*account)
		a.refused.Store(nil)
		a.pending.Store(0)
		a.seen.Store(nil)
		if l := a.lease.Swap(nil); l != nil {
			l.close()
		}
		return true
	})
}

// putBack undoes draw.
func (b *bank) putBack(pa *path, got *[NumScopes]*lease) {
	for i := range pa.steps {
		st := &pa.steps[i]
		if l := got[st.scope]; l != nil && !l.putBack() {
			b.giveBack(st.account, l, 1)
		}
	}
}
