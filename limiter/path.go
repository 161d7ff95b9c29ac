package limiter

import (
	"math"
	"time"
)

// path is what limits one ticket, resolved once per version of the policy, so
// that a warm admission looks nothing up but the path.
type path struct {
	version uint64
	ticket  Ticket
	steps   []step // in the order of checks
	pool    string
	logged  bool     // it needs a concurrency slot or reserves tokens: always decided in the log
	reserve bool     // tokens are reserved where they are limited
	told    *account // of a pool that the ledger has to hear of now and then; nil if it need not
	every   time.Duration
}

// step is one scope of a path.
type step struct {
	scope   Scope
	account *account
	on      *basis
}

// path returns the ticket's path for the present policy. The ticket is without
// an estimate.
func (b *bank) path(t *Ticket, p Policy) *path {
	version := p.Version()
	if found := b.paths.get(t); found != nil && found.version == version {
		return found
	}
	made := b.resolve(t, p)
	made.version = version
	b.paths.put(made)
	return made
}

// resolve finds the scopes that limit the ticket, as the ledger's look does.
func (b *bank) resolve(t *Ticket, p Policy) *path {
	rules := p.Rules()
	pa, window := &path{ticket: *t, reserve: rules.Reserve}, rules.Window
	if t.Key != "" {
		b.subject(pa, p.Key(t.Key), ScopeKey, ScopeKeyModel, window)
	}
	if t.Team != "" {
		b.subject(pa, p.Team(t.Team), ScopeTeam, ScopeTeamModel, window)
	}
	mp := p.Model(t.Model)
	if mp == nil {
		return pa
	}
	b.step(pa, ScopeModel, basis{mp.Limits, mp.Threshold, mp.Pools != nil, window, Sharing{}})
	if pool := mp.Pool(t.Priority); pool != nil {
		pa.pool = pool.Name
		b.step(pa, ScopePool, basis{pool.Limits, mp.Threshold, true, window, rules.Sharing})
		if rules.Sharing.Conserving {
			pa.told, pa.every = pa.steps[len(pa.steps)-1].account, rules.Sharing.Active/toldParts
		}
	}
	return pa
}

func (b *bank) subject(pa *path, p *SubjectPolicy, own, perModel Scope, window time.Duration) {
	if p == nil {
		return
	}
	pa.logged = pa.logged || p.Limits.Parallel.IsSet()
	if p.Limits.Requests.IsSet() || p.Limits.Tokens.IsSet() {
		b.step(pa, own, basis{limits: p.Limits, window: window})
	}
	if l, ok := p.PerModel[pa.ticket.Model]; ok && l.Any() {
		b.step(pa, perModel, basis{limits: l, window: window})
	}
}

// step adds a scope to the path; permits that rest on another basis are revoked.
// Paths of two policies may be made at once, so the account's basis is not
// always the path's: whoever uses a permit or a refusal compares them.
func (b *bank) step(pa *path, s Scope, on basis) {
	a := b.account(refOf(s, &pa.ticket, pa.pool))
	if was := a.basis.Load(); was == nil || *was != on {
		a.basis.Store(&on)
		a.refused.Store(nil)
		if was != nil {
			b.revoke(a)
		}
	}
	pa.logged = pa.logged || pa.reserve && on.limits.Tokens.IsSet()
	pa.steps = append(pa.steps, step{scope: s, account: a, on: &on})
}

// step returns the path's step of a scope, nil if the scope is not on it.
func (pa *path) step(s Scope) *step {
	for i := range pa.steps {
		if pa.steps[i].scope == s {
			return &pa.steps[i]
		}
	}
	return nil
}

// decay is the weight of what was counted d ago in a rate.
func decay[D ~int64](d D) float64 { return math.Exp(-float64(d) / float64(rateMemory)) }

// toldParts is how often within the time that a pool counts as active a node
// that goes on serving or refusing its requests by itself says so.
const toldParts = 4

// due reports whether this request has to go through the log, so that the ledger
// knows its pool to be active although permits and remembered refusals would do.
func (pa *path) due(now time.Duration) bool {
	if pa.told == nil {
		return false
	}
	last := pa.told.told.Load()
	return now >= time.Duration(last) && pa.told.told.CompareAndSwap(last, int64(now+pa.every))
}

// hopeless reports whether the pool was last refused, in a window that still
// runs. Permits of other scopes would then be of no use, and while they are out
// no refusal is final.
func (pa *path) hopeless(now time.Duration) bool {
	if pa.told == nil {
		return false
	}
	r := pa.told.refused.Load()
	return r != nil && now < r.end
}
