package limiter

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// Bounds of one batch, so that its log entry stays well below 256 KB.
const (
	maxReserves   = 1024
	maxSettles    = 1024
	maxReports    = 1024
	maxReturns    = 256
	maxBatchBytes = 180 << 10
	maxTicket     = 4 << 10
)

// settleLinger is how long a settlement that frees no slot waits for a
// reservation to travel with: a client that asks again at once then costs one
// commit, not two.
const settleLinger = 2 * time.Millisecond

// permitLinger is the same on a node with permits, whose own admissions count
// its settlements at once: it bounds how late other nodes learn of tokens, and
// how many entries a busy node writes.
const permitLinger = 40 * time.Millisecond

// Bounds of the wait before a batch is sent again.
const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = 250 * time.Millisecond
)

// errDegraded tells a waiter that the patience with the log is over.
var errDegraded = errors.New("no answer from the log")

// waiter is one admission on its way through the log.
type waiter struct {
	ticket   Ticket
	decision Decision // valid once done is closed and err is nil
	err      error
	done     chan struct{}
	over     atomic.Bool       // decided or abandoned, whichever was first
	path     *path             // nil if no permits are used
	got      [NumScopes]*lease // that it took a permit from
	tries    int               // refusals that were not final
	warm     bool              // permits that came meanwhile admitted it; no decision
}

// abandon reports whether the waiter left before it was decided. A reservation
// that the log still grants is then settled by the batcher.
func (w *waiter) abandon() bool { return !w.over.Swap(true) }

// conclude hands over the outcome; false if nobody waits for it any more.
func (w *waiter) conclude(d *Decision, err error) bool {
	if w.over.Swap(true) {
		return false
	}
	if d != nil {
		w.decision = *d
	}
	w.err = err
	close(w.done)
	return true
}

// run is the batcher: the only goroutine that talks to the Applier.
func (g *Gate) run() {
	defer close(g.stopped)
	var run processRun
	// Before any request: slots of an earlier run come free without traffic.
	if err := g.insist(func(ctx context.Context) error { return run.register(ctx, g.o.Applier) }); err != nil {
		g.deliver(nil, 0, err)
		return
	}
	for {
		b := g.next()
		if b == nil {
			return
		}
		sent := g.bank.now()
		var answer *Answer
		err := g.insist(func(ctx context.Context) (err error) {
			answer, err = run.apply(ctx, g.o, b)
			return err
		})
		if err == nil && (len(answer.Decisions) != len(b.Reserves) || len(answer.Grants) != len(b.Grants)) {
			err = ErrBadAnswer
		}
		if err == nil {
			g.alone.reported()
		}
		g.lend(b, answer, sent, err)
		g.deliver(answer, sent, err)
	}
}

// processRun numbers the batches of this process run.
type processRun struct {
	epoch uint64 // 0: not registered
	seq   uint64
}

func (r *processRun) register(ctx context.Context, a Applier) error {
	epoch, err := a.Register(ctx)
	if err != nil {
		return err
	}
	*r = processRun{epoch: epoch}
	return nil
}

// apply sends the batch under its number, the same one however often it is
// sent. A ledger that does not know this run any more is registered with again.
func (r *processRun) apply(ctx context.Context, o Options, b *Batch) (*Answer, error) {
	if r.epoch == 0 {
		if err := r.register(ctx, o.Applier); err != nil {
			return nil, err
		}
	}
	if b.Epoch != r.epoch {
		r.seq++
		b.Node, b.Epoch, b.Seq = o.Node, r.epoch, r.seq
	}
	answer, err := o.Applier.ApplyBatch(ctx, b)
	if errors.Is(err, ErrOldEpoch) {
		r.epoch = 0
	}
	return answer, err
}

// next waits for work and takes it as a batch; nil when the Gate is closed and empty.
func (g *Gate) next() *Batch {
	for {
		g.sweep()
		rest := g.alone.rest(g.bank.now(), g.window)
		g.mu.Lock()
		wait := min(g.due(), rest)
		var b *Batch
		if wait == 0 {
			b = g.take()
		}
		closed := g.closed
		g.mu.Unlock()
		switch {
		case b != nil && len(b.Reserves)+len(b.Settles)+len(b.Returns)+len(b.Reports) > 0:
			return b
		case closed:
			return nil
		}
		if !g.pause(wait) {
			return nil
		}
	}
}

// forEver is how long an idle batcher waits.
const forEver = time.Duration(math.MaxInt64)

// due returns how long the batcher may still wait: 0 if there is something to
// send now. g.mu is held.
func (g *Gate) due() time.Duration {
	switch {
	case len(g.waiting) > 0 || g.closed || g.settling.urgent || g.bank.hurry() || g.alone.owes():
		return 0
	}
	wait := forEver
	if len(g.parked) > 0 {
		wait = max(g.parkedUntil-g.bank.now(), 0)
	}
	if len(g.settling.list) > 0 {
		wait = min(wait, max(g.linger()-g.o.Now().Sub(g.settling.since), 0))
	}
	if g.bank.owes() {
		wait = min(wait, max(g.owing+g.linger()-g.bank.now(), 0))
	} else {
		g.owing = g.bank.now()
	}
	if len(g.lent) > 0 {
		wait = min(wait, max(g.nextSweep-g.bank.now(), time.Microsecond))
	}
	return wait
}

// linger is how long settlements and returns wait for company: with permits
// nobody waits for them, and a node writes few entries.
func (g *Gate) linger() time.Duration {
	if g.o.Lease() > 0 && !g.settling.much {
		return permitLinger
	}
	return settleLinger
}

// pause sleeps until there may be work or wait is over; false if the Gate gives up.
func (g *Gate) pause(wait time.Duration) bool {
	var over <-chan time.Time
	if wait != forEver {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-g.wake:
	case <-over:
	case <-g.ctx.Done():
		return false
	}
	return true
}

// take moves as much as one batch may hold from the queues. g.mu is held.
func (g *Gate) take() *Batch {
	b := &Batch{}
	var more bool
	b.Reports, more = g.alone.takeReports(g.bank.now(), g.window, maxReports, maxBatchBytes/2)
	if more {
		return b // nothing is decided before all of it counts
	}
	size, used := 0, 0
	for i := range b.Reports {
		size += b.Reports[i].Ref.size()
	}
	b.Settles, used = g.settling.take(maxSettles, maxBatchBytes/2-size)
	size += used
	b.Returns = g.bank.takeReturns(maxReturns)
	for i := range b.Returns {
		size += b.Returns[i].Ref.size()
	}
	if len(g.parked) > 0 && (g.closed || g.bank.now() >= g.parkedUntil) {
		g.unpark()
	}
	n := 0
	for n < len(g.waiting) && len(b.Reserves) < maxReserves && size < maxBatchBytes {
		w := g.waiting[n]
		n++
		if w.over.Load() { // left while it queued: nothing to decide
			g.putBack(w)
			continue
		}
		size += w.ticket.size()
		g.reserve(b, w)
	}
	g.ask(b, size)
	rest := copy(g.waiting, g.waiting[n:])
	clear(g.waiting[rest:])
	g.waiting = g.waiting[:rest]
	return b
}

// size bounds the reference's bytes in a batch.
func (r *ScopeRef) size() int { return len(r.ID) + len(r.Model) + 32 }

// size bounds the ticket's bytes in a batch.
func (t *Ticket) size() int { return len(t.Model) + len(t.Key) + len(t.Team) + len(t.Priority) + 16 }

// insist calls send until it succeeds or the Gate gives up. When the patience
// is over the waiters are told so, but the batch is sent on: only its answer
// says what the log did.
func (g *Gate) insist(send func(ctx context.Context) error) error {
	g.mu.Lock()
	g.sending = true
	g.mu.Unlock()
	impatient := time.AfterFunc(g.o.Patience, g.degrade)
	defer impatient.Stop()
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		err := send(g.ctx)
		if err == nil {
			g.mu.Lock()
			g.sending = false
			g.degraded.Store(false)
			g.answered.Store(true)
			g.mu.Unlock()
			return nil
		}
		pause := time.NewTimer(backoff)
		select {
		case <-pause.C:
		case <-g.ctx.Done():
			pause.Stop()
			return ErrClosed
		}
	}
}

// deliver hands the decisions to their waiters. A reservation whose waiter has
// left, or was told that there is no quorum, is undone.
func (g *Gate) deliver(a *Answer, sent time.Duration, err error) {
	g.mu.Lock()
	ws := g.inflight
	g.inflight = nil
	if err != nil { // only when the Gate has given up: nobody is left to serve those who queue
		ws = slices.Concat(ws, g.waiting, g.parked)
		g.waiting, g.parked = nil, nil
	}
	g.mu.Unlock()
	for i, w := range ws {
		if err != nil {
			w.conclude(nil, err)
			continue
		}
		if g.remember(w, &a.Decisions[i], sent); g.park(w, &a.Decisions[i]) {
			continue
		}
		if d := &a.Decisions[i]; !w.conclude(d, nil) && d.Admitted {
			g.undo(&w.ticket, d)
		}
	}
}

// undo gives back what a reservation has counted for a request that nobody sends:
// its place in every window, its slots and the tokens that it reserved.
func (g *Gate) undo(t *Ticket, d *Decision) {
	for s := range d.Standings {
		if st := &d.Standings[s]; st.counted(Scope(s)) {
			g.bank.owe(refOf(Scope(s), t, d.Pool), st.Start, 1)
		}
	}
	g.settle(settleOf(t, d, Usage{}))
	g.poke()
}

// ErrBadAnswer is returned by Admit when the log answered something that does
// not belong to the batch: nodes of versions that do not fit together.
var ErrBadAnswer = errors.New("answer does not belong to the batch")

// degrade is called when the log has not answered in time: everybody who waits
// is sent away, and until the next answer nobody waits any more.
func (g *Gate) degrade() {
	g.mu.Lock()
	if !g.sending { // answered while the timer fired
		g.mu.Unlock()
		return
	}
	g.degraded.Store(true)
	g.waiting, g.parked = append(g.waiting, g.parked...), nil
	for _, w := range g.waiting {
		g.putBack(w)
	}
	ws := slices.Concat(g.inflight, g.waiting)
	g.waiting = nil
	g.mu.Unlock()
	for _, w := range ws {
		w.conclude(nil, errDegraded)
	}
}
