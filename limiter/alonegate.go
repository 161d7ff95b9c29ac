package limiter

import "time"

// mayGoOn reports whether a node without an answer from the log admits by
// itself. A part of what is left is known only to a process that was in touch.
func (g *Gate) mayGoOn(policy NoQuorum) bool {
	return policy == NoQuorumAllow || policy == NoQuorumShare && g.answered.Load()
}

// window returns gateway.window as it holds now.
func (g *Gate) window() time.Duration { return g.o.Policy().Rules().Window }

// admitAlone decides while the log does not answer.
func (g *Gate) admitAlone(t Ticket) (*Receipt, error) {
	policy := g.o.OnNoQuorum()
	if !g.mayGoOn(policy) {
		return nil, ErrNoQuorum
	}
	parts := int64(1)
	if policy == NoQuorumShare {
		parts = int64(max(g.o.Parts(), 1))
	}
	o := g.o.Look(&t)
	d, r, err := g.alone.admit(g.bank.now(), &t, &o, parts)
	if err != nil {
		return nil, err
	}
	receipt, err := g.conclude(&t, d)
	if err != nil {
		return nil, err
	}
	r.mode = policy
	receipt.alone = r
	return receipt, nil
}

// settleAlone records what a request consumed that was admitted without the log.
func (g *Gate) settleAlone(r *Receipt, u Usage) {
	rules := g.o.Policy().Rules()
	now := g.bank.now()
	slots, unused := g.alone.settle(now, r.ticket, r.decision, r.alone, rules.counted(u), rules.Window)
	if slots|unused == 0 {
		g.poke()
		return
	}
	s := Settle{Ticket: *r.ticket, Pool: r.decision.Pool, Starts: noneHeld, Slots: slots, Count: 1}
	s.Ticket.Estimate = Usage{}
	if unused != 0 {
		s.Usage, s.Reserved = u, r.decision.Need
		o := g.o.Look(r.ticket)
		for scope := range o.Standings {
			// Of windows that the report can have been counted in: those that ran
			// when the request was admitted.
			ran := rules.Window - o.EndsIn[scope]
			if unused.Has(Scope(scope)) && o.EndsIn[scope] > 0 && now-r.alone.at+clockSlack <= ran {
				s.Starts[scope] = o.Standings[scope].Start
			}
		}
	}
	g.settle(s)
}

// clockSlack is how far a node's idea of the Ledger's time may be off. Tokens
// that are taken back from a window they were not counted in would make room
// that is not there.
const clockSlack = 250 * time.Millisecond
