package limiter

import "time"

// settleOf repeats what a decision counted, for the Ledger to find it again.
func settleOf(t *Ticket, d *Decision, u Usage) Settle {
	s := Settle{Ticket: *t, Pool: d.Pool, Slots: d.Slots, Count: 1, Usage: u, Reserved: d.Need}
	s.Ticket.Estimate = Usage{} // so that settlements alike are merged
	for i := range d.Standings {
		s.Starts[i] = d.Standings[i].Start
	}
	return s
}

// settlement repeats what the receipt's admission counted.
func (r *Receipt) settlement(u Usage) Settle {
	if r.decision != nil {
		return settleOf(r.ticket, r.decision, u)
	}
	s := Settle{Ticket: *r.ticket, Pool: r.path.pool, Count: 1, Usage: u, Starts: noneHeld}
	for scope, l := range r.leases {
		if l != nil {
			s.Starts[scope] = l.start
		}
	}
	return s
}

// settleKey is what two settlements must share to be merged.
type settleKey struct {
	ticket   Ticket
	starts   [NumScopes]Time
	pool     string
	slots    SlotSet
	reserved bool // see news
}

// settleSet collects settlements until a batch takes them. Those alike are
// merged, so that a node without a quorum keeps few of them.
type settleSet struct {
	index  map[settleKey]int // into list
	list   []Settle
	since  time.Time // of the oldest
	urgent bool      // some of them free slots, which others may be waiting for
	much   bool      // their tokens are a good part of a limit
}

func newSettleSet() *settleSet { return &settleSet{index: map[settleKey]int{}} }

func (ss *settleSet) add(s Settle, now time.Time) {
	if len(ss.list) == 0 {
		ss.since = now
	}
	ss.urgent = ss.urgent || s.Slots != 0
	k := settleKey{s.Ticket, s.Starts, s.Pool, s.Slots, s.Reserved != 0}
	if i, ok := ss.index[k]; ok {
		m := &ss.list[i]
		m.Count += s.Count
		m.Usage.Input += s.Usage.Input
		m.Usage.Output += s.Usage.Output
		m.Usage.Cached += s.Usage.Cached
		m.Reserved += s.Reserved
		return
	}
	ss.index[k] = len(ss.list)
	ss.list = append(ss.list, s)
}

// take removes at most n settlements of about size bytes, the oldest first.
func (ss *settleSet) take(n, size int) (out []Settle, used int) {
	if len(ss.list) == 0 {
		return nil, 0
	}
	for len(out) < min(n, len(ss.list)) && used < size {
		s := &ss.list[len(out)]
		used += s.Ticket.size() + len(s.Pool) + 10*NumScopes
		out = append(out, *s)
	}
	rest, since := ss.list[len(out):], ss.since
	*ss = *newSettleSet()
	for _, s := range rest {
		ss.add(s, since)
	}
	return out, used
}

// settle queues a settlement for the next batch, unless it says nothing. The
// tokens count against this node's permits at once.
func (g *Gate) settle(s Settle) {
	if s.Slots == 0 && s.Usage == (Usage{}) && s.Reserved == 0 {
		return
	}
	much := g.pend(&s)
	g.mu.Lock()
	g.settling.add(s, g.o.Now())
	g.settling.much = g.settling.much || much
	g.mu.Unlock()
	g.poke()
}

// news returns the tokens of a settlement that nobody has counted yet. Where
// tokens were reserved that is nothing: all know of those, and merged settlements
// cannot tell what each of them had beyond them.
func (r Rules) news(s *Settle) int64 {
	if s.Reserved != 0 {
		return 0
	}
	return r.counted(s.Usage)
}

// muchPending is the hundredth part of a token limit at which settlements that
// others do not know of yet hurry: what several nodes admit beyond a token limit
// is in flight, or below that part on each of them.
const muchPending = 100

// pend counts the settlement's tokens against this node's own permits, and
// reports whether much is pending.
func (g *Gate) pend(s *Settle) (much bool) {
	rules := g.o.Policy().Rules()
	tokens := rules.news(s)
	much = s.Reserved > 0 // others may be waiting for what was not used
	for scope, start := range s.Starts {
		if start == NoWindow {
			continue
		}
		a := g.bank.open(refOf(Scope(scope), &s.Ticket, s.Pool))
		if a == nil {
			continue
		}
		pending := a.pend(tokens)
		if on := a.basis.Load(); on != nil {
			n, limited := on.limits.Tokens.Get()
			much = much || limited && pending*muchPending >= n
		}
	}
	return much
}
