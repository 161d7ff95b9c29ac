package limiter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Applier replicates one batch and returns the Ledger's answer.
type Applier interface {
	// ApplyBatch is called from one goroutine, one batch at a time. An error
	// that matches ErrOldEpoch means that the node must register again; any
	// other leaves the outcome unknown, and the Gate sends the same batch again.
	// The answer is the Gate's to keep.
	ApplyBatch(ctx context.Context, b *Batch) (*Answer, error)
	// Register opens a new epoch for this process run and frees the slots that
	// earlier runs of the node still hold. Called from the same goroutine.
	Register(ctx context.Context) (epoch uint64, err error)
}

// NoQuorum is what a node does that cannot reach a leader.
type NoQuorum string

// The values of limits.on_no_quorum.
const (
	NoQuorumShare NoQuorum = "share"
	NoQuorumDeny  NoQuorum = "deny"
	NoQuorumAllow NoQuorum = "allow"
)

// DefaultPatience is how long an admission waits for the log before the node
// says that there is no quorum: longer than an election, shorter than a client.
const DefaultPatience = 2 * time.Second

// Options configure a Gate.
type Options struct {
	Node    string // this node's id
	Applier Applier
	// Now returns wall time with its monotonic reading. Default time.Now.
	Now func() time.Time
	// Policy returns what limits now, as this node's replica has it.
	Policy func() Policy
	// Lease returns how long permits may be held; 0: there are none, and every
	// request is decided in the log. Default: always 0. With permits, Observe
	// has to be called.
	Lease func() time.Duration
	// Parts returns how many nodes share the limits, ≥ 1. Default: always 1.
	Parts func() int
	// OnNoQuorum returns limits.on_no_quorum as it holds now.
	OnNoQuorum func() NoQuorum
	// Look returns what this node's replica says of a ticket: what is left when
	// the log does not answer. Default: nothing is used.
	Look func(*Ticket) Outlook
	// Mark notes, where a later process run finds it, that this node admits
	// without the log, and takes that back. It may wait for a disk. Default: nobody
	// needs to know, because nothing outlives the process.
	Mark func(on bool) error
	// Marked says that an earlier process run has left the note: what it
	// admitted is not known, so this one waits for a window before it goes on
	// without the log.
	Marked bool
	// Patience is how long a batch may stay unanswered, > 0. Default DefaultPatience.
	Patience time.Duration
}

func (o *Options) validate() error {
	switch {
	case o.Node == "":
		return errors.New("limiter: Options.Node is empty")
	case o.Applier == nil:
		return errors.New("limiter: Options.Applier is missing")
	case o.Policy == nil || o.OnNoQuorum == nil:
		return errors.New("limiter: Options.Policy or Options.OnNoQuorum is missing")
	case o.Patience < 0:
		return fmt.Errorf("limiter: Options.Patience is %v, below zero", o.Patience)
	}
	if o.Patience == 0 {
		o.Patience = DefaultPatience
	}
	if o.Lease == nil {
		o.Lease = func() time.Duration { return 0 }
	}
	if o.Parts == nil {
		o.Parts = func() int { return 1 }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Mark == nil {
		o.Mark = func(bool) error { return nil }
	}
	if o.Look == nil {
		nothing, policy := NewLedger(), o.Policy
		o.Look = func(t *Ticket) Outlook { return nothing.Look(0, t, policy()) }
	}
	return nil
}

// Gate admits this node's requests: with permits that it holds, at the cost of
// a memory access, else by group commit: one batch is in flight, and whatever
// arrives meanwhile is the next batch. A lone request waits for one commit, a
// crowd shares one.
type Gate struct {
	o        Options
	bank     *bank
	receipts receiptPool
	ctx      context.Context // ends when Close gives up flushing
	cancel   context.CancelFunc
	stopped  chan struct{} // closed when the batcher has returned

	mu       sync.Mutex
	waiting  []*waiter
	inflight []*waiter
	parked   []*waiter // refused, but not for good: asked again at parkedUntil
	settling *settleSet
	sending  bool // the Applier has a batch or a registration to answer
	closed   bool
	wake     chan struct{} // holds a token while there may be work

	parkedUntil time.Duration // under mu

	// Of the batcher.
	asking    []asked       // the accounts of the batch's Grants
	lent      []*account    // with a lease
	nextSweep time.Duration // when the first of their leases ends
	owing     time.Duration // since when there is something to return

	stopping atomic.Bool // Close was called
	degraded atomic.Bool // written under mu
	answered atomic.Bool // the log has answered this process run
	alone    *alone
}

// New starts a Gate. Close stops it.
func New(o Options) (*Gate, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	g := &Gate{o: o, stopped: make(chan struct{}), settling: newSettleSet(), wake: make(chan struct{}, 1)}
	began := time.Now()
	g.bank = newBank(func() time.Duration { return time.Since(began) }, g.poke)
	g.alone = newAlone(o.Mark, o.Marked)
	g.ctx, g.cancel = context.WithCancel(context.Background())
	go g.run()
	return g, nil
}

// Admit blocks until the ticket is admitted (a Receipt) or not: the error is a
// *Refusal, ErrNoQuorum, ErrClosed or ctx's. Called by any goroutine.
func (g *Gate) Admit(ctx context.Context, t Ticket) (*Receipt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if g.stopping.Load() {
		return nil, ErrClosed
	}
	if t.size() > maxTicket {
		return nil, ErrTicketTooLong
	}
	if g.o.Lease() == 0 {
		return g.admitByLog(ctx, &waiter{ticket: t})
	}
	estimate := t.Estimate
	t.Estimate = Usage{}
	pa := g.bank.path(&t, g.o.Policy())
	if pa.logged {
		t.Estimate = estimate
		return g.admitByLog(ctx, &waiter{ticket: t})
	}
	now := g.bank.now()
	var got [NumScopes]*lease
	if short := g.bank.draw(pa, now, &got); !pa.due(now) {
		if !short {
			return g.warmReceipt(pa, &got), nil
		}
		if d := g.bank.refusal(pa, &got, now); d != nil {
			g.bank.putBack(pa, &got)
			return g.conclude(&pa.ticket, d)
		}
	}
	return g.admitByLog(ctx, &waiter{ticket: t, path: pa, got: got})
}

// admitByLog lets the ledger decide, on what the waiter has no permit for.
func (g *Gate) admitByLog(ctx context.Context, w *waiter) (*Receipt, error) {
	w.done = make(chan struct{})
	err := g.await(ctx, w)
	if errors.Is(err, errDegraded) {
		return g.admitAlone(w.ticket)
	}
	switch {
	case err != nil:
		return nil, err
	case w.warm:
		return g.warmReceipt(w.path, &w.got), nil
	}
	return g.conclude(&w.ticket, &w.decision)
}

// warmReceipt is what permits admitted.
func (g *Gate) warmReceipt(pa *path, got *[NumScopes]*lease) *Receipt {
	r := g.receipts.next()
	r.gate, r.path, r.ticket, r.leases = g, pa, &pa.ticket, *got
	return r
}

// await queues the waiter and returns when it is decided or its caller leaves.
func (g *Gate) await(ctx context.Context, w *waiter) error {
	if err := g.enqueue(w); err != nil {
		g.putBack(w)
		return err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		if w.abandon() {
			return ctx.Err()
		}
		<-w.done // decided at the same moment: the decision stands
	}
	return w.err
}

// conclude turns a decision into what Admit returns.
func (g *Gate) conclude(t *Ticket, d *Decision) (*Receipt, error) {
	if d.Admitted {
		return &Receipt{gate: g, ticket: t, decision: d}, nil
	}
	st := &d.Standings[d.Scope]
	left, _ := st.Remaining(d.Dimension)
	return nil, &Refusal{
		Ticket: *t, Scope: d.Scope, Dimension: d.Dimension,
		Limits: st.Limits, Model: d.Standings[ScopeModel].Limits,
		Remaining: left, Saturation: d.Saturation,
		RetryAfter: d.RetryIn, ResetAt: g.o.Now().Add(d.ResetIn).UTC(),
		Standings: d.Standings, Need: d.Need, Oversize: d.Oversize,
	}
}

// Exact is the mode of a node whose requests the cluster's ledger decides.
const Exact = "exact"

// Mode is how exact the limits are at this moment: Exact, or "share" or "allow"
// while a node without a quorum admits by itself.
func (g *Gate) Mode() string {
	if policy := g.o.OnNoQuorum(); g.degraded.Load() && g.mayGoOn(policy) {
		return string(policy)
	}
	return Exact
}

// GoesOn reports whether the node would admit requests if the log did not answer.
func (g *Gate) GoesOn() bool { return g.mayGoOn(g.o.OnNoQuorum()) }

// Degraded reports whether the log has not answered for longer than the patience.
func (g *Gate) Degraded() bool { return g.degraded.Load() }

// Close refuses new admissions, sends what is waiting and what was settled, and
// returns when that is done or when ctx ends; what was not sent by then is lost.
func (g *Gate) Close(ctx context.Context) error {
	g.stopping.Store(true)
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.poke()
	defer g.cancel()
	select {
	case <-g.stopped:
		return nil
	case <-ctx.Done():
		g.cancel()
		<-g.stopped
		return fmt.Errorf("flush settlements: %w", ctx.Err())
	}
}

func (g *Gate) enqueue(w *waiter) error {
	g.mu.Lock()
	if g.closed || g.degraded.Load() {
		defer g.mu.Unlock()
		if g.closed {
			return ErrClosed
		}
		return errDegraded
	}
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	g.poke()
	return nil
}

// poke tells the batcher that there may be work.
func (g *Gate) poke() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}
