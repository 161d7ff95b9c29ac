package proxy

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"sluice/fsm"
)

// A response lives at the deployment that made it, and its id does not say
// which that was: it is the upstream's, unchanged. A node remembers the ones
// that passed through it. For any other it asks the accounts that could have
// made it, one after the other; whoever knows the id is the one. So every node
// finds every response, and nothing has to be replicated.

const (
	// maxOrigins bounds the responses that are remembered.
	maxOrigins = 100_000
	// maxOwners bounds the accounts that are asked about one response.
	maxOwners = 8
	// askTime is how long an account may take if there are others to ask.
	askTime = 10 * time.Second
)

// origin is where a response was made.
type origin struct{ model, deployment string }

// origins remembers who made a response, the newest maxOrigins/2 of them at
// least. Any goroutine may use it.
type origins struct {
	mu       sync.Mutex
	new, old map[string]origin
}

func (o *origins) put(id string, at origin) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.new == nil || len(o.new) >= maxOrigins/2 {
		o.old, o.new = o.new, make(map[string]origin)
	}
	o.new[id] = at
}

func (o *origins) get(id string) (origin, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ok := o.new[id]
	if !ok {
		at, ok = o.old[id]
	}
	return at, ok
}

func (o *origins) drop(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.new, id)
	delete(o.old, id)
}

// remember notes that the chosen deployment made a response.
func (x *exchange) remember(id string) {
	if isResponse(x.endpoint) && saneID(id) {
		x.p.origins.put(id, origin{x.model.Model.Name, x.target.ID})
	}
}

// isResponse reports whether an endpoint is about responses.
func isResponse(e endpoint) bool {
	switch e {
	case responses, compactResponses, countInput, oneResponse, responseItems, cancelResponse:
		return true
	}
	return false
}

// owner is a deployment that may have made a response.
type owner struct {
	*target
	model fsm.Resolved
}

// owners returns the deployments, among those of models, to ask about a
// response: the one that is known to have made it, else one of every account,
// at most maxOwners.
func (p *Proxy) owners(c *fsm.Compiled, models []fsm.Resolved, id string) []owner {
	at, known := p.origins.get(id)
	table := p.targets(c)
	var out []owner
	for _, m := range models {
		pool := table.pools[m.Model]
		if pool == nil {
			continue
		}
		for _, t := range pool.targets {
			switch {
			case known && m.Model.Name == at.model && t.ID == at.deployment:
				return []owner{{t, m}}
			case !keepsResponses(t), len(out) == maxOwners:
			case !slices.ContainsFunc(out, func(o owner) bool { return sameAccount(o.target, t) }):
				out = append(out, owner{t, m})
			}
		}
	}
	return out
}

// keepsResponses reports whether a deployment's provider has the endpoints of
// responses.
func keepsResponses(t *target) bool {
	switch t.Provider {
	case fsm.ProviderOpenAI, fsm.ProviderAzure, fsm.ProviderCompatible, fsm.ProviderMock:
		return true
	}
	return false
}

// sameAccount reports whether what one deployment made the other one knows.
func sameAccount(a, b *target) bool {
	if a.Provider != b.Provider || a.secret != b.secret || (a.base == nil) != (b.base == nil) {
		return false
	}
	return a.base == nil || *a.base == *b.base
}

// usable returns the models of which the sender may use something, in the
// order of the configuration: under its own name, an alias, or a name below it.
func (id Identity) usable(c *fsm.Compiled) []fsm.Resolved {
	reached := make(map[*fsm.Model]bool)
	for _, name := range id.listed() {
		if r, err := id.resolve(c, oneResponse, name); err == nil {
			reached[r.Model] = true
		}
	}
	out := make([]fsm.Resolved, 0, len(c.Models))
	for i := range c.Models {
		m := &c.Models[i]
		r, err := id.resolve(c, oneResponse, m.Name)
		switch wildcard := m.Name[len(m.Name)-1] == '*'; {
		case err == nil && r.Model == m:
			out = append(out, r)
		case reached[m], wildcard && id.mayList(m.Name):
			out = append(out, fsm.Resolved{Group: m.Name, Asked: m.Name, Model: m})
		}
	}
	return out
}

// tie finds the account at which a request has to be made: one that goes on
// from a response must be made where that one is. No attempt and no other model
// takes it elsewhere. Where several may have made it, makers is set.
func (x *exchange) tie() {
	id := x.fields.previous
	if !isResponse(x.endpoint) || id == "" {
		return
	}
	owners := x.p.owners(x.view.Config(), []fsm.Resolved{x.model}, id)
	switch {
	case len(owners) == 1:
		x.tied = owners[0].target
	case saneID(id):
		x.makers = owners
	}
}

// maker finds a deployment, among the makers, that knows a response; nil if none
// says so. The error is an *Error.
func (x *exchange) maker(id string) (*target, error) {
	end, err := x.search()
	if err != nil {
		return nil, err
	}
	defer end()
	for _, o := range x.makers {
		ctx, cancel := context.WithTimeout(x.r.Context(), askTime)
		res, err := o.provider.send(ctx, &call{
			target: o.target, endpoint: oneResponse, header: http.Header{}, method: http.MethodGet, resource: "/" + id,
		})
		found := err == nil && res.StatusCode == http.StatusOK
		if err == nil {
			_ = res.Body.Close() // the answer itself is not wanted
		}
		cancel()
		if found {
			x.p.origins.put(id, origin{x.model.Model.Name, o.ID})
			return o.target, nil
		}
	}
	return nil, nil
}
