package proxy

import (
	"log/slog"
	"math/bits"
	"net/http"
	"net/url"
	"slices"

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
}

// pool is the deployments of one model that take traffic.
type pool struct {
	targets []*target
	weight  uint64 // their sum, > 0 unless there is none
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
	for i := range c.Models {
		t.pools[&c.Models[i]] = p.ready(&c.Models[i])
	}
	p.table.Store(t)
	return t
}

// ready readies the deployments of a model. One that cannot be used is logged
// and takes no traffic.
func (p *Proxy) ready(m *fsm.Model) *pool {
	out := &pool{}
	for i := range m.Deployments {
		d := &m.Deployments[i]
		t := &target{Deployment: d, weight: 1, idHeader: []string{d.ID}}
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
		if out.weight+t.weight < out.weight {
			continue // beyond any weight that could be meant
		}
		out.weight += t.weight
		out.targets = append(out.targets, t)
	}
	return out
}

// serving returns the deployments that can serve an endpoint; itself if all can.
// The error is an *Error (400) if there are deployments and none can.
func (t *pool) serving(e endpoint, model string) (*pool, error) {
	if t == nil || !slices.ContainsFunc(t.targets, func(d *target) bool { return d.provider.serves(e) == noEndpoint }) {
		return t, nil
	}
	able := &pool{}
	for _, d := range t.targets {
		if d.provider.serves(e) != noEndpoint {
			able.weight += d.weight
			able.targets = append(able.targets, d)
		}
	}
	if len(able.targets) == 0 {
		return nil, badRequest("model", "Model "+clip(model)+" does not serve "+e.path()+": its provider has nothing like it.")
	}
	return able, nil
}

// pick chooses a deployment at random by weight; random is uniform. The error
// is an *Error (503) if none takes traffic.
func (t *pool) pick(random uint64, model string) (*target, error) {
	if t == nil || len(t.targets) == 0 {
		return nil, &Error{
			Status: http.StatusServiceUnavailable, Type: typeUnavailable, Param: "model",
			Message: "No deployment of model " + clip(model) + " takes traffic: their weights are 0, or their credentials are missing on this node.",
		}
	}
	at, _ := bits.Mul64(random, t.weight)
	for _, d := range t.targets {
		if at < d.weight {
			return d, nil
		}
		at -= d.weight
	}
	return t.targets[len(t.targets)-1], nil
}
