package limiter

import (
	"errors"
	"time"
)

// Errors of Apply. Each is a result that every replica computes alike; nothing
// was changed.
var (
	// ErrOldEpoch is returned when the batch's epoch is not the node's current
	// one: the process that sent it was replaced, or never registered.
	ErrOldEpoch = errors.New("batch of an epoch that is over; register again")
	// ErrOldBatch is returned when a later batch of the node was applied already.
	ErrOldBatch = errors.New("batch is older than the last one applied")
	// ErrBadBatch is returned when the parts of a batch do not fit together.
	ErrBadBatch = errors.New("batch does not say for each reservation which permits it brings")
)

// Ledger counts what was admitted, cluster-wide. It is a deterministic state
// machine: equal operations at equal times give equal states and answers. It is
// not safe for concurrent use; the state machine applies to it from one
// goroutine and locks it for readers.
type Ledger struct {
	epoch    uint64 // last epoch given out
	sessions map[string]*session
	models   map[string]*modelCount
	expires  queue // models in the order in which their windows opened
	keys     subjects
	teams    subjects
	active   map[string]activity // by model; of work-conserving allocation
	lapses   queue               // models in the order in which their activity is looked through
}

// session is one node's current process run and the answer it may ask for again.
type session struct {
	nonce  string
	epoch  uint64
	seq    uint64
	silent bool // its slots are not counted
	answer Answer
}

// count is what one window of one scope has seen.
type count struct {
	start    Time  // NoWindow: never opened
	requests int64 // with the permits that are lent
	tokens   int64 // by Rules.TokenType as it held when they were settled
	lent     Time  // until when a permit may come back
}

// live reports whether the window is running at now.
func (c *count) live(now Time, window time.Duration) bool {
	return c.start != NoWindow && now < c.start.Add(window)
}

// addTokens adds tokens, or takes off what was reserved and not used.
func (c *count) addTokens(n int64) { c.tokens = max(c.tokens+n, 0) }

// open makes the window run at now, from now if it was over.
func (c *count) open(now Time, window time.Duration) {
	if !c.live(now, window) {
		*c = count{start: now}
	}
}

// modelCount is a model's window; its pools share it and are cleared with it.
type modelCount struct {
	count
	pools map[string]*count // by pool name, "" is the default pool; start is unused
}

// model returns the model's counter with its window running at now.
func (l *Ledger) model(name string, now Time, window time.Duration) *modelCount {
	m := l.models[name]
	if m == nil {
		m = &modelCount{count: count{start: NoWindow}, pools: map[string]*count{}}
		l.models[name] = m
	}
	if !m.live(now, window) {
		m.count = count{start: now}
		for _, p := range m.pools {
			*p = count{}
		}
		l.expires.push(expiry{start: now, id: name})
	}
	return m
}

// prune forgets the models whose window is over: with limits per wildcard name
// clients can make up as many as they like.
func (l *Ledger) prune(now Time, window time.Duration) {
	for l.expires.len() > 0 && now >= l.expires.front().start.Add(window) {
		name := l.expires.pop().id
		if m := l.models[name]; m != nil && !m.live(now, window) {
			delete(l.models, name)
		}
	}
}

func (m *modelCount) pool(name string) *count {
	p := m.pools[name]
	if p == nil {
		p = &count{}
		m.pools[name] = p
	}
	return p
}

// NewLedger returns a Ledger that has counted nothing.
func NewLedger() *Ledger {
	return &Ledger{
		sessions: map[string]*session{},
		models:   map[string]*modelCount{},
		keys:     newSubjects(),
		teams:    newSubjects(),
		active:   map[string]activity{},
	}
}

// Register opens a new epoch for node and frees the concurrency slots of its
// earlier process runs. The nonce names the process run: the same one again
// gets the same epoch.
func (l *Ledger) Register(now Time, node, nonce string) uint64 {
	if s := l.sessions[node]; s != nil && s.nonce == nonce {
		return s.epoch
	}
	l.epoch++
	l.sessions[node] = &session{nonce: nonce, epoch: l.epoch}
	l.keys.release(now, node)
	l.teams.release(now, node)
	return l.epoch
}

// Apply settles and decides a batch at now, which must not be before the last
// call's. The answer is the session's own and valid until the node's next batch.
func (l *Ledger) Apply(now Time, b *Batch, p Policy) (*Answer, error) {
	s := l.sessions[b.Node]
	switch {
	case s == nil || s.epoch != b.Epoch:
		return nil, ErrOldEpoch
	case b.Seq == s.seq:
		return &s.answer, nil
	case b.Seq < s.seq:
		return nil, ErrOldBatch
	case b.Held != nil && len(b.Held) != len(b.Reserves):
		return nil, ErrBadBatch
	}
	l.setSilent(b.Node, s, false) // it speaks
	rules := p.Rules()
	l.prune(now, rules.Window)
	l.keys.prune(now, rules.Window)
	l.teams.prune(now, rules.Window)
	l.pruneActivity(now)
	for i := range b.Reports {
		l.report(now, b.Node, &b.Reports[i], rules.Window)
	}
	for i := range b.Settles {
		l.settle(now, b.Node, &b.Settles[i], rules)
	}
	s.seq = b.Seq
	for i := range b.Returns {
		l.giveBack(now, &b.Returns[i], rules.Window)
	}
	s.answer.Decisions = s.answer.Decisions[:0]
	for i := range b.Reserves {
		s.answer.Decisions = append(s.answer.Decisions, Decision{})
		held := &noneHeld
		if b.Held != nil {
			held = &b.Held[i]
		}
		l.reserve(now, b.Node, &b.Reserves[i], held, p, rules, &s.answer.Decisions[i])
	}
	s.answer.Grants = s.answer.Grants[:0]
	for i := range b.Grants {
		s.answer.Grants = append(s.answer.Grants, l.grant(now, &b.Grants[i], p, &rules))
	}
	return &s.answer, nil
}

// Applied reports whether Apply would only repeat an answer, or refuse the batch
// as older.
func (l *Ledger) Applied(b *Batch) bool {
	s := l.sessions[b.Node]
	return s != nil && s.epoch == b.Epoch && b.Seq <= s.seq
}

// settle adds the tokens to the windows of admission that still run, and frees slots.
func (l *Ledger) settle(now Time, node string, s *Settle, rules Rules) {
	tokens := rules.counted(s.Usage) - s.Reserved
	t := &s.Ticket
	if m := l.models[t.Model]; m != nil && s.Starts[ScopeModel] != NoWindow && m.start == s.Starts[ScopeModel] {
		m.addTokens(tokens)
		// A pool that counted the request has the model's start; its name is not
		// looked up again, because the reservation may have changed since.
		if s.Starts[ScopePool] != NoWindow {
			m.pool(s.Pool).addTokens(tokens)
		}
	}
	l.keys.settle(now, node, t.Key, s, ScopeKey, ScopeKeyModel, tokens, rules.Window)
	l.teams.settle(now, node, t.Team, s, ScopeTeam, ScopeTeamModel, tokens, rules.Window)
}

// counted returns how many tokens of u a token limit sees.
func (r Rules) counted(u Usage) int64 {
	in := u.Input
	if r.IgnoreCached {
		in -= min(u.Cached, u.Input)
	}
	switch r.TokenType {
	case InputTokens:
		return max(in, 0)
	case OutputTokens:
		return max(u.Output, 0)
	}
	return max(in, 0) + max(u.Output, 0)
}
