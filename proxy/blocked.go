package proxy

import "sluice/limiter"

// Some requests are counted by no limit. Still they are not for those who are
// locked out: a limit of nothing blocks a key, a team or a model, and holds for
// every request.

// blocked returns the refusal of the first scope that has a limit of nothing,
// nil if there is none. Nothing is counted and nobody is asked.
func (x *exchange) blocked() *limiter.Refusal {
	r := &limiter.Refusal{Ticket: limiter.Ticket{
		Model: x.model.Group, Key: x.id.keyID(), Team: x.id.teamID(), Priority: x.id.priority(),
	}}
	var own [limiter.NumScopes]limiter.Limits
	if x.id.Key != nil {
		own[limiter.ScopeKey], own[limiter.ScopeKeyModel] = subjectLimits(x.id.Key.Policy(), x.model.Group)
	}
	if x.id.Team != nil {
		own[limiter.ScopeTeam], own[limiter.ScopeTeamModel] = subjectLimits(x.id.Team.Policy(), x.model.Group)
	}
	if x.model.Policy != nil {
		r.Model = x.model.Policy.Limits
		own[limiter.ScopeModel] = r.Model
	}
	for s, limits := range own {
		for d, l := range [...]limiter.Limit{limiter.Requests: limits.Requests, limiter.Tokens: limits.Tokens, limiter.Parallel: limits.Parallel} {
			if n, set := l.Get(); !set || n > 0 {
				continue
			}
			r.Scope, r.Dimension, r.Limits = limiter.Scope(s), limiter.Dimension(d), limits
			r.Standings[s] = limiter.Standing{Start: limiter.NoWindow, Limits: limits}
			r.RetryAfter = x.view.Config().Window
			r.ResetAt = x.p.now().Add(r.RetryAfter)
			return r
		}
	}
	return nil
}

// subjectLimits returns what limits a key or team, in all and on one model.
func subjectLimits(p *limiter.SubjectPolicy, model string) (all, one limiter.Limits) {
	if p == nil {
		return all, one
	}
	return p.Limits, p.PerModel[model]
}
