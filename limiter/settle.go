package limiter

import "time"

// settleOf repeats what a decision counted, for the Ledger to find it again.
func settleOf(t *Ticket, d *Decision, u Usage) Settle {
	s := Settle{Ticket: *t, Pool: d.Pool, Slots: d.Slots, Count: 1, Usage: u}
	for i := range d.Standings {
		s.Starts[i] = d.Standings[i].Start
	}
	return s
}

// settleKey is what two settlements must share to be merged.
type settleKey struct {
	ticket Ticket
	starts [NumScopes]Time
	pool   string
	slots  SlotSet
}

// settleSet collects settlements until a batch takes them. Those alike are
// merged, so that a node without a quorum keeps few of them.
type settleSet struct {
	index  map[settleKey]int // into list
	list   []Settle
	since  time.Time // of the oldest
	urgent bool      // some of them free slots, which others may be waiting for
}

func newSettleSet() *settleSet { return &settleSet{index: map[settleKey]int{}} }

func (ss *settleSet) add(s Settle, now time.Time) {
	if len(ss.list) == 0 {
		ss.since = now
	}
	ss.urgent = ss.urgent || s.Slots != 0
	k := settleKey{s.Ticket, s.Starts, s.Pool, s.Slots}
	if i, ok := ss.index[k]; ok {
		m := &ss.list[i]
		m.Count += s.Count
		m.Usage.Input += s.Usage.Input
		m.Usage.Output += s.Usage.Output
		m.Usage.Cached += s.Usage.Cached
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

// settle queues a settlement for the next batch, unless it says nothing.
func (g *Gate) settle(s Settle) {
	if s.Slots == 0 && s.Usage == (Usage{}) {
		return
	}
	g.mu.Lock()
	g.settling.add(s, g.o.Now())
	g.mu.Unlock()
	g.poke()
}
