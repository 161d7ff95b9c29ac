package fsm

import (
	"fmt"
	"slices"
	"time"
)

const (
	maxAttempts = 100
	maxOrder    = 1_000_000
)

// retries checks [upstream] as far as it is about attempts.
func (v *validator) retries() {
	given := &v.config.Upstream.RetrySettings
	r := given.Retries()
	if r.MaxAttempts < 1 || r.MaxAttempts > maxAttempts {
		v.add("upstream.max_attempts", "use 6, or 1 for no retries", "%d is outside 1..%d", r.MaxAttempts, maxAttempts)
	}
	for _, d := range []struct {
		path  string
		value time.Duration
	}{
		{"upstream.base_delay", r.BaseDelay},
		{"upstream.max_delay", r.MaxDelay},
		{"upstream.min_delay", r.MinDelay},
		{"upstream.max_retry_after", r.MaxRetryAfter},
	} {
		v.duration(d.path, d.value)
	}
	if r.MinDelay > r.MaxDelay {
		v.add("upstream.min_delay", "use less than max_delay", "%v is above upstream.max_delay, which is %v", r.MinDelay, r.MaxDelay)
	}
	v.oneOf("upstream.jitter", r.Jitter, JitterFull, JitterEqual, JitterDecorrelated, JitterNone)
	if b := *r.RetryBudget; !(b >= 0 && b <= 1) { // NaN is in no range
		v.add("upstream.retry_budget", "use a part of the requests such as 0.1", "%v is outside 0..1", b)
	}
}

// fallbacks checks every list of fallbacks. A list is not followed further from
// the models that it names, so two models may well stand in for each other.
func (v *validator) fallbacks() {
	for i := range v.config.Models {
		m := &v.config.Models[i]
		path := "models." + m.Name
		if nameFault(m.Name) != "" {
			path = fmt.Sprintf("models[%d]", i)
		}
		v.fallbackList(path+".fallbacks", m.Name, m.Fallbacks)
		v.fallbackList(path+".context_window_fallbacks", m.Name, m.ContextWindowFallbacks)
		v.fallbackList(path+".content_policy_fallbacks", m.Name, m.ContentPolicyFallbacks)
	}
	v.fallbackList("upstream.default_fallbacks", "", v.config.Upstream.DefaultFallbacks)
}

func (v *validator) fallbackList(path, of string, names []string) {
	if len(names) > MaxFallbacks {
		v.add(path, "leave the last ones out", "%d are more than the %d that a request may try", len(names), MaxFallbacks)
	}
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !v.name(at, name) {
			continue
		}
		target, ends := followAlias(v.config.Aliases, name)
		switch {
		case !ends:
			// The alias is reported by itself.
		case target == of:
			v.add(at, "name another model", "the model falls back to itself")
		case slices.Contains(names[:i], name):
			v.add(at, "name every model once", "%q is there twice", name)
		case !v.serves(target):
			v.add(at, "name a model or an alias that exists", "no model serves %q", name)
		}
	}
}

// routing checks what a deployment says about its place among the others.
func (v *validator) routing(path string, d *Deployment) {
	if d.Order < 0 || d.Order > maxOrder {
		v.add(path+".order", "use 1 for the first, 2 for what stands in for it", "%d is outside 0..%d", d.Order, maxOrder)
	}
	if d.QuotaGroup != "" {
		v.name(path+".quota_group", d.QuotaGroup)
	}
}
