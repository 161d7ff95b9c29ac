package limiter

import (
	"slices"
	"sync"
	"time"
)

// A node that gets no answer from the log may go on by itself, as
// limits.on_no_quorum says. With share each of the N nodes takes at most an Nth
// of every limit, in two ways at once:
//
//   - in any window's length, of what it admits by itself, floor(limit / N);
//   - in a window that its replica saw running, floor(what was left / N).
//
// So the nodes together stay within every limit while none of them has a
// quorum; k nodes that are cut off from a working majority add at most k/N of a
// limit to it. With allow the same holds for N = 1. What was admitted is
// reported with the first batch that is answered.

// alone is the decisions that a node makes without the log. Admissions that
// need it take its lock: they have waited for the log before.
type alone struct {
	// mark notes on disk, before the first admission, that there are some to
	// report, and takes the note back; a process that finds it waits for a
	// window before it goes on alone, because it does not know how many.
	mark func(on bool) error

	mu        sync.Mutex
	counts    map[ScopeRef]*aloneCount
	pending   []ScopeRef // to be reported, a model before its pools
	sent      []ScopeRef // in reports that are on their way
	batch     uint64     // number of the newest batch that took reports
	inherited bool       // an earlier process run has left the note
	marked    bool
	last      time.Duration // node time of the last admission
	swept     time.Duration
}

// aloneCount is one scope's admissions.
type aloneCount struct {
	ring       ring
	unreported sums
	newest     time.Duration // node time of the newest admission that unreported holds
	slots      int64         // in flight, and not in the Ledger
	sent       sums          // in a report that has no answer yet: the replica may not show it
	sentSlots  int64
	reports    uint64 // how often slots went to the Ledger
	taken      uint64 // number of the newest batch that took a report
	pending    bool
}

// unseen returns what the replica does not show, as far as this node knows.
func (c *aloneCount) unseen() sums {
	return sums{c.unreported.requests + c.sent.requests, c.unreported.tokens + c.sent.tokens}
}

// held returns the slots that the replica does not show, as far as this node knows.
func (c *aloneCount) held() int64 { return c.slots + c.sentSlots }

func newAlone(mark func(on bool) error, inherited bool) *alone {
	return &alone{mark: mark, counts: map[ScopeRef]*aloneCount{}, marked: inherited, inherited: inherited}
}

// aloneReceipt is what a receipt remembers of an admission that the log did not decide.
type aloneReceipt struct {
	mode    NoQuorum
	at      time.Duration
	reports [NumScopes]uint64 // of each scope's count, where it holds a slot
	batch   uint64            // newest batch that took reports at the admission
}

// admit decides a ticket at node time now. ErrNoQuorum: its part of some limit
// is nothing at all, or is not known.
func (al *alone) admit(now time.Duration, t *Ticket, o *Outlook, parts int64) (*Decision, *aloneReceipt, error) {
	window := o.Rules.Window
	al.mu.Lock()
	defer al.mu.Unlock()
	al.sweep(now, window)
	if al.inherited && now < window {
		return nil, nil, ErrNoQuorum
	}
	d := &Decision{Admitted: true, Pool: o.Pool, Standings: o.Standings}
	v := verdict{al: al, now: now, ticket: t, outlook: o, parts: parts, decision: d}
	if !v.check() {
		return nil, nil, ErrNoQuorum
	}
	if !d.Admitted {
		return d, nil, nil
	}
	if al.full(t, d) {
		return nil, nil, ErrNoQuorum
	}
	if !al.marked {
		if err := al.mark(true); err != nil {
			return nil, nil, ErrNoQuorum // what is not noted could be admitted twice
		}
		al.marked = true
	}
	return d, al.take(now, t, d, window), nil
}

// take counts an admitted ticket in every scope that limits it.
func (al *alone) take(now time.Duration, t *Ticket, d *Decision, window time.Duration) *aloneReceipt {
	r := &aloneReceipt{at: now, batch: al.batch}
	al.last = now
	for s := Scope(0); s < numScopes; s++ {
		st := &d.Standings[s]
		if !st.counts && !st.Limits.Parallel.IsSet() {
			continue
		}
		c := al.count(refOf(s, t, d.Pool), now, window)
		if st.counts {
			one := sums{requests: 1, tokens: d.Need}
			c.ring.add(one)
			al.report(c, refOf(s, t, d.Pool), one, now)
		}
		if st.Limits.Parallel.IsSet() {
			c.slots++
			r.reports[s] = c.reports
			al.report(c, refOf(s, t, d.Pool), sums{}, now)
			d.Slots = d.Slots.With(s)
		}
	}
	return r
}

func (al *alone) count(ref ScopeRef, now, window time.Duration) *aloneCount {
	c := al.counts[ref]
	if c == nil {
		c = &aloneCount{}
		al.counts[ref] = c
	}
	c.ring.advance(now, window)
	return c
}

// report queues what the Ledger does not know yet.
func (al *alone) report(c *aloneCount, ref ScopeRef, s sums, at time.Duration) {
	c.unreported.add(s)
	c.newest = max(c.newest, at)
	if !c.pending {
		c.pending = true
		al.pending = append(al.pending, ref)
	}
}

// settle counts the tokens of a receipt. It returns what the Ledger has to take
// back, because it was reported meanwhile: slots, and in which scopes tokens that
// were reserved in vain.
func (al *alone) settle(now time.Duration, t *Ticket, d *Decision, r *aloneReceipt, tokens int64, window time.Duration) (reported, unused SlotSet) {
	al.mu.Lock()
	defer al.mu.Unlock()
	for s := Scope(0); s < numScopes; s++ {
		st := &d.Standings[s]
		if !st.counts && !d.Slots.Has(s) {
			continue
		}
		ref := refOf(s, t, d.Pool)
		c := al.count(ref, now, window)
		if more := tokens - d.Need; st.counts && more < 0 && c.taken > r.batch {
			unused = unused.With(s)
		} else if st.counts && more != 0 {
			// What was reserved in vain comes back to the cluster, not to this node's
			// part: its room would be younger than the rest of the window's length.
			c.ring.add(sums{tokens: max(more, 0)})
			al.report(c, ref, sums{tokens: more}, r.at)
		}
		switch {
		case !d.Slots.Has(s):
		case c.reports != r.reports[s]:
			reported = reported.With(s)
		default:
			c.slots--
		}
	}
	return reported, unused
}

// recent returns what the Ledger does not know yet of a scope, and will count if
// a window runs: what is older than one is in none that does.
func (c *aloneCount) recent(now, window time.Duration) sums {
	c.ring.advance(now, window)
	return sums{min(c.unreported.requests, c.ring.total.requests), max(min(c.unreported.tokens, c.ring.total.tokens), 0)}
}

// unreportedOf returns what a report of the scope would say now.
func (al *alone) unreportedOf(ref ScopeRef, now time.Duration, window func() time.Duration) sums {
	al.mu.Lock()
	defer al.mu.Unlock()
	if c := al.counts[ref]; c != nil {
		return c.recent(now, window())
	}
	return sums{}
}

// owes reports whether there is something to report.
func (al *alone) owes() bool {
	al.mu.Lock()
	defer al.mu.Unlock()
	return len(al.pending) > 0
}

// takeReports removes at most n reports of about size bytes; more says whether
// some are left. They count against the node's part until reported is called.
func (al *alone) takeReports(now time.Duration, window func() time.Duration, n, size int) (out []Report, more bool) {
	al.mu.Lock()
	defer al.mu.Unlock()
	if len(al.pending) > 0 {
		al.batch++
	}
	for used := 0; len(al.pending) > 0 && len(out) < n && used < size; {
		ref := al.pending[0]
		al.pending = al.pending[1:]
		c := al.counts[ref]
		recent := c.recent(now, window())
		r := Report{Ref: ref, Slots: c.slots, Age: now - c.newest, Requests: recent.requests, Tokens: recent.tokens}
		if r.Requests+r.Tokens+r.Slots > 0 {
			used += ref.size()
			out = append(out, r)
			al.sent = append(al.sent, ref)
			c.sent, c.sentSlots = c.unreported, c.slots
		}
		c.unreported, c.newest, c.pending = sums{}, 0, false
		c.taken = al.batch
		if c.slots > 0 {
			c.slots, c.reports = 0, c.reports+1
		}
	}
	if len(al.pending) == 0 {
		al.pending = nil
	}
	return out, len(al.pending) > 0
}

// reported is called when the batch with the reports was answered: the Ledger
// counts them.
func (al *alone) reported() {
	al.mu.Lock()
	defer al.mu.Unlock()
	for _, ref := range al.sent {
		if c := al.counts[ref]; c != nil {
			c.sent, c.sentSlots = sums{}, 0
		}
	}
	al.sent = nil
}

// sweep forgets scopes that nothing is known of any more, once per window. What
// is still to be reported of them is of a window that is over.
func (al *alone) sweep(now, window time.Duration) {
	if now-al.swept < window {
		return
	}
	al.swept = now
	for ref, c := range al.counts {
		c.ring.advance(now, window)
		if c.ring.total == (sums{}) && c.held() == 0 && c.reports == 0 {
			delete(al.counts, ref)
		}
	}
	al.pending = slices.DeleteFunc(al.pending, func(ref ScopeRef) bool { return al.counts[ref] == nil })
}

// full reports whether the ticket names a scope that there is no room to count.
func (al *alone) full(t *Ticket, d *Decision) bool {
	if len(al.counts)+NumScopes <= maxAccounts {
		return false
	}
	for s := Scope(0); s < numScopes; s++ {
		st := &d.Standings[s]
		if (st.counts || st.Limits.Parallel.IsSet()) && al.counts[refOf(s, t, d.Pool)] == nil {
			return true
		}
	}
	return false
}

// rest takes the note on disk back once all is reported and a window has passed
// since; it returns how long that takes, forEver if there is no note.
func (al *alone) rest(now time.Duration, window func() time.Duration) time.Duration {
	al.mu.Lock()
	defer al.mu.Unlock()
	if !al.marked || len(al.pending) > 0 {
		return forEver
	}
	length := window()
	over := al.last + length + length/ringSlots // of an earlier process run: from the start of this one
	if now < over {
		return over - now
	}
	if al.mark(false) != nil {
		al.last = now // another time
		return length
	}
	al.marked, al.inherited = false, false
	return forEver
}
