package limiter

import (
	"sync"
	"time"
)

// localLedger decides on a node that has no quorum and may admit all the same
// (limits.on_no_quorum = "allow"). It starts from nothing and knows only this
// node's requests.
type localLedger struct {
	mu     sync.Mutex
	ledger *Ledger
	now    func() Time
}

// localNode names this node in its own localLedger.
const localNode = "self"

func (l *localLedger) init(now func() time.Time) {
	start := now()
	l.ledger = NewLedger()
	l.now = func() Time { return Time(now().Sub(start)) }
}

func (l *localLedger) reserve(t *Ticket, p Policy, d *Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rules := p.Rules()
	now := l.now()
	l.ledger.prune(now, rules.Window)
	l.ledger.keys.prune(now, rules.Window)
	l.ledger.teams.prune(now, rules.Window)
	l.ledger.pruneActivity(now)
	l.ledger.reserve(now, localNode, t, &noneHeld, p, rules, d)
}

func (l *localLedger) settle(s *Settle, rules Rules) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ledger.settle(l.now(), localNode, s, rules)
}

// admitLocally answers while there is no quorum.
func (g *Gate) admitLocally(t Ticket) (*Receipt, error) {
	if g.o.OnNoQuorum() != NoQuorumAllow {
		return nil, ErrNoQuorum
	}
	d := &Decision{}
	g.local.reserve(&t, g.o.Policy(), d)
	return g.conclude(&t, d, &g.local)
}
