package limiter

import "time"

// Report tells of what a node admitted without the log. It is counted in the
// scope's running window, if one runs that was open at the newest of them.
type Report struct {
	Ref      ScopeRef
	Requests int64
	Tokens   int64 // by Rules.TokenType as it held when they were settled
	Slots    int64 // requests in flight, to be held until they are settled
	// Age is how long ago the newest of them was admitted, measured when the
	// batch was made.
	Age time.Duration
}

// report counts what was admitted elsewhere. A limit may be exceeded by that;
// what it says of the next request is right all the same.
func (l *Ledger) report(now Time, node string, r *Report, window time.Duration) {
	if r.Slots > 0 {
		switch r.Ref.Scope {
		case ScopeKey:
			l.keys.get(r.Ref.ID).hold(node, r.Slots)
		case ScopeTeam:
			l.teams.get(r.Ref.ID).hold(node, r.Slots)
		}
	}
	running := l.counter(r.Ref)
	if r.Ref.Scope == ScopePool {
		if running = l.counter(ScopeRef{Scope: ScopeModel, Model: r.Ref.Model}); running != nil {
			l.models[r.Ref.Model].pool(r.Ref.ID)
		}
	}
	if running == nil || !running.live(now, window) || now.Add(-r.Age) < running.start {
		return
	}
	c := l.counter(r.Ref)
	c.requests += max(r.Requests, 0)
	c.tokens += max(r.Tokens, 0)
}
