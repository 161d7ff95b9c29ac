package proxy

import (
	"slices"

	"sluice/fsm"
)

// pool returns the deployments that may serve the request as model m: all that
// take traffic, or for a request that is tied to an account those of it.
func (x *exchange) pool(m fsm.Resolved) *pool {
	p := x.p.targets(x.view.Config()).pools[m.Model]
	if x.tied == nil {
		return p
	}
	return p.only(func(t *target) bool { return t == x.tied || sameAccount(t, x.tied) })
}

// only returns the pool with those of its deployments that fit; itself if all do.
func (t *pool) only(fits func(*target) bool) *pool {
	if !slices.ContainsFunc(t.targets, func(d *target) bool { return !fits(d) }) {
		return t
	}
	out := *t
	out.targets = nil
	for _, d := range t.targets {
		if fits(d) {
			out.targets = append(out.targets, d)
		}
	}
	return &out
}

// choose picks the first deployment for a model. The error is an *Error.
func (x *exchange) choose(m fsm.Resolved) (*target, error) {
	now := x.p.now()
	pool := x.pool(m)
	if t := pool.pick(x.p.rand(), now, nil); t != nil {
		return t, nil
	}
	return nil, pool.unavailable(now, m.Asked)
}
