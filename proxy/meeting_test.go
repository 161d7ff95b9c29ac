package proxy

import (
	"net/http"
	"strings"
	"testing"

	"sluice/fsm"
	"sluice/limiter"
)

// Where attempts meet protocols: every attempt is made for its own deployment,
// and what the client sees is in the client's protocol.

const (
	chatAnswered = `{"id":"c","object":"chat.completion","model":"served","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`
	msgAnswered  = `{"id":"msg_1","type":"message","role":"assistant","model":"served","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":7,"output_tokens":3}}`
	chatStreamed = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"hi\"},\"finish_reason\":null}]}\n\n" +
		"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
		"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,\"total_tokens\":10}}\n\ndata: [DONE]\n\n"
	msgStreamed = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"served\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n" +
		"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":3}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

	overloaded  = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`
	promptLong  = `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 215000 tokens > 200000 maximum"}}`
	limitExceed = `{"type":"error","error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 199000 + 8192 > 200000, decrease input length or ` + "`max_tokens`" + ` and try again"}}`
	filtered    = `{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}`
	unavailable = `{"error":{"message":"down for repair","type":"server_error","param":null,"code":null}}`
)

// bilingual answers as either provider does, by the path and whether a stream is wanted.
func bilingual(w http.ResponseWriter, r *http.Request) {
	messages := strings.HasSuffix(r.URL.Path, "/messages")
	stream := r.Header.Get("Accept") == "text/event-stream"
	text := map[[2]bool]string{{false, false}: chatAnswered, {true, false}: msgAnswered, {false, true}: chatStreamed, {true, true}: msgStreamed}[[2]bool{messages, stream}]
	kind := "application/json"
	if stream {
		kind = "text/event-stream"
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write([]byte(text))
}

// mixed gives the deployments of the first model these providers, in order.
func mixed(cfg fsm.Config, providers ...string) fsm.Config {
	cfg = inOrder(cfg)
	for i, name := range providers {
		d := &cfg.Models[0].Deployments[i]
		if d.Provider = name; name == fsm.ProviderAnthropic {
			d.APIBase = strings.TrimSuffix(d.APIBase, "/v1")
		}
	}
	return cfg
}

const (
	claudes = fsm.ProviderAnthropic
	gpts    = fsm.ProviderCompatible
)

func TestAnAttemptIsTranslatedForItsOwnDeployment(t *testing.T) {
	const chat, chats = `{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"hi"}]}`, `{"model":"m","max_tokens":64,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
	for _, c := range []struct {
		name, path, body string
		first, second    string
		refusal          http.HandlerFunc
		up, want         string // what the second is asked, and how its answer begins or what is in it
	}{
		{"chat: OpenAI, then Anthropic", "/v1/chat/completions", chat, gpts, claudes, status(503, unavailable), `"max_tokens":64`, `"content":"hi"`},
		{"chat: Anthropic, then OpenAI", "/v1/chat/completions", chat, claudes, gpts, status(529, overloaded), chat, `"content":"hi"`},
		{"chat stream: OpenAI, then Anthropic", "/v1/chat/completions", chats, gpts, claudes, status(503, unavailable), `"stream":true`, "data: [DONE]\n\n"},
		{"chat stream: Anthropic, then OpenAI", "/v1/chat/completions", chats, claudes, gpts, status(529, overloaded), `"include_usage":true`, "data: [DONE]\n\n"},
		{"Messages: Anthropic, then OpenAI", "/v1/messages", messageBody, claudes, gpts, status(529, overloaded), `"messages"`, `"text":"hi"`},
		{"Messages: OpenAI, then Anthropic", "/v1/messages", messageBody, gpts, claudes, status(503, unavailable), messageBody, `"text":"hi"`},
		{"Messages stream: Anthropic, then OpenAI", "/v1/messages", messageStream, claudes, gpts, status(529, overloaded), `"include_usage":true`, "event: message_stop\n"},
		{"Messages stream: OpenAI, then Anthropic", "/v1/messages", messageStream, gpts, claudes, status(429, unavailable), messageStream, "event: message_stop\n"},
	} {
		for _, over := range []string{"a deployment", "a fallback"} {
			t.Run(c.name+", "+over, func(t *testing.T) {
				a, b := newAnswers(t, c.refusal), newAnswers(t, bilingual)
				cfg := mixed(among(a, b), c.first, c.second)
				if over == "a fallback" {
					m := &cfg.Models[0]
					cfg.Models = append(cfg.Models, fsm.Model{Name: "b", Deployments: []fsm.Deployment{m.Deployments[1]}})
					cfg.Models[1].Deployments[0].Model = "m" // as it goes up
					m = &cfg.Models[0]
					m.Deployments, m.Fallbacks = m.Deployments[:1], []string{"b"}
					cfg.Upstream.MaxAttempts = 1
				}
				r := newRig(t, cfg, nil)
				res := r.post(c.path, c.body)
				if res.StatusCode != 200 || !strings.Contains(res.body, c.want) || res.Header.Get("x-litellm-model-id") != "d2" {
					t.Fatalf("%d by %s: %s", res.StatusCode, res.Header.Get("x-litellm-model-id"), res.body)
				}
				if calls := b.calls(); len(calls) != 1 || !strings.Contains(calls[0].body, c.up) {
					t.Errorf("the second was asked %+v", calls)
				}
				if u := r.gate.spent(t, len(r.gate.tickets)-1); u.Input != 7 || u.Output != 3 {
					t.Errorf("settled %+v", u)
				}
			})
		}
	}
}

func TestTheLastRefusalIsInTheClientsProtocol(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		providers        []string
		refusals         [2]http.HandlerFunc
		status           int
		want             []string
	}{
		{"of Anthropic for a chat", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, []string{gpts, claudes},
			[2]http.HandlerFunc{status(503, unavailable), status(529, overloaded)}, 0, []string{`"error":{`, "Overloaded"}},
		{"of OpenAI for a chat", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, []string{claudes, gpts},
			[2]http.HandlerFunc{status(529, overloaded), status(503, unavailable)}, 503, []string{unavailable}},
		{"of OpenAI for Messages", "/v1/messages", messageBody, []string{claudes, gpts},
			[2]http.HandlerFunc{status(529, overloaded), status(503, unavailable)}, 0, []string{`{"type":"error"`, "down for repair"}},
		{"of Anthropic for Messages", "/v1/messages", messageBody, []string{gpts, claudes},
			[2]http.HandlerFunc{status(503, unavailable), status(529, overloaded)}, 529, []string{overloaded}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newAnswers(t, c.refusals[0]), newAnswers(t, c.refusals[1])
			cfg := mixed(among(a, b), c.providers...)
			cfg.Upstream.MaxAttempts = 2
			r := newRig(t, cfg, nil)
			res := r.post(c.path, c.body)
			if res.StatusCode < 500 || c.status != 0 && res.StatusCode != c.status || len(a.calls())+len(b.calls()) != 2 {
				t.Errorf("%d after %d calls", res.StatusCode, len(a.calls())+len(b.calls()))
			}
			for _, w := range c.want {
				if !strings.Contains(res.body, w) {
					t.Errorf("%s, want %s", res.body, w)
				}
			}
			if strings.HasPrefix(c.path, "/v1/chat") && strings.HasPrefix(res.body, `{"type":"error"`) {
				t.Errorf("Anthropic's envelope for a chat: %s", res.body)
			}
			if u := r.gate.spent(t, 0); u != (limiter.Usage{}) {
				t.Errorf("settled %+v", u)
			}
		})
	}
}

func TestAnOverloadedAnthropicRests(t *testing.T) {
	a, b := newAnswers(t, status(529, overloaded, "Retry-After", "30")), newAnswers(t, bilingual)
	r := newRig(t, mixed(among(a, b), claudes, gpts), nil)
	for range 3 {
		if res := r.post("/v1/messages", messageBody); res.StatusCode != 200 || res.Header.Get("Retry-After") != "" {
			t.Fatalf("%d %v", res.StatusCode, res.Header)
		}
	}
	if n := len(a.calls()); n != 1 {
		t.Errorf("%d calls of a deployment that asked for 30 s", n)
	}
	if left := r.gauge(t, "sluice_deployment_cooldown", "d1"); left < 20 || left > 30 {
		t.Errorf("it rests for %v s", left)
	}
}

func TestTroublesAreKnownInBothProtocols(t *testing.T) {
	for _, c := range []struct{ name, path, body, provider, refusal string }{
		{"Anthropic's, for Messages", "/v1/messages", messageBody, claudes, promptLong},
		{"Anthropic's, for a chat", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, claudes, promptLong},
		{"Anthropic's with max_tokens", "/v1/messages", messageBody, claudes, limitExceed},
		{"OpenAI's, for Messages", "/v1/messages", messageBody, gpts, tooLong},
		{"a filter of Anthropic's", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, claudes, filtered},
		{"a filter of OpenAI's", "/v1/messages", messageBody, gpts, forbidden},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newAnswers(t, status(400, c.refusal)), newAnswers(t, bilingual)
			cfg := mixed(ladder(a, b, b), c.provider)
			cfg.Models[0].ContextWindowFallbacks = []string{"b"}
			if strings.HasPrefix(c.name, "a filter") {
				cfg.Models[0].ContextWindowFallbacks, cfg.Models[0].ContentPolicyFallbacks = nil, []string{"b"}
			}
			r := newRig(t, cfg, nil)
			if res := r.post(c.path, c.body); res.StatusCode != 200 || res.Header.Get("x-litellm-model-group") != "b" {
				t.Errorf("%d by %s: %s", res.StatusCode, res.Header.Get("x-litellm-model-group"), res.body)
			}
		})
	}
}

// untranslatable is a chat that Anthropic's protocol has no words for.
const untranslatable = `{"model":"m","n":2,"messages":[{"role":"user","content":"hi"}]}`

func TestWhatCannotBeTranslatedGoesWhereItNeedNot(t *testing.T) {
	a, b := newAnswers(t, bilingual), newAnswers(t, status(503, unavailable), bilingual)
	r := newRig(t, mixed(among(a, b), claudes, gpts), nil)
	if res := r.post("/v1/chat/completions", untranslatable); res.StatusCode != 200 || len(a.calls()) != 0 || len(b.calls()) != 2 {
		t.Errorf("%d %s; %d calls of Anthropic", res.StatusCode, res.body, len(a.calls()))
	}
}

func TestWhatCannotBeTranslatedIsCountedNowhere(t *testing.T) {
	a := newAnswers(t, bilingual)
	r := newRig(t, mixed(among(a), claudes), nil)
	wantError(t, r.post("/v1/chat/completions", untranslatable), 400, typeInvalid, "n")
	if len(a.calls()) != 0 || len(r.gate.tickets) != 0 {
		t.Errorf("%d calls, %d admissions", len(a.calls()), len(r.gate.tickets))
	}
	for _, path := range []string{"/v1/responses", "/v1/embeddings", "/v1/images/generations", "/v1/audio/speech", "/v1/rerank", "/v1/moderations"} {
		wantError(t, r.post(path, `{"model":"m","input":"x"}`), 400, typeInvalid, "does not serve "+strings.TrimPrefix(path, "/v1"))
	}
	if len(a.calls()) != 0 || len(r.gate.tickets) != 0 {
		t.Errorf("%d calls, %d admissions", len(a.calls()), len(r.gate.tickets))
	}
}

func TestAResponseThatGoesOnStaysAtItsAccount(t *testing.T) {
	var fail bool
	maker := newAnswers(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case fail && r.Method == http.MethodPost:
			status(503, unavailable)(w, r)
		default:
			status(200, `{"id":"resp_a","usage":{"input_tokens":5,"output_tokens":5}}`)(w, r)
		}
	})
	other := newAnswers(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			status(404, `{"error":{"message":"no such response"}}`)(w, r)
			return
		}
		status(200, `{"id":"resp_b","usage":{"input_tokens":5,"output_tokens":5}}`)(w, r)
	})
	cfg := inOrder(among(maker, other))
	cfg.Models = append(cfg.Models, fsm.Model{Name: "b", Deployments: []fsm.Deployment{upstreamOf("d-b", other)}})
	cfg.Models[0].Fallbacks, cfg.Upstream.MaxAttempts = []string{"b"}, 3
	r := newRig(t, cfg, nil)
	if a := r.post("/v1/responses", `{"model":"m"}`); a.StatusCode != 200 || a.Header.Get("x-litellm-model-id") != "d1" {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	fail = true
	a := r.post("/v1/responses", `{"model":"m","previous_response_id":"resp_a"}`)
	if a.StatusCode != 503 || a.body != unavailable || len(other.calls()) != 0 {
		t.Errorf("%d %s; %d calls elsewhere", a.StatusCode, a.body, len(other.calls()))
	}
	if n := len(maker.calls()); n < 3 {
		t.Errorf("%d calls: it was not asked again", n)
	}
	if a := r.post("/v1/responses", `{"model":"m"}`); a.StatusCode != 200 || len(other.calls()) != 1 {
		t.Errorf("a first response may be made anywhere: %d", a.StatusCode)
	}
}

func TestMemoryOfBodiesIsGivenBackAfterAttempts(t *testing.T) {
	large := strings.Repeat("a word ", 200_000)
	for _, c := range []struct {
		name, path, body string
		providers        []string
		last             http.HandlerFunc
		status           int
	}{
		{"served in the end", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"` + large + `"}]}`, []string{gpts, claudes}, bilingual, 200},
		{"served, and nobody says what it cost", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"` + large + `"}]}`, []string{claudes, gpts}, status(200, `{"choices":[]}`), 200},
		{"failed in the end", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"` + large + `"}]}`, []string{gpts, claudes}, status(503, "{}"), 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newAnswers(t, status(503, unavailable)), newAnswers(t, status(503, unavailable), c.last)
			cfg := mixed(among(a, b), c.providers...)
			cfg.Upstream.MaxAttempts = 4
			r := newRig(t, cfg, nil)
			res := r.post(c.path, c.body)
			if res.StatusCode != c.status {
				t.Fatalf("%d %.200s", res.StatusCode, res.body)
			}
			if got := b.calls()[0].body; !strings.Contains(got, large) {
				t.Errorf("%d bytes went up", len(got))
			}
			if u := r.gate.spent(t, 0); c.last != nil && strings.Contains(c.name, "nobody") && u.Input < int64(len(large)/5) {
				t.Errorf("settled %+v: the body was gone before it was estimated", u)
			}
			eventually(t, "memory given back", func() bool { return r.proxy.memory.used.Load() == 0 })
		})
	}
}

func TestMessagesReserveWhatTheyMayUse(t *testing.T) {
	picture := strings.Repeat("iVBORw0KGgo", 100_000)
	for _, provider := range []string{claudes, gpts} {
		a := newAnswers(t, bilingual)
		cfg := mixed(among(a), provider)
		cfg.Limits.TokenAccounting = fsm.AccountReserved
		r := newRig(t, cfg, nil)
		body := `{"model":"m","max_tokens":64,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + picture + `"}},{"type":"text","text":"hi"}]}]}`
		if res := r.post("/v1/messages", body); res.StatusCode != 200 {
			t.Fatalf("%d %s", res.StatusCode, res.body)
		}
		if e := r.gate.tickets[0].Estimate; e.Output != 64 || e.Input < mediaTokens || e.Input > 2*mediaTokens {
			t.Errorf("%s: reserved %+v", provider, e)
		}
	}
}
