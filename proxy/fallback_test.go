package proxy

import (
	"net/http"
	"strings"
	"testing"

	"sluice/fsm"
	"sluice/limiter"
)

const tooLong = `{"error":{"message":"too long","code":"context_length_exceeded"}}`
const forbidden = `{"error":{"message":"no","code":"content_policy_violation"}}`

// ladder is the models "m", "b" and "c", each on its upstream.
func ladder(m, b, c *answers) fsm.Config {
	cfg := among(m)
	cfg.Upstream.MaxAttempts = 4
	for name, up := range map[string]*answers{"b": b, "c": c} {
		cfg.Models = append(cfg.Models, fsm.Model{Name: name, Deployments: []fsm.Deployment{upstreamOf("d-"+name, up)}})
	}
	return cfg
}

func TestFallbacks(t *testing.T) {
	down, long, policy := status(503, `{"down":1}`), status(400, tooLong), status(400, forbidden)
	for _, c := range []struct {
		name    string
		m, b    http.HandlerFunc // c always serves
		conf    func(*fsm.Config)
		body    string
		status  int
		group   string
		calls   [3]int // at m, b and c
		tickets string
	}{
		{"in order, each with an attempt of its own", down, down, func(c *fsm.Config) { c.Models[0].Fallbacks = []string{"b", "c"} }, "", 200, "c", [3]int{2, 1, 1}, "m b c"},
		{"they end where one serves", down, served, func(c *fsm.Config) { c.Models[0].Fallbacks = []string{"b", "c"} }, "", 200, "b", [3]int{2, 1, 0}, "m b"},
		{"for models without any", down, served, func(c *fsm.Config) { c.Upstream.DefaultFallbacks = []string{"b"} }, "", 200, "b", [3]int{3, 1, 0}, "m b"},
		{"a default that is the model itself", down, served, func(c *fsm.Config) { c.Upstream.DefaultFallbacks = []string{"m"} }, "", 503, "m", [3]int{4, 0, 0}, "m"},
		{"without retries there are still fallbacks", down, down, func(c *fsm.Config) { c.Models[0].Fallbacks, c.Upstream.MaxAttempts = []string{"b", "c"}, 1 }, "", 200, "c", [3]int{1, 1, 1}, "m b c"},
		{"the request's own go first", down, served, func(c *fsm.Config) { c.Models[0].Fallbacks = []string{"b"} }, `{"model":"m","fallbacks":["c"]}`, 200, "c", [3]int{3, 0, 1}, "m c"},
		{"the request may want none", down, served, func(c *fsm.Config) { c.Models[0].Fallbacks = []string{"b"} }, `{"model":"m","fallbacks":[]}`, 503, "m", [3]int{4, 0, 0}, "m"},
		{"they are not followed further", down, down, func(c *fsm.Config) {
			c.Models[0].Fallbacks = []string{"b"}
			for i := range c.Models[1:] {
				c.Models[1+i].Fallbacks = []string{"m"}
			}
		}, "", 503, "b", [3]int{3, 1, 0}, "m b"},
		{"a prompt that is too long", long, served, func(c *fsm.Config) {
			c.Models[0].Fallbacks, c.Models[0].ContextWindowFallbacks = []string{"b"}, []string{"c"}
		}, "", 200, "c", [3]int{1, 0, 1}, "m c"},
		{"too long, and nothing for it", long, served, func(c *fsm.Config) { c.Models[0].Fallbacks = []string{"b"} }, "", 400, "m", [3]int{1, 0, 0}, "m"},
		{"a policy", policy, served, func(c *fsm.Config) { c.Models[0].ContentPolicyFallbacks = []string{"b"} }, "", 200, "b", [3]int{1, 1, 0}, "m b"},
		{"down, then too long, and the attempts are used up", down, long, func(c *fsm.Config) {
			c.Models[0].Fallbacks, c.Models[0].ContextWindowFallbacks = []string{"b"}, []string{"b", "c"}
		}, "", 400, "b", [3]int{3, 1, 0}, "m b"},
		{"too long, with one attempt", long, served, func(c *fsm.Config) {
			c.Models[0].ContextWindowFallbacks, c.Upstream.MaxAttempts = []string{"b"}, 1
		}, "", 200, "b", [3]int{1, 1, 0}, "m b"},
		{"a bad request falls nowhere", status(400, "{}"), served, func(c *fsm.Config) { c.Models[0].Fallbacks = []string{"b"} }, "", 400, "m", [3]int{1, 0, 0}, "m"},
		{"a provider's pause is not waited for", status(429, "{}", "Retry-After", "1"), served, func(c *fsm.Config) { c.Models[0].Fallbacks = []string{"b"} }, "", 200, "b", [3]int{1, 1, 0}, "m b"},
		{"a model without deployments", down, served, func(c *fsm.Config) {
			none := int64(0)
			c.Models[0].Fallbacks, c.Models[0].Deployments[0].Weight = []string{"b"}, &none
		}, "", 200, "b", [3]int{0, 1, 0}, "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ups := [3]*answers{newAnswers(t, c.m), newAnswers(t, c.b), newAnswers(t, served)}
			cfg := ladder(ups[0], ups[1], ups[2])
			c.conf(&cfg)
			r := newRig(t, cfg, nil)
			body := c.body
			if body == "" {
				body = chatBody
			}
			a := r.post("/v1/chat/completions", body)
			if a.StatusCode != c.status || a.Header.Get("x-litellm-model-group") != c.group {
				t.Errorf("%d by %q: %s", a.StatusCode, a.Header.Get("x-litellm-model-group"), a.body)
			}
			var got [3]int
			total := 0
			for i, up := range ups {
				got[i] = len(up.calls())
				total += got[i]
				for _, call := range up.calls() {
					if strings.Contains(call.body, "fallbacks") {
						t.Errorf("went up: %s", call.body)
					}
				}
			}
			if got != c.calls {
				t.Errorf("calls %v, want %v", got, c.calls)
			}
			if most := max(int(cfg.Upstream.MaxAttempts), 3); total > most {
				t.Errorf("%d calls for one request", total)
			}
			var groups []string
			for i, ticket := range r.gate.tickets {
				groups = append(groups, ticket.Model)
				want := limiter.Usage{}
				if i == len(r.gate.tickets)-1 && c.status == 200 {
					want = limiter.Usage{Input: 7, Output: 3, Cached: 2}
				}
				if u := r.gate.spent(t, i); u != want {
					t.Errorf("%s was settled with %+v, want %+v", ticket.Model, u, want)
				}
			}
			if s := strings.Join(groups, " "); s != c.tickets {
				t.Errorf("admitted by %s, want %s", s, c.tickets)
			}
			if n := strings.Count(c.tickets, " "); c.calls[0] > 0 && a.Header.Get("x-litellm-attempted-fallbacks") != itoa(n) {
				t.Errorf("says %q fallbacks", a.Header.Get("x-litellm-attempted-fallbacks"))
			}
			if got := a.Header.Get("x-litellm-attempted-retries"); c.calls[0] > 0 && got != itoa(total-1-strings.Count(c.tickets, " ")) {
				t.Errorf("says %q retries", got)
			}
		})
	}
}

func TestAFallbackIsNoWayAroundAnything(t *testing.T) {
	up, b, c := newAnswers(t, status(503, `{"down":1}`, "X-Request-Id", "r1")), newAnswers(t, served), newAnswers(t, served)
	cfg := ladder(up, b, c)
	cfg.Models[0].Fallbacks = []string{"b", "c"}
	r := newRig(t, cfg, nil)
	r.gate.admit = func(ticket limiter.Ticket) error {
		if ticket.Model == "c" {
			return &limiter.Refusal{Ticket: ticket, Scope: limiter.ScopeKey, Dimension: limiter.Requests, RetryAfter: 1}
		}
		return nil
	}
	const narrow = "sk-narrow-0123456789abcdef"
	r.addKey(narrow, fsm.Key{Models: []string{"m", "c"}})
	a := r.do("POST", "/v1/chat/completions", chatBody, "Authorization", "Bearer "+narrow)
	// b is not allowed, c refused by a limit: the answer is the upstream's.
	if a.StatusCode != 503 || a.body != `{"down":1}` || a.Header.Get("X-Request-Id") != "r1" || a.Header.Get("x-litellm-model-group") != "m" {
		t.Errorf("%d %s by %s", a.StatusCode, a.body, a.Header.Get("x-litellm-model-group"))
	}
	for _, name := range []string{"Retry-After", "rate_limit_type", "reset_at", "X-Sluice-Limited-By", "X-Sluice-Explain"} {
		if v := a.Header.Get(name); v != "" {
			t.Errorf("%s: %q is about a model that did not answer", name, v)
		}
	}
	if len(b.calls())+len(c.calls()) != 0 {
		t.Errorf("%d and %d calls", len(b.calls()), len(c.calls()))
	}
	// The request's own list is refused before anything is counted.
	before := len(r.gate.tickets)
	wantError(t, r.do("POST", "/v1/chat/completions", `{"model":"m","fallbacks":["b"]}`, "Authorization", "Bearer "+narrow), 403, "key_model_access_denied", "'b'")
	wantError(t, r.post("/v1/chat/completions", `{"model":"m","fallbacks":["nothing"]}`), 404, "", "model=nothing")
	if len(r.gate.tickets) != before {
		t.Error("a refused request was counted")
	}
}

func TestALimitIsFinalWhateverStandsIn(t *testing.T) {
	up, b := newAnswers(t, served), newAnswers(t, served)
	cfg := ladder(up, b, b)
	cfg.Models[0].Fallbacks = []string{"b"}
	r := newRig(t, cfg, nil)
	r.gate.admit = func(ticket limiter.Ticket) error {
		return &limiter.Refusal{Ticket: ticket, Scope: limiter.ScopeModel, Dimension: limiter.Requests, RetryAfter: 1}
	}
	if a := r.post("/v1/chat/completions", chatBody); a.StatusCode != 429 || len(r.gate.tickets) != 1 || len(b.calls()) != 0 {
		t.Errorf("%d, %d tickets, %d calls", a.StatusCode, len(r.gate.tickets), len(b.calls()))
	}
}

// Whatever name leads to a model, its counters are the same ones.
func TestNamesOfOneModelShareItsBudgetAsFallbacksToo(t *testing.T) {
	down, ok := newAnswers(t, status(503, "{}")), newAnswers(t, served)
	cfg := ladder(down, ok, ok)
	cfg.Aliases = map[string]string{"fast": "m", "spare": "any/b"}
	cfg.Models = append(cfg.Models, fsm.Model{Name: "any/*", Deployments: []fsm.Deployment{upstreamOf("d-any", ok)}})
	cfg.Models[0].Fallbacks = []string{"spare"}
	r := newRig(t, cfg, nil)
	const key = "sk-alias-0123456789abcdef"
	r.addKey(key, fsm.Key{Models: []string{"m", "any/*"}})
	for _, name := range []string{"m", "fast"} {
		a := r.do("POST", "/v1/chat/completions", `{"model":"`+name+`"}`, "Authorization", "Bearer "+key)
		if a.StatusCode != 200 || a.Header.Get("x-litellm-model-group") != "any/*" {
			t.Errorf("%s: %d by %s", name, a.StatusCode, a.Header.Get("x-litellm-model-group"))
		}
	}
	for i, ticket := range r.gate.tickets {
		if want := []string{"m", "any/*"}[i%2]; ticket.Model != want {
			t.Errorf("ticket %d counts on %s, want %s", i, ticket.Model, want)
		}
	}
	for _, call := range ok.calls() {
		if !strings.Contains(call.body, `"any/b"`) {
			t.Errorf("the upstream was asked %s", call.body)
		}
	}
	for _, name := range []string{"M", "m ", "any/b "} {
		if a := r.do("POST", "/v1/chat/completions", `{"model":"`+name+`"}`, "Authorization", "Bearer "+key); a.StatusCode != 403 && a.StatusCode != 404 {
			t.Errorf("%q: %d", name, a.StatusCode)
		}
	}
}
