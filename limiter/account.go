package limiter

import (
	"sync/atomic"
	"time"
)

// lease is the permits of one scope that a node got in one grant. It is used
// without a lock: a request takes one by counting left down, and whoever closes
// the lease takes the rest.
type lease struct {
	left   atomic.Int64
	n      int64         // all of them; of the batcher
	rated  int64         // those of n whose use is in the account's rate; of the batcher
	plenty bool          // all that was wished for was granted; of the batcher
	start  Time          // of the window they are counted in
	until  time.Duration // node time from which they may not be used, never after end
	end    time.Duration // node time at which the window is over at the latest
	strict bool          // of a pool: counted against its share
	// ownUntil bounds the account's own tokens while the permits are used: like
	// requests, tokens are spent without asking only up to half of an even part
	// of what is left, because the nodes do not know of each other's at once.
	ownUntil int64
	limits   Limits
	used     Used   // of all nodes when it was granted
	on       *basis // what was in force when it was asked for
}

// closedLease marks a lease that nobody takes from any more; far enough below
// zero that takers who come too late do not lift it.
const closedLease = -1 << 40

// take uses one permit if there is one.
func (l *lease) take() bool {
	if l.left.Add(-1) >= 0 {
		return true
	}
	l.left.Add(1)
	return false
}

// putBack undoes take; false if the lease was closed meanwhile, so that the
// permit has to be returned by itself.
func (l *lease) putBack() bool { return l.left.Add(1) > closedLease/2 }

// close ends the lease and returns what was left. A taker that is in the middle
// of failing may hide one permit, which then dies with its window.
func (l *lease) close() int64 { return max(l.left.Swap(closedLease), 0) }

// scarce reports whether half of the permits or more are used. Where the limit is near
// they are not renewed before somebody needs one: a node should hold few then.
func (l *lease) scarce() bool { return l.plenty && l.left.Load() <= l.n/2 }

// seen is what the replica has recorded in one window.
type seen struct {
	start  Time
	tokens int64
}

// account is one scope as this node sees it: its permits, what it knows of the
// tokens, and whether the ledger refuses it. Admissions use it without a lock;
// the fields of the batcher are the batcher's alone.
type account struct {
	ref     ScopeRef
	model   *account // of a pool: where strictness is seen; nil otherwise
	basis   atomic.Pointer[basis]
	lease   atomic.Pointer[lease]
	seen    atomic.Pointer[seen]
	pending atomic.Int64 // tokens settled here that the replica does not show yet
	own     atomic.Int64 // tokens ever settled here
	strict  atomic.Bool  // of a model: it is at its threshold
	refused atomic.Pointer[refused]
	// returned is the node time at which permits of any node were last seen to
	// come back: a refusal from before is not for good.
	returned atomic.Int64
	missed   atomic.Int64 // admissions that found no permit since the last wish for some
	told     atomic.Int64 // of a pool: node time from which the ledger has to hear of it again
	pressed  atomic.Int64 // of a pool: node time since which permits are called back for it

	active int // of a model: pools that were active when it was last observed; of the applying goroutine

	// Of the batcher.
	rate  float64 // admissions per second, lately
	rated time.Duration
	asked bool // in the batch that is being made
	lent  bool // in the list of accounts with a lease
}

// stale reports whether the lease's permits must not be used any more.
func (a *account) stale(l *lease, now time.Duration) bool {
	return now >= l.until || a.model != nil && a.model.strict.Load() != l.strict
}

// mayUse reports whether the permits may be used on a path that rests on the
// basis, by what this node knows of tokens and strictness.
func (a *account) mayUse(l *lease, on *basis, now time.Duration) bool {
	if !l.on.same(on) || a.stale(l, now) || a.model != nil && a.model.isStrict() != l.strict {
		return false
	}
	n, limited := on.limits.Tokens.Get()
	if on.sharing.Conserving {
		return !limited || a.own.Load() < l.ownUntil // beyond the pool's own part too
	}
	return !limited || a.model != nil && !l.strict || a.tokens(l) < n && a.own.Load() < l.ownUntil
}

// pend counts tokens settled here that the replica does not show yet.
func (a *account) pend(tokens int64) int64 {
	a.own.Add(tokens)
	return a.pending.Add(tokens)
}

// settled takes tokens off those that the replica does not show yet. What was
// settled before the account was opened was never among them.
func (a *account) settled(tokens int64) {
	if n := a.pending.Add(-tokens); n < 0 {
		a.pending.CompareAndSwap(n, 0)
	}
}

// basis is what permits and remembered refusals rest on; if it changes they are void.
type basis struct {
	limits    Limits
	threshold float64
	reserved  bool
	window    time.Duration
	sharing   Sharing // of a pool
}

// pressEvery is how often permits are called back for a pool under
// work-conserving allocation, and pressFor how long. Others live on what it waits
// for, so that some permits are always out, and calling for them all the time
// would leave nobody any.
const (
	pressEvery = time.Second
	pressFor   = 75 * time.Millisecond
)

// conserving reports whether it is a pool's under work-conserving allocation.
func (on *basis) conserving() bool { return on != nil && on.sharing.Conserving }

// press reports whether to call permits back for the scope.
func (a *account) press(on *basis, now time.Duration) bool {
	if !on.conserving() {
		return true
	}
	if a.pressing(now) {
		return true
	}
	since := a.pressed.Load()
	return now >= time.Duration(since)+pressEvery && a.pressed.CompareAndSwap(since, int64(now))
}

// pressing reports whether permits are being called back for the pool.
func (a *account) pressing(now time.Duration) bool {
	return now < time.Duration(a.pressed.Load())+pressFor
}

// same reports whether two bases say the same.
func (on *basis) same(as *basis) bool { return on == as || on != nil && as != nil && *on == *as }

// refused is the ledger's last refusal in a scope.
type refused struct {
	on         *basis
	dimension  Dimension
	until      time.Duration // node time until which it is repeated without asking
	soon       time.Duration // the same, once permits have come back
	end        time.Duration // node time at which the scope's window ends
	fits       time.Duration // node time from which the request could fit
	saturation float64
	standing   Standing
	model      Standing
}

// tokens returns what is recorded in the lease's window, as far as this node
// knows, with its own settlements that are still on their way.
func (a *account) tokens(l *lease) int64 {
	n := l.used.Tokens
	if s := a.seen.Load(); s != nil && s.start == l.start {
		n = max(n, s.tokens)
	}
	return n + a.pending.Load()
}

// isStrict reports whether a model is at its threshold: by what the replica
// showed, or by the tokens that this node alone knows of.
func (a *account) isStrict() bool {
	if a.strict.Load() {
		return true
	}
	l := a.lease.Load()
	return l != nil && l.on.reserved && ratio(a.tokens(l), l.on.limits.Tokens) >= l.on.threshold
}

// rateHorizon is how long a grant should last at the present rate, and
// rateMemory how far back the rate looks.
const (
	rateHorizon = 250 * time.Millisecond
	rateMemory  = 500 * time.Millisecond
)

// want returns how many permits the scope should have beyond those who wait.
func (a *account) want(now time.Duration) int64 {
	n := a.missed.Swap(0)
	if l := a.lease.Load(); l != nil {
		n += l.spent(max(l.left.Load(), 0))
	}
	since := max(now-a.rated, rateMemory)
	a.rate = a.rate*decay(now-a.rated) + float64(n)/since.Seconds()
	a.rated = now
	return int64(a.rate * rateHorizon.Seconds())
}

// spent returns how many permits were used since it was last asked, left being
// those that remain.
func (l *lease) spent(left int64) int64 {
	n := l.n - left - l.rated
	l.rated += n
	return n
}
