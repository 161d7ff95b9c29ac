package proxy

import (
	"errors"
	"slices"

	"sluice/fsm"
	"sluice/limiter"
)

// route serves the request by its model, or by one that stands in for it. The
// lists are those of the model that was asked for, whoever failed: they are not
// followed further. A limit that refuses the request is final, as the model
// works.
func (x *exchange) route() error {
	asked := x.model
	f, err := x.first()
	if err != nil || f == nil {
		return err
	}
	gone := []fsm.Resolved{asked}
	for f.class != final || f.trouble != otherTrouble {
		names := standIns(x.view.Config(), asked.Model, &x.fields, f.trouble)
		if x.attempts >= x.most(x.others(names, gone[:1])) || !x.standIn(names, &gone, f) {
			break
		}
		if f = x.try(asked.Model, gone); f == nil {
			return nil
		}
	}
	return x.conclude(f)
}

// first asks the model that the client named. The error is a limit's.
func (x *exchange) first() (*fault, error) {
	t, err := x.choose(x.model)
	if err != nil && len(x.makers) > 0 {
		return nil, err // what stands in may be of another account
	}
	if err != nil {
		return &fault{class: foreign, err: err}, nil
	}
	x.target = t
	x.reckon()
	err = x.admit()
	if err != nil {
		// The node may have lost its quorum, or found it, while the request waited.
		x.showMode(x.p.mode())
		return nil, err
	}
	if x.receipt != nil {
		x.showMode(x.receipt.Mode())
	}
	if len(x.makers) > 0 {
		// Other accounts are asked for a request that is counted only.
		if x.tied, err = x.maker(x.fields.previous); err != nil {
			return nil, err
		}
		if x.tied != nil {
			if x.target, err = x.choose(x.model); err != nil {
				return &fault{class: foreign, err: err}, nil
			}
		}
	}
	return x.try(x.model.Model, []fsm.Resolved{x.model}), nil
}

// standIn makes the first of the names that may and can serve the request its
// model. It has limits of its own and passes them by itself: what the models
// before counted stays counted, without tokens.
func (x *exchange) standIn(names []string, gone *[]fsm.Resolved, f *fault) bool {
	for _, name := range names {
		if x.r.Context().Err() != nil || len(*gone) > fsm.MaxFallbacks {
			return false
		}
		m, err := x.id.resolve(x.view.Config(), x.endpoint, name)
		if err != nil || isGone(*gone, m) {
			continue
		}
		*gone = append(*gone, m)
		t, err := x.choose(m)
		if err != nil {
			continue
		}
		if x.receipt != nil && !x.settled {
			x.settled = true
			x.receipt.Settle(limiter.Usage{})
		}
		before := x.model
		x.model = m
		x.reckon()
		receipt, err := x.ask()
		if err == nil {
			x.abandon(f, 0)
			x.target, x.receipt, x.settled = t, receipt, false
			x.fallbacks++
			if receipt != nil {
				x.showMode(receipt.Mode())
			}
			return true
		}
		x.model = before
		var refusal *limiter.Refusal
		if !errors.As(err, &refusal) {
			return false // nobody can count it
		}
	}
	return false
}

func isGone(gone []fsm.Resolved, m fsm.Resolved) bool {
	return slices.ContainsFunc(gone, func(g fsm.Resolved) bool { return g.Asked == m.Asked && g.Group == m.Group })
}

// bound returns how many attempts the request may have made before the model at
// hand gives up, and whether others are left: one attempt is kept for each.
func (x *exchange) bound(asked *fsm.Model, gone []fsm.Resolved) (attempts int64, fallback bool) {
	names := standIns(x.view.Config(), asked, &x.fields, otherTrouble)
	left := x.others(names, gone)
	return x.most(x.others(names, gone[:1])) - left, left > 0
}

// others returns how many models of names the sender may use, each counted once,
// without those that are gone. Other names are no reason for another attempt.
func (x *exchange) others(names []string, gone []fsm.Resolved) int64 {
	all := slices.Clip(gone)
	for _, name := range names {
		if m, err := x.id.resolve(x.view.Config(), x.endpoint, name); err == nil && !isGone(all, m) {
			all = append(all, m)
		}
	}
	return int64(len(all) - len(gone))
}

// most returns how many attempts the request may make in all: what is
// configured, or less if it says so, but one for each model that may serve it.
func (x *exchange) most(fallbacks int64) int64 {
	most := x.pool(x.model).retries.MaxAttempts
	if n := declaredRetries(&x.fields, x.r.Header); n >= 0 {
		most = min(most, min(n, most)+1)
	}
	return max(most, fallbacks+1)
}

// checkFallbacks refuses a request that names models which it may not use.
func (x *exchange) checkFallbacks() error {
	for _, name := range x.fields.fallbacks {
		if _, err := x.id.resolve(x.view.Config(), x.endpoint, name); err != nil {
			return err
		}
	}
	return nil
}
