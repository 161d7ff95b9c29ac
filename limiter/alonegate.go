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
	reported := g.alone.settle(g.bank.now(), r.ticket, r.decision, r.alone, rules.counted(u), rules.Window)
	if reported != 0 {
		g.settle(Settle{Ticket: *r.ticket, Starts: noneHeld, Slots: reported, Count: 1})
		return
	}
	g.poke()
}
