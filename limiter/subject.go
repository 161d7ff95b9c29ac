package limiter

import "time"

// subjects are the keys or the teams that the Ledger has counted lately. A
// subject whose windows are over and that holds no slot is forgotten, and its
// memory used again: a million keys cost what the busy ones cost.
type subjects struct {
	byID    map[string]*subject
	expires queue // subjects in the order in which their windows opened
	free    []*subject
}

// subject counts one key or team, also per model where that is limited.
type subject struct {
	id       string
	total    count
	models   map[string]*count
	slots    []nodeSlots
	parallel int64 // sum of slots, without those of silent nodes
}

// nodeSlots are the requests in flight that one node holds for a subject.
type nodeSlots struct {
	node   string
	n      int64
	silent bool // the node does not answer: kept for its return, but not counted
}

func newSubjects() subjects { return subjects{byID: map[string]*subject{}} }

// look reads the two standings of a subject: its own and the one on this model.
func (ss *subjects) look(d *Decision, now Time, id, model string, p *SubjectPolicy, own, perModel Scope, window time.Duration) {
	if p == nil {
		return
	}
	s := ss.byID[id]
	if st := &d.Standings[own]; p.Limits.Any() {
		st.Limits = p.Limits
		st.counts = p.Limits.Requests.IsSet() || p.Limits.Tokens.IsSet()
		if s != nil {
			st.read(&s.total, now, window)
			st.Used.Parallel = s.parallel
		}
	}
	if l, ok := p.PerModel[model]; ok && l.Any() {
		st := &d.Standings[perModel]
		st.Limits, st.counts = l, true
		if s != nil {
			if c := s.models[model]; c != nil {
				st.read(c, now, window)
			}
		}
	}
}

// take counts an admitted request where look found a limit.
func (ss *subjects) take(d *Decision, now Time, node, id, model string, own, perModel Scope, window time.Duration) {
	so, sm := &d.Standings[own], &d.Standings[perModel]
	if !so.counts && !sm.counts && !so.Limits.Parallel.IsSet() {
		return
	}
	s := ss.get(id)
	if so.counts {
		ss.count(s, &s.total, so, d.Need, now, window)
	}
	if sm.counts {
		c := s.models[model]
		if c == nil {
			c = &count{start: NoWindow}
			s.models[model] = c
		}
		ss.count(s, c, sm, d.Need, now, window)
	}
	if so.Limits.Parallel.IsSet() {
		s.hold(node, 1)
		so.Used.Parallel = s.parallel
		d.Slots = d.Slots.With(own)
	}
}

// count adds one request and its tokens to a window, opening it if need be.
func (ss *subjects) count(s *subject, c *count, st *Standing, tokens int64, now Time, window time.Duration) {
	if !c.live(now, window) {
		c.open(now, window)
		ss.expires.push(expiry{start: now, id: s.id})
	}
	if !st.held {
		c.requests++
	}
	c.tokens += tokens
	st.read(c, now, window)
}

// settle adds tokens to the windows of admission and frees slots.
func (ss *subjects) settle(now Time, node, id string, t *Settle, own, perModel Scope, tokens int64, window time.Duration) {
	s := ss.byID[id]
	if s == nil {
		return
	}
	if t.Starts[own] != NoWindow && s.total.start == t.Starts[own] {
		s.total.addTokens(tokens)
	}
	if t.Starts[perModel] != NoWindow {
		if c := s.models[t.Ticket.Model]; c != nil && c.start == t.Starts[perModel] {
			c.addTokens(tokens)
		}
	}
	if t.Slots.Has(own) {
		s.hold(node, -t.Count)
		if !s.holds() && !s.running(now, window) {
			ss.forget(s)
		}
	}
}

// release frees every slot that node holds, for a process run that is over.
func (ss *subjects) release(now Time, node string) {
	for _, s := range ss.byID {
		for i := range s.slots {
			if s.slots[i].node == node {
				s.hold(node, -s.slots[i].n)
				// Its windows may be over already, with nothing left in the queue to forget it by.
				ss.expires.push(expiry{start: now, id: s.id})
			}
		}
	}
}

// setSilent takes the slots of node out of the counts, or puts them back.
func (ss *subjects) setSilent(node string, silent bool) {
	for _, s := range ss.byID {
		for i := range s.slots {
			sl := &s.slots[i]
			if sl.node != node || sl.silent == silent {
				continue
			}
			sl.silent = silent
			if silent {
				s.parallel -= sl.n
			} else {
				s.parallel += sl.n
			}
		}
	}
}

// hold changes the number of slots node has, never below 0.
func (s *subject) hold(node string, n int64) {
	for i := range s.slots {
		sl := &s.slots[i]
		if sl.node != node {
			continue
		}
		n = max(n, -sl.n)
		sl.n += n
		if !sl.silent {
			s.parallel += n
		}
		if sl.n == 0 { // nothing left that could be silent
			sl.silent = false
		}
		return
	}
	if n > 0 {
		s.slots = append(s.slots, nodeSlots{node: node, n: n})
		s.parallel += n
	}
}

// holds reports whether any node has slots, a silent one included: a replica
// that was restored from a snapshot must know the same subjects.
func (s *subject) holds() bool {
	for i := range s.slots {
		if s.slots[i].n > 0 {
			return true
		}
	}
	return false
}

func (ss *subjects) get(id string) *subject {
	if s := ss.byID[id]; s != nil {
		return s
	}
	var s *subject
	if n := len(ss.free); n > 0 {
		s, ss.free = ss.free[n-1], ss.free[:n-1]
	} else {
		s = &subject{models: map[string]*count{}}
	}
	s.id, s.total = id, count{start: NoWindow}
	ss.byID[id] = s
	return s
}

// prune forgets the subjects whose windows are all over.
func (ss *subjects) prune(now Time, window time.Duration) {
	for ss.expires.len() > 0 && now >= ss.expires.front().start.Add(window) {
		s := ss.byID[ss.expires.pop().id]
		if s != nil && !s.holds() && !s.running(now, window) {
			ss.forget(s)
		}
	}
}

func (ss *subjects) forget(s *subject) {
	delete(ss.byID, s.id)
	clear(s.models)
	s.slots = s.slots[:0]
	if len(ss.free) < maxFree {
		ss.free = append(ss.free, s)
	}
}

// maxFree bounds the subjects kept for reuse.
const maxFree = 4096

func (s *subject) running(now Time, window time.Duration) bool {
	if s.total.live(now, window) {
		return true
	}
	for _, c := range s.models {
		if c.live(now, window) {
			return true
		}
	}
	return false
}
