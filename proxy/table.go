package proxy

import (
	"cmp"
	"log/slog"
	"math/bits"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"sluice/fsm"
)

// target is a deployment that is ready for use.
type target struct {
	*fsm.Deployment
	provider        provider
	base            *url.URL                  // nil for the mock
	urls            [len(operations)]*url.URL // by endpoint, for dialects where they do not depend on the model
	secret          string
	credential      string   // header that carries the secret, "" for none
	credentialValue []string // its value
	weight          uint64
	idHeader        []string
	health          *health
	quota           *pause // of its quota group; nil without one
	lone            bool   // the only one of its model
}

// pool is the deployments of one model that take traffic.
type pool struct {
	targets []*target // lower orders first
	budget  *budget
	retries *fsm.RetrySettings
}

// table is the deployments of one configuration version.
type table struct {
	config *fsm.Compiled
	pools  map[*fsm.Model]*pool
}

// targets returns the table for a configuration. It is built when a version is
// first met, and replaces the one before it.
func (p *Proxy) targets(c *fsm.Compiled) *table {
	if t := p.table.Load(); t != nil && t.config == c {
		return t
	}
	p.tableMu.Lock()
	defer p.tableMu.Unlock()
	if t := p.table.Load(); t != nil && t.config == c {
		return t
	}
	t := &table{config: c, pools: make(map[*fsm.Model]*pool, len(c.Models))}
	retries := c.Upstream.Retries()
	before := p.recalled
	p.recalled = newRecollection()
	for i := range c.Models {
		pool := p.ready(&c.Models[i], &before)
		pool.retries = &retries
		t.pools[&c.Models[i]] = pool
	}
	p.table.Store(t)
	return t
}

// ready readies the deployments of a model. One that cannot be used is logged
// and takes no traffic.
func (p *Proxy) ready(m *fsm.Model, before *recollection) *pool {
	out := &pool{budget: kept(p.recalled.budgets, before.budgets, m.Name)}
	for i := range m.Deployments {
		d := &m.Deployments[i]
		t := &target{Deployment: d, weight: 1, idHeader: []string{d.ID}, health: kept(p.recalled.health, before.health, d.ID)}
		if d.QuotaGroup != "" {
			t.quota = kept(p.recalled.quotas, before.quotas, d.QuotaGroup)
		}
		if d.Weight != nil {
			t.weight = uint64(max(*d.Weight, 0))
		}
		if t.weight == 0 {
			continue
		}
		prov, ok := p.providers[d.Provider]
		if !ok {
			p.logger.Warn("deployment is not used: its provider is not served", slog.String("deployment", d.ID), slog.String("provider", d.Provider))
			continue
		}
		t.provider = prov
		if err := prov.prepare(t, p.secret); err != nil {
			p.logger.Warn("deployment is not used", slog.String("deployment", d.ID), slog.Any("error", err))
			continue
		}
		out.targets = append(out.targets, t)
	}
	slices.SortStableFunc(out.targets, func(a, b *target) int { return cmp.Compare(a.Order, b.Order) })
	if len(out.targets) == 1 {
		out.targets[0].lone = true
	}
	return out
}

// rests returns how long a deployment takes no traffic, 0 if it takes some, and
// whether that is because of a provider's 429. A model's only deployment rests
// for its quota group only: a call that fails is no worse than none.
func (t *target) rests(now time.Time) (left time.Duration, throttled bool) {
	var failing, quota time.Duration
	if !t.lone {
		left, failing = t.health.throttled.left(now), t.health.failing.left(now)
	}
	if t.quota != nil {
		quota = t.quota.left(now)
	}
	left = max(left, quota)
	return max(left, failing), left > 0 && left >= failing
}

// pick chooses a deployment that neither rests nor was tried: of the lowest
// order that has one, at random by weight; random is uniform. nil if there is
// none.
func (t *pool) pick(random uint64, now time.Time, tried []*target) *target {
	for from := 0; from < len(t.targets); {
		to := from
		var total uint64
		for ; to < len(t.targets) && t.targets[to].Order == t.targets[from].Order; to++ {
			if t.targets[to].free(now, tried) {
				total += t.targets[to].weight
			}
		}
		at, _ := bits.Mul64(random, total)
		var last *target
		for _, d := range t.targets[from:to] {
			if total == 0 || !d.free(now, tried) {
				continue
			}
			if last = d; at < d.weight {
				break
			}
			at -= d.weight
		}
		if last != nil {
			return last
		}
		from = to
	}
	return nil
}

func (t *target) free(now time.Time, tried []*target) bool {
	left, _ := t.rests(now)
	return left == 0 && !slices.Contains(tried, t)
}

// rest returns how long no deployment takes traffic, 0 if one does, and whether
// all rest because of a provider's 429.
func (t *pool) rest(now time.Time) (left time.Duration, throttled bool) {
	throttled = true
	for i, d := range t.targets {
		l, th := d.rests(now)
		throttled = throttled && th
		if i == 0 || l < left {
			left = l
		}
	}
	return left, throttled
}

// unavailable is the answer where no deployment of a model takes traffic.
func (t *pool) unavailable(now time.Time, model string) *Error {
	left, throttled := t.rest(now)
	e := &Error{Status: http.StatusServiceUnavailable, Type: typeUnavailable, RetryAfter: max(int64((left+time.Second-1)/time.Second), 1)}
	switch {
	case len(t.targets) == 0:
		e.Param, e.RetryAfter = "model", 0
		e.Message = "No deployment of model " + clip(model) + " takes traffic: their weights are 0, or their credentials are missing on this node."
	case throttled:
		e.Status, e.Type, e.LimitedBy = http.StatusTooManyRequests, typeThrottled, "upstream"
		e.Message = "The provider's own limit is reached at every deployment of model " + clip(model) + ". Try again in " + strconv.FormatInt(e.RetryAfter, 10) + " s."
	default:
		e.Message = "No deployment of model " + clip(model) + " is healthy. Try again in " + strconv.FormatInt(e.RetryAfter, 10) + " s."
	}
	return e
}
