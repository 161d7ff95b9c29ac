package proxy

import (
	"net"
	"net/http"
	"testing"

	"sluice/fsm"
)

// What a client can bring about by itself takes a deployment away from nobody.
func TestWhatAClientCausedCoolsNothing(t *testing.T) {
	const gone = `{"error":{"message":"The model 'served' does not exist","type":"invalid_request_error","code":"model_not_found"}}`
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		path   string
		body   string
		header []string
		cools  bool
	}{
		{"an endpoint that the model is not for", status(404, `{"error":{"message":"This is a chat model and not supported in the v1/completions endpoint.","type":"invalid_request_error","code":null}}`), "/v1/completions", chatBody, nil, false},
		{"an endpoint that the upstream does not have", status(404, `{"detail":"Not Found"}`), "/v1/rerank", chatBody, nil, false},
		{"no JSON", status(404, `404 page not found`), "/v1/rerank", chatBody, nil, false},
		{"a thing that is not there", status(404, `{"error":{"message":"Conversation with id 'conv_served' not found.","code":null}}`), "/v1/responses", `{"model":"m","conversation":"conv_served"}`, nil, false},
		{"another model that the request names", status(404, `{"error":{"message":"The model 'other' does not exist","code":"model_not_found"}}`), "/v1/responses", chatBody, nil, false},
		{"the deployment's model", status(404, gone), "/v1/chat/completions", chatBody, nil, true},
		{"the deployment's model, vLLM", status(404, "{\"object\":\"error\",\"message\":\"The model `served` does not exist.\",\"type\":\"NotFoundError\",\"code\":404}"), "/v1/chat/completions", chatBody, nil, true},
		{"the deployment's model, Anthropic", status(404, `{"type":"error","error":{"type":"not_found_error","message":"model: served"}}`), "/v1/chat/completions", chatBody, nil, true},
		{"Azure's deployment", status(404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`), "/v1/chat/completions", chatBody, nil, true},
		{"an organisation that the credential is not of", status(401, `{"error":{"code":"mismatched_organization"}}`), "/v1/chat/completions", chatBody, []string{"Openai-Organization", "org-other"}, false},
		{"a project that the credential is not of", status(401, `{}`), "/v1/chat/completions", chatBody, []string{"Openai-Project", "proj_other"}, false},
		{"the credential", status(401, `{}`), "/v1/chat/completions", chatBody, nil, true},
		{"a prompt beyond what a minute may hold", status(429, `{"error":{"message":"Request too large for served in organization org-x on tokens per min (TPM): Limit 30000, Requested 60000.","type":"tokens","code":"rate_limit_exceeded"}}`), "/v1/chat/completions", chatBody, nil, false},
		{"the provider's limit", status(429, `{"error":{"message":"Rate limit reached for served"}}`), "/v1/chat/completions", chatBody, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newAnswers(t, c.answer)
			cfg := inOrder(among(up, up))
			cfg.Upstream.MaxAttempts = 1
			for i := range cfg.Models[0].Deployments {
				cfg.Models[0].Deployments[i].Model, cfg.Models[0].Deployments[i].QuotaGroup = "served", "account"
			}
			r := newRig(t, cfg, nil)
			if a := r.post(c.path, c.body, c.header...); a.StatusCode == 200 {
				t.Fatalf("%d %s", a.StatusCode, a.body)
			}
			if got := r.gauge(t, "sluice_deployment_cooldown", "d1") > 0; got != c.cools {
				t.Errorf("d1 cools: %t, want %t", got, c.cools)
			}
		})
	}
}

// A request that is larger than a minute's tokens is not sent to the same
// deployment again: nothing can come of it, and its slot is held meanwhile.
func TestARequestTooLargeForItsProviderIsNotMadeAgain(t *testing.T) {
	up := newAnswers(t, status(429, `{"error":{"message":"Request too large for gpt on tokens per min (TPM): Limit 1, Requested 2.","code":"rate_limit_exceeded"}}`))
	r := newRig(t, among(up), nil)
	if a := r.post("/v1/chat/completions", chatBody); a.StatusCode != 429 || len(up.calls()) != 1 {
		t.Errorf("%d after %d calls", a.StatusCode, len(up.calls()))
	}
}

// Names in a list of fallbacks are no licence for more attempts.
func TestFallbacksThatAreNoneAddNoAttempts(t *testing.T) {
	const narrow = "sk-narrow-0123456789abcdef"
	for _, c := range []struct {
		name, body, key string
		conf            []string
		calls           int
	}{
		{"the model itself, again and again", `{"model":"m","fallbacks":["m","m","m","m","m"]}`, userKey, nil, 1},
		{"by another name", `{"model":"m","fallbacks":["alias","alias","alias"]}`, userKey, nil, 1},
		{"one that is allowed, again and again", `{"model":"m","fallbacks":["b","b","b","b"]}`, userKey, nil, 2},
		{"those of the configuration that the key may not use", chatBody, narrow, []string{"b", "c"}, 1},
		{"and no retries", `{"model":"m","num_retries":0,"fallbacks":["m","m"]}`, userKey, nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newAnswers(t, status(503, "{}"))
			cfg := ladder(up, up, up)
			cfg.Upstream.MaxAttempts = 1
			if c.name == "and no retries" {
				cfg.Upstream.MaxAttempts = 6
			}
			cfg.Models[0].Fallbacks = c.conf
			cfg.Aliases = map[string]string{"alias": "m"}
			r := newRig(t, cfg, nil)
			r.addKey(narrow, fsm.Key{Models: []string{"m"}})
			a := r.do("POST", "/v1/chat/completions", c.body, "Authorization", "Bearer "+c.key)
			if n := len(up.calls()); a.StatusCode != 503 || n != c.calls {
				t.Errorf("%d after %d calls, want %d", a.StatusCode, n, c.calls)
			}
		})
	}
}

// A stream that ends with an error about its request says nothing of the
// deployment, however often a client asks for it.
func TestStreamsThatTheirRequestBreaksCoolNothing(t *testing.T) {
	failed := func(code string) string {
		return created + "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"usage\":null,\"error\":{\"code\":\"" + code + "\",\"message\":\"x\"}}}\n\n"
	}
	for _, c := range []struct {
		name, path, sent string
		cools            bool
	}{
		{"a prompt that is none", "/v1/responses", failed("invalid_prompt"), false},
		{"an image that is none", "/v1/responses", failed("failed_to_download_image"), false},
		{"the server", "/v1/responses", failed("server_error"), true},
		{"an event of its own", "/v1/responses", created + "event: error\ndata: {\"type\":\"error\",\"code\":\"invalid_image_url\",\"message\":\"x\"}\n\n", false},
		{"chat", "/v1/chat/completions", delta + "data: {\"error\":{\"message\":\"x\",\"type\":\"invalid_request_error\",\"code\":400}}\n\n", false},
		{"chat, the server", "/v1/chat/completions", delta + "data: {\"error\":{\"message\":\"x\",\"type\":\"server_error\",\"code\":500}}\n\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newAnswers(t, script(func(conn net.Conn) { say(conn, sseHead+c.sent) }))
			r := newRig(t, inOrder(among(up, up)), nil)
			for range fewCalls {
				if a := r.post(c.path, respondBody); a.StatusCode != 200 {
					t.Fatalf("%d %s", a.StatusCode, a.body)
				}
			}
			if got := r.gauge(t, "sluice_deployment_cooldown", "d1") > 0; got != c.cools {
				t.Errorf("d1 cools: %t, want %t", got, c.cools)
			}
		})
	}
}

// Coding agents count tokens all the time, and for most deployments the gateway
// does it: that must not make a dead one look alive.
func TestEstimatesDoNotKeepADeadDeploymentInUse(t *testing.T) {
	dead, alive := newAnswers(t, script(reset)), newAnswers(t, served)
	cfg := inOrder(among(dead, alive))
	cfg.Upstream.MaxAttempts = 1
	r := newRig(t, cfg, nil)
	const question = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`
	for range fewCalls {
		if a := r.post("/v1/messages", question); a.StatusCode != 502 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		for range 3 {
			if a := r.post("/v1/messages/count_tokens", question); a.StatusCode != 200 {
				t.Fatalf("%d %s", a.StatusCode, a.body)
			}
		}
	}
	if r.gauge(t, "sluice_deployment_cooldown", "d1") == 0 {
		t.Error("the dead deployment is still asked first")
	}
}
