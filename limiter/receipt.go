package limiter

import (
	"sync"
	"sync/atomic"
)

// Receipt is the right to one upstream request. Whoever holds it settles it;
// only the first Settle counts.
type Receipt struct {
	gate     *Gate
	alone    *aloneReceipt // if it was admitted without the log; nil: by the cluster's ledger
	ticket   *Ticket
	decision *Decision         // nil if permits admitted it
	path     *path             // of the permits
	leases   [NumScopes]*lease // that the permits were taken from
	settled  atomic.Bool
}

// Settle records what the request consumed and frees its slots. It never
// blocks and may be called from any goroutine.
func (r *Receipt) Settle(u Usage) {
	if r.settled.Swap(true) {
		return
	}
	u.Input, u.Output = max(u.Input, 0), max(u.Output, 0)
	u.Cached = min(max(u.Cached, 0), u.Input) // else a merged settlement counts other tokens than its parts
	if r.alone != nil {
		r.gate.settleAlone(r, u)
		return
	}
	r.gate.settle(r.settlement(u))
}

// Mode says how the request was admitted: "exact" by the cluster's ledger,
// "share" or "allow" by this node alone.
func (r *Receipt) Mode() string {
	if r.alone != nil {
		return string(r.alone.mode)
	}
	return Exact
}

// Decision returns what the Ledger said, for the rate-limit headers; of a
// request that permits admitted, what this node believes. The caller must not
// change it.
func (r *Receipt) Decision() *Decision {
	if r.decision != nil {
		return r.decision
	}
	d := &Decision{Admitted: true, Pool: r.path.pool}
	for s := range d.Standings {
		d.Standings[s].Start = NoWindow
	}
	for i := range r.path.steps {
		st := &r.path.steps[i]
		l := r.leases[st.scope]
		d.Standings[st.scope] = Standing{Start: l.start, Limits: l.limits, Used: Used{
			Requests: l.used.Requests - max(l.left.Load(), 0), Tokens: st.account.tokens(l),
		}}
	}
	d.Saturation = saturation(&d.Standings[ScopeModel])
	return d
}

// receiptPool makes receipts many at a time. They are never used twice, because
// nobody knows when their holder lets go of them; the block goes with the last.
type receiptPool struct{ blocks sync.Pool }

type receiptBlock struct {
	used     int
	receipts [32]Receipt
}

func (p *receiptPool) next() *Receipt {
	b, ok := p.blocks.Get().(*receiptBlock)
	if !ok {
		b = &receiptBlock{}
	}
	r := &b.receipts[b.used]
	b.used++
	if b.used < len(b.receipts) {
		p.blocks.Put(b)
	}
	return r
}
