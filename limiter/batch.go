package limiter

import "time"

// Batch is one node's operations in the order in which they are decided. Node
// and Epoch name a process run (the state machine gives the epoch when a node
// registers); Seq counts its batches from 1. A batch that was applied before is
// not applied again: its first Answer is returned, so a node may retry after a
// lost leader as often as it likes.
//
// The parts are applied in the order of the fields: what was admitted without the
// log counts first, settlements and returns may free what the reservations need,
// and only what these leave is granted.
type Batch struct {
	Node     string
	Epoch    uint64
	Seq      uint64
	Reports  []Report
	Settles  []Settle
	Returns  []Return
	Reserves []Ticket
	// Held has, for each reservation, the permits that it brings; nil if none
	// brings any.
	Held   []Held
	Grants []Ask
}

// Settle reports the end of admitted requests. Starts and Slots repeat the
// Decision that admitted them, so that tokens land in the window and pool of
// admission or nowhere. Requests alike in all three are merged into one Settle.
type Settle struct {
	Ticket Ticket
	Starts [NumScopes]Time // start of the window counted in; NoWindow where the scope did not count
	Pool   string          // the Decision's, if Starts[ScopePool] is a window
	Slots  SlotSet         // scopes in which each request holds a concurrency slot
	Count  int64           // requests settled, ≥ 1
	Usage  Usage           // summed over them
	// Reserved repeats the Need of the Decisions, summed: the tokens that were
	// taken in advance and make room for what was used.
	Reserved int64
}

// SlotSet is a set of scopes, one bit each.
type SlotSet uint8

// Has reports whether s is in the set.
func (m SlotSet) Has(s Scope) bool { return m&(1<<s) != 0 }

// With returns the set with s in it.
func (m SlotSet) With(s Scope) SlotSet { return m | 1<<s }

// NoWindow stands in Settle.Starts and Standing.Start for a scope that did not count the request.
const NoWindow Time = -1

// Answer holds one Decision per reservation and one Grant per Ask of the batch,
// in order.
type Answer struct {
	Decisions []Decision
	Grants    []Grant
}

// Decision is the Ledger's word on one Ticket.
type Decision struct {
	Admitted   bool
	Saturation float64 // of the model, before this request was counted; 0 where there is no model limit
	Strict     bool    // pools were enforced
	Pool       string  // name of the pool counted in; "" is the default pool
	Slots      SlotSet // concurrency slots taken
	Need       int64   `json:",omitzero"` // tokens that the request was held to need, and has taken if it was admitted; 0 where none are reserved
	Standings  [NumScopes]Standing
	// The rest is set only when Admitted is false.
	Scope     Scope         // first failing scope in the order of checks
	Dimension Dimension     // first failing dimension of that scope
	RetryIn   time.Duration // until this request could fit: the longest among the limits that refuse it
	ResetIn   time.Duration // until the reported scope's window ends
	// Final: nothing that was granted can come back before then, so the scope
	// refuses everybody until its window ends or its limit is changed.
	Final bool
	// Oversize: the request needs more than the whole limit, so it never fits.
	Oversize bool `json:",omitzero"`
}

// Standing is one scope after the decision: what is limited and what is used.
type Standing struct {
	Start  Time // start of the window, NoWindow if the scope has none
	Limits Limits
	Used   Used

	counts bool // the scope counts requests and tokens; only while deciding
	held   bool // a permit has counted this request before; only while deciding
}

// counted reports whether an admission counted in the scope's window. A key or
// team with nothing but a concurrency limit may have one from before.
func (s *Standing) counted(scope Scope) bool {
	if scope == ScopeKey || scope == ScopeTeam {
		return s.Start != NoWindow && (s.Limits.Requests.IsSet() || s.Limits.Tokens.IsSet())
	}
	return s.Start != NoWindow
}

// Used counts one window of one scope. Tokens is what the token limit is held
// against, by Rules.TokenType.
type Used struct {
	Requests int64
	Tokens   int64
	Parallel int64
}

// Remaining returns what is left of the dimension, never below 0, and whether it is limited.
func (s Standing) Remaining(d Dimension) (int64, bool) {
	l, used := s.Limits.Requests, s.Used.Requests
	switch d {
	case Tokens:
		l, used = s.Limits.Tokens, s.Used.Tokens
	case Parallel:
		l, used = s.Limits.Parallel, s.Used.Parallel
	}
	n, ok := l.Get()
	if !ok {
		return 0, false
	}
	return max(n-used, 0), true
}
