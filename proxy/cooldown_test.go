package proxy

import (
	"strings"
	"testing"

	"sluice/fsm"
)

func TestAnotherDeploymentGoesFirst(t *testing.T) {
	a, b := newAnswers(t, status(500, "{}", "X-Request-Id", "MARK", "X-Ratelimit-Limit-Tokens", "MARK", "Retry-After", "60")), newAnswers(t, served)
	cfg := inOrder(among(a, b))
	cfg.Models[0].Deployments[1].Model = "other-name"
	r := newRig(t, cfg, nil)
	res := r.post("/v1/chat/completions", `{"model":"m","stream":true}`)
	if res.StatusCode != 200 || res.Header.Get("x-litellm-model-id") != "d2" || len(a.calls()) != 1 || len(b.calls()) != 1 {
		t.Fatalf("%d by %s", res.StatusCode, res.Header.Get("x-litellm-model-id"))
	}
	for name, v := range res.Header {
		if strings.Contains(strings.Join(v, ""), "MARK") || name == "Retry-After" {
			t.Errorf("a header of the failed attempt is on the answer: %s %v", name, v)
		}
	}
	if got := b.calls()[0].body; got != `{"stream_options":{"include_usage":true},"model":"other-name","stream":true}` {
		t.Errorf("the second was asked %s", got)
	}
	if got := r.failures(t); got != "status_500" {
		t.Errorf("the failed attempt was counted as %q", got)
	}
	// It asked for a minute: nobody bothers it meanwhile.
	if res := r.post("/v1/chat/completions", chatBody); res.StatusCode != 200 || len(a.calls()) != 1 || res.Header.Get("x-litellm-attempted-retries") != "0" {
		t.Errorf("%d, %d calls", res.StatusCode, len(a.calls()))
	}
	if got := r.gauge(t, "sluice_deployment_cooldown", "d1"); got < 50 || got > 60 {
		t.Errorf("cooldown of d1 %v s", got)
	}
	if got := r.gauge(t, "sluice_deployment_cooldown", "d2"); got != 0 {
		t.Errorf("cooldown of d2 %v s", got)
	}
}

// gauge returns a gauge by the value of its one label.
func (r *rig) gauge(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no %s of %s", name, label)
	return 0
}

// TestClientsPauseNoDeployment: a refusal that a client can bring about says
// nothing of the deployment, and must not take it away from others.
func TestClientsPauseNoDeployment(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		body    string
		headers []string
		paused  bool
	}{
		{"a file that is not there", 404, `{"type":"error","error":{"type":"not_found_error","message":"File not found: file_1"}}`, nil, false},
		{"a response that is not there", 404, `{"error":{"message":"Previous response with id 'resp_1' not found.","code":"previous_response_not_found"}}`, nil, false},
		{"a file named like a model", 404, `{"error":{"message":"No such File object: model: up"}}`, nil, false},
		{"the model, as OpenAI says it", 404, "{\"error\":{\"message\":\"The model `up` does not exist or you do not have access to it.\",\"code\":\"model_not_found\"}}", nil, true},
		{"the model, as Azure says it", 404, `{"error":{"message":"The API deployment for this resource does not exist.","code":"DeploymentNotFound"}}`, nil, true},
		{"the model, as Anthropic says it", 404, `{"type":"error","error":{"type":"not_found_error","message":"model: up"}}`, nil, true},
		{"the model, as vLLM says it", 404, "{\"object\":\"error\",\"message\":\"The model `up` does not exist.\",\"code\":404}", nil, true},
		{"a path that the upstream does not have", 404, `<html>`, nil, false},
		{"the credential", 401, `{}`, nil, true},
		{"the client's organization", 401, `{"error":{"code":"invalid_organization"}}`, []string{"OpenAI-Organization", "org-nobody"}, false},
		{"the client's project", 401, `{"error":{"code":"mismatched_project"}}`, []string{"OpenAI-Project", "proj-nobody"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newAnswers(t, status(c.status, c.body), status(c.status, c.body), served)
			cfg := among(up, up)
			cfg.Upstream.MaxAttempts = 1
			for i := range cfg.Models[0].Deployments {
				cfg.Models[0].Deployments[i].Model = "up"
			}
			r := newRig(t, cfg, nil)
			for range 2 { // those that may be paused are not asked again
				if a := r.post("/v1/chat/completions", chatBody, c.headers...); a.StatusCode == 200 {
					t.Fatalf("%d %s", a.StatusCode, a.body)
				}
			}
			if a := r.post("/v1/chat/completions", chatBody); (a.StatusCode != 200) != c.paused {
				t.Errorf("another's request: %d %s", a.StatusCode, a.body)
			}
		})
	}
}

func TestAllDeploymentsPauseForTheirProvider(t *testing.T) {
	a := newAnswers(t, status(429, "{}", "Retry-After", "300"))
	b := newAnswers(t, status(429, "{}", "Retry-After", "200"))
	r := newRig(t, inOrder(among(a, b)), nil)
	if res := r.post("/v1/chat/completions", chatBody); res.StatusCode != 429 || res.Header.Get("Retry-After") != "200" {
		t.Fatalf("%d after %s", res.StatusCode, res.Header.Get("Retry-After"))
	}
	res := r.post("/v1/chat/completions", chatBody)
	wantError(t, res, 429, "throttling_error", "provider's own limit")
	after := res.Header.Get("Retry-After")
	if (after != "200" && after != "199") || res.Header.Get("X-Sluice-Limited-By") != "upstream" {
		t.Errorf("retry-after %q, limited by %q", after, res.Header.Get("X-Sluice-Limited-By"))
	}
	if len(a.calls()) != 1 || len(b.calls()) != 1 || len(r.gate.tickets) != 1 {
		t.Errorf("%d and %d calls, %d admissions", len(a.calls()), len(b.calls()), len(r.gate.tickets))
	}
}

func TestNoHealthyDeployment(t *testing.T) {
	dead := newAnswers(t, status(500, "{}"))
	cfg := among(dead, dead)
	cfg.Upstream.MaxAttempts = 1
	r := newRig(t, cfg, nil)
	var last answer
	for range 30 { // by chance both have had five
		if last = r.post("/v1/chat/completions", chatBody); last.StatusCode != 500 {
			break
		}
	}
	wantError(t, last, 503, "", "is healthy")
	if last.Header.Get("Retry-After") != "5" {
		t.Errorf("retry-after %q", last.Header.Get("Retry-After"))
	}
}

func TestDeploymentsOfOneQuotaGroupPauseTogether(t *testing.T) {
	a, b, c := newAnswers(t, status(429, "{}", "Retry-After", "300")), newAnswers(t, served), newAnswers(t, served)
	cfg := inOrder(among(a, b, c))
	cfg.Models[0].Deployments[0].QuotaGroup, cfg.Models[0].Deployments[1].QuotaGroup = "account", "account"
	other := upstreamOf("d4", b)
	other.QuotaGroup = "account"
	cfg.Models = append(cfg.Models, fsm.Model{Name: "n", Deployments: []fsm.Deployment{other}})
	r := newRig(t, cfg, nil)
	if res := r.post("/v1/chat/completions", chatBody); res.StatusCode != 200 || res.Header.Get("x-litellm-model-id") != "d3" {
		t.Errorf("%d by %s, want d3: the quota of d2 is used up too", res.StatusCode, res.Header.Get("x-litellm-model-id"))
	}
	wantError(t, r.post("/v1/chat/completions", `{"model":"n"}`), 429, "", "provider's own limit")
	if n := len(b.calls()); n != 0 {
		t.Errorf("%d calls on the credential that pauses", n)
	}
}

func TestAClientsFaultCoolsNothing(t *testing.T) {
	up := newAnswers(t, status(404, "{}"))
	cfg := among(up, up)
	cfg.Models[0].Name = "any/*"
	r := newRig(t, cfg, nil)
	for range 20 {
		if a := r.post("/v1/chat/completions", `{"model":"any/made-up"}`); a.StatusCode != 404 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
	if got := r.gauge(t, "sluice_deployment_cooldown", "d1"); got != 0 {
		t.Errorf("d1 cools for %v s because a client made a name up", got)
	}
}

func TestARefusedCredentialIsAnotherDeploymentsTurn(t *testing.T) {
	a, b := newAnswers(t, status(401, "{}")), newAnswers(t, served)
	r := newRig(t, inOrder(among(a, b)), nil)
	for range 3 {
		if res := r.post("/v1/chat/completions", chatBody); res.StatusCode != 200 {
			t.Fatalf("%d %s", res.StatusCode, res.body)
		}
	}
	if n := len(a.calls()); n != 1 {
		t.Errorf("%d calls with a credential that was refused", n)
	}
}
