package proxy

import (
	"slices"

	"sluice/fsm"
)

// pool returns the deployments that may serve the request as model m: those
// that speak its endpoint, or one into which it can be translated; for a request
// that is tied to an account those of it.
func (x *exchange) pool(m fsm.Resolved) *pool {
	return x.p.targets(x.view.Config()).pools[m.Model].only(func(t *target) bool {
		return t.provider.serves(x.endpoint) != noEndpoint && (x.tied == nil || t == x.tied || sameAccount(t, x.tied))
	})
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

// next picks a deployment of model m's that neither rests nor was tried. One for
// which the request cannot be translated is none: the error says why not. nil if
// none is left.
func (x *exchange) next(p *pool, m fsm.Resolved, tried []*target) (*target, error) {
	var why error
	for {
		t := p.pick(x.p.rand(), x.p.now(), tried)
		if t == nil || t.provider.serves(x.endpoint) == x.endpoint {
			return t, why
		}
		c := x.callOf(t, m)
		if _, err := x.translated(&c); err == nil {
			return t, nil
		} else if why == nil {
			why = err
		}
		tried = append(slices.Clip(tried), t)
	}
}

// choose picks the first deployment for a model. The error is an *Error.
func (x *exchange) choose(m fsm.Resolved) (*target, error) {
	p := x.pool(m)
	t, why := x.next(p, m, nil)
	native := func(t *target) bool { return t.provider.serves(x.endpoint) == x.endpoint }
	switch {
	case t != nil:
		return t, nil
	case why != nil && !slices.ContainsFunc(p.targets, native):
		return nil, why
	case len(p.targets) == 0 && len(x.p.targets(x.view.Config()).pools[m.Model].targets) > 0:
		return nil, badRequest("model", "Model "+clip(m.Asked)+" does not serve "+x.endpoint.path()+": its provider has nothing like it.")
	}
	return nil, p.unavailable(x.p.now(), m.Asked)
}
