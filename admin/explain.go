package admin

import (
	"context"
	"strconv"

	"sluice/fsm"
	"sluice/limiter"
)

// maxAssumed is the most tokens that one request is explained for.
const maxAssumed = 1 << 40

// ExplainAnswer answers GET /limits/explain: what one more request of a key for
// a model would meet now. It is about a request that is counted as one and, where
// tokens are reserved, as the tokens that the caller says.
type ExplainAnswer struct {
	Model    string  `json:"model"`
	Key      *string `json:"key"`      // hash; null for the master key
	Team     *string `json:"team"`     // null for none
	Priority *string `json:"priority"` // as claimed; null for none
	Admitted bool    `json:"admitted"`
	// The rest of the head is about the first limit that refuses.
	LimitedBy     *string          `json:"limited_by"` // key | team | model | priority, as x-sluice-limited-by
	Scope         *string          `json:"scope"`
	Dimension     *string          `json:"dimension"`
	FitsInSeconds float64          `json:"fits_in_seconds"` // the longest among the scopes; 0 if admitted
	AssumedTokens int64            `json:"assumed_tokens"`  // that must still fit below every token limit; 1 unless tokens are reserved
	Saturation    float64          `json:"saturation"`
	Scopes        []ExplainedScope `json:"scopes"` // in the order of checks
}

// ExplainedScope is one scope that counts or limits the request.
type ExplainedScope struct {
	Scope         string          `json:"scope"`
	Name          string          `json:"name"` // hash, team, model or priority; "" for the default pool
	RPM           Room            `json:"rpm"`
	TPM           Room            `json:"tpm"`
	Parallel      Room            `json:"max_parallel_requests"`
	Admitted      bool            `json:"admitted"`
	Dimension     *string         `json:"dimension"` // that refuses
	ResetsIn      *float64        `json:"resets_in_seconds"`
	FitsInSeconds float64         `json:"fits_in_seconds"`
	PermitsOut    bool            `json:"permits_out"` // nodes may hold some that are counted and not used
	Pools         []ExplainedPool `json:"pools,omitempty"`
	Nodes         []InFlight      `json:"nodes,omitempty"`
}

// Room is a Gauge with what is left, null where there is no limit.
type Room struct {
	Gauge
	Remaining limiter.Limit `json:"remaining"`
}

// ExplainedPool is what a priority holds of a model. Floors and activity are
// null unless limits.allocation is work_conserving.
type ExplainedPool struct {
	PoolLimits
	FloorRPM limiter.Limit `json:"floor_rpm"`
	FloorTPM limiter.Limit `json:"floor_tpm"`
	Active   *bool         `json:"active"`
}

// InFlight is how many requests a node has in flight.
type InFlight struct {
	Node string `json:"node"`
	N    int64  `json:"in_flight"`
}

// explainLimits answers GET /limits/explain?key=&model=&tokens=. The key is a
// secret, a hash or an alias, or left out for the master key; tokens is what the
// request would reserve, 1 if it is left out.
func (a *Admin) explainLimits(_ context.Context, c *call) (any, error) {
	view := a.o.State.View()
	model := c.query.Get("model")
	if model == "" {
		return nil, missing("query", "model")
	}
	r, ok := view.Config().Resolve(model)
	if !ok {
		return nil, notFound("model", "Invalid model name passed in model=%s; `sluice admin model list` shows them", clip(model))
	}
	tokens, err := assumedTokens(c.query.Get("tokens"))
	if err != nil {
		return nil, err
	}
	limits := &view.Config().Limits
	if limits.TokenAccounting != fsm.AccountReserved {
		tokens = 1 // as it is admitted: whatever it uses is recorded later
	}
	t := limiter.Ticket{Model: r.Group, Estimate: limiter.Usage{Input: tokens}}
	if limits.TokenRateLimitType == "output" {
		t.Estimate = limiter.Usage{Output: tokens}
	}
	answer := ExplainAnswer{Model: r.Group, AssumedTokens: tokens, Scopes: []ExplainedScope{}}
	if given := c.query.Get("key"); given != "" {
		k, ok := view.Key(keyID(given))
		if !ok {
			k, ok = view.KeyByAlias(given)
		}
		if !ok {
			return nil, notFound("key", "Key not found in database")
		}
		t.Key, t.Team, t.Priority = k.ID, k.TeamID, claimed(view, k)
		answer.Key = ptr(k.ID)
	}
	answer.Team, answer.Priority = ptr(t.Team), ptr(t.Priority)
	e := a.o.State.Explain(t)
	answer.Admitted, answer.Saturation, answer.FitsInSeconds = e.Admitted, e.Saturation, e.FitsIn.Seconds()
	if !e.Admitted {
		answer.LimitedBy, answer.Scope, answer.Dimension = ptr(e.Scope.LimitedBy()), ptr(e.Scope.String()), ptr(e.Dimension.String())
	}
	conserving := view.Config().Rules().Sharing.Conserving
	for i := range e.Scopes {
		answer.Scopes = append(answer.Scopes, explainedScope(&e.Scopes[i], conserving))
	}
	return answer, nil
}

// assumedTokens reads the parameter tokens, 1 for "".
func assumedTokens(given string) (int64, error) {
	if given == "" {
		return 1, nil
	}
	n, err := strconv.ParseInt(given, 10, 64)
	if err != nil || n < 1 || n > maxAssumed {
		return 0, badRequest("tokens", "tokens must be a whole number from 1 to %d.", int64(maxAssumed))
	}
	return n, nil
}

// claimed returns the priority that requests of the key have: the team's before its own.
func claimed(view *fsm.View, k *fsm.Key) string {
	if t, ok := view.Team(k.TeamID); ok && t.Priority() != "" {
		return t.Priority()
	}
	return k.Priority()
}

func explainedScope(x *limiter.ScopeExplanation, conserving bool) ExplainedScope {
	out := ExplainedScope{
		Scope: x.Scope.String(), Name: x.Name, Admitted: x.Admitted, FitsInSeconds: x.FitsIn.Seconds(), PermitsOut: x.Lent,
		RPM: room(x.Limits.Requests, x.Used.Requests), TPM: room(x.Limits.Tokens, x.Used.Tokens), Parallel: room(x.Limits.Parallel, x.Used.Parallel),
	}
	if !x.Admitted {
		out.Dimension = ptr(x.Dimension.String())
	}
	if x.Live {
		left := x.ResetsIn.Seconds()
		out.ResetsIn = &left
	}
	for _, p := range x.Pools {
		e := ExplainedPool{PoolLimits: poolLimits(p.PoolState)}
		if conserving {
			active := p.Active
			e.FloorRPM, e.FloorTPM, e.Active = p.Floor.Requests, p.Floor.Tokens, &active
		}
		out.Pools = append(out.Pools, e)
	}
	for _, n := range x.Nodes {
		out.Nodes = append(out.Nodes, InFlight{n.Node, n.N})
	}
	return out
}

func room(l limiter.Limit, used int64) Room {
	r := Room{Gauge: Gauge{l, used}}
	if n, ok := l.Get(); ok {
		r.Remaining = limiter.Of(n - used)
	}
	return r
}
