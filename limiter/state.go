package limiter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// LedgerState is a Ledger as it is stored: plain data in a fixed order, so that
// equal ledgers give equal bytes. Windows that are over are left out, because
// nothing can depend on them.
type LedgerState struct {
	Epoch    uint64         `json:"epoch"`
	Sessions []SessionState `json:"sessions,omitempty"`
	Models   []CountState   `json:"models,omitempty"`
	Keys     []SubjectState `json:"keys,omitempty"`
	Teams    []SubjectState `json:"teams,omitempty"`
	Active   []ActiveState  `json:"active,omitempty"`
}

// SessionState is a node's current process run and its last answer.
type SessionState struct {
	Node      string     `json:"node"`
	Nonce     string     `json:"nonce"`
	Epoch     uint64     `json:"epoch"`
	Seq       uint64     `json:"seq"`
	Silent    bool       `json:"silent,omitempty"`
	Decisions []Decision `json:"decisions,omitempty"`
	Grants    []Grant    `json:"grants,omitempty"`
}

// CountState is one running window; Pools only where it is a model's.
type CountState struct {
	Name     string       `json:"name,omitempty"`
	Start    Time         `json:"start"`
	Requests int64        `json:"requests"`
	Tokens   int64        `json:"tokens"`
	Lent     Time         `json:"lent,omitempty"`
	Pools    []CountState `json:"pools,omitempty"`
}

// ActiveState is until when the pools of one model count as active.
type ActiveState struct {
	Model string     `json:"model"`
	Pools []PoolMark `json:"pools"`
}

// PoolMark is one active pool.
type PoolMark struct {
	Name  string `json:"name,omitempty"`
	Until Time   `json:"until"`
}

// SubjectState is a key or team with its running windows and slots.
type SubjectState struct {
	ID     string       `json:"id"`
	Total  *CountState  `json:"total,omitempty"`
	Models []CountState `json:"models,omitempty"`
	Slots  []SlotState  `json:"slots,omitempty"`
}

// SlotState is the number of requests in flight on one node.
type SlotState struct {
	Node string `json:"node"`
	N    int64  `json:"n"`
}

// Save returns a deep copy of what matters at now.
func (l *Ledger) Save(now Time, window time.Duration) LedgerState {
	st := LedgerState{Epoch: l.epoch, Keys: l.keys.save(now, window), Teams: l.teams.save(now, window)}
	for _, node := range sortedNames(l.sessions) {
		s := l.sessions[node]
		st.Sessions = append(st.Sessions, SessionState{node, s.nonce, s.epoch, s.seq, s.silent, slices.Clone(s.answer.Decisions), slices.Clone(s.answer.Grants)})
	}
	for _, name := range sortedNames(l.models) {
		m := l.models[name]
		if !m.live(now, window) {
			continue
		}
		c := m.save(name)
		for _, pool := range sortedNames(m.pools) {
			if p := m.pools[pool]; *p != (count{}) {
				c.Pools = append(c.Pools, p.save(pool))
			}
		}
		st.Models = append(st.Models, c)
	}
	st.Active = l.saveActivity(now)
	return st
}

func (c *count) save(name string) CountState {
	return CountState{Name: name, Start: c.start, Requests: c.requests, Tokens: c.tokens, Lent: c.lent}
}

func (ss *subjects) save(now Time, window time.Duration) []SubjectState {
	var out []SubjectState
	for _, id := range sortedNames(ss.byID) {
		s := ss.byID[id]
		if !s.holds() && !s.running(now, window) {
			continue
		}
		st := SubjectState{ID: id}
		if s.total.live(now, window) {
			c := s.total.save("")
			st.Total = &c
		}
		for _, m := range sortedNames(s.models) {
			if c := s.models[m]; c.live(now, window) {
				st.Models = append(st.Models, c.save(m))
			}
		}
		for _, sl := range s.slots {
			if sl.n > 0 {
				st.Slots = append(st.Slots, SlotState{sl.node, sl.n})
			}
		}
		slices.SortFunc(st.Slots, func(a, b SlotState) int { return strings.Compare(a.Node, b.Node) })
		out = append(out, st)
	}
	return out
}

// errState is wrapped by every error of LoadLedger.
var errState = errors.New("ledger state is damaged")

// LoadLedger rebuilds a Ledger from what Save returned. A state that no Ledger
// can have (negative counts, a name twice) is an error.
func LoadLedger(st LedgerState) (*Ledger, error) {
	l := NewLedger()
	l.epoch = st.Epoch
	for _, s := range st.Sessions {
		if s.Epoch > st.Epoch || l.sessions[s.Node] != nil {
			return nil, fmt.Errorf("%w: session of node %q", errState, s.Node)
		}
		l.sessions[s.Node] = &session{nonce: s.Nonce, epoch: s.Epoch, seq: s.Seq, silent: s.Silent, answer: Answer{slices.Clone(s.Decisions), slices.Clone(s.Grants)}}
	}
	for _, c := range st.Models {
		if c.bad() || l.models[c.Name] != nil {
			return nil, fmt.Errorf("%w: window of model %q", errState, c.Name)
		}
		m := &modelCount{count: c.load(), pools: map[string]*count{}}
		for _, p := range c.Pools {
			if p.bad() || m.pools[p.Name] != nil {
				return nil, fmt.Errorf("%w: pool %q of model %q", errState, p.Name, c.Name)
			}
			pc := p.load()
			m.pools[p.Name] = &pc
		}
		l.models[c.Name] = m
		l.expires.push(expiry{c.Start, c.Name})
	}
	l.expires.sort()
	if err := errors.Join(l.keys.load(st.Keys), l.teams.load(st.Teams), l.loadActivity(st.Active)); err != nil {
		return nil, err
	}
	for node, s := range l.sessions {
		if s.silent {
			l.keys.setSilent(node, true)
			l.teams.setSilent(node, true)
		}
	}
	return l, nil
}

func (c CountState) bad() bool { return c.Requests < 0 || c.Tokens < 0 || c.Start < 0 }

func (c CountState) load() count {
	return count{start: c.Start, requests: c.Requests, tokens: c.Tokens, lent: c.Lent}
}

func (ss *subjects) load(states []SubjectState) error {
	for _, st := range states {
		if ss.byID[st.ID] != nil {
			return fmt.Errorf("%w: %q twice", errState, st.ID)
		}
		s := ss.get(st.ID)
		if st.Total != nil {
			if st.Total.bad() {
				return fmt.Errorf("%w: window of %q", errState, st.ID)
			}
			s.total = st.Total.load()
			ss.expires.push(expiry{s.total.start, s.id})
		}
		for _, m := range st.Models {
			if m.bad() || s.models[m.Name] != nil {
				return fmt.Errorf("%w: window of %q on %q", errState, st.ID, m.Name)
			}
			c := m.load()
			s.models[m.Name] = &c
			ss.expires.push(expiry{c.start, s.id})
		}
		for _, sl := range st.Slots {
			if sl.N <= 0 {
				return fmt.Errorf("%w: slots of %q", errState, st.ID)
			}
			s.hold(sl.Node, sl.N)
		}
	}
	ss.expires.sort()
	return nil
}
