package proxy

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"sluice/fsm"
	"sluice/limiter"
)

// claude is a configuration with the model "m" on one Anthropic-like upstream.
func claude(base string) fsm.Config {
	cfg := fsm.DefaultConfig()
	cfg.Models = []fsm.Model{{Name: "m", Deployments: []fsm.Deployment{{
		ID: "a1", Provider: fsm.ProviderAnthropic, APIBase: base, APIKey: "os.environ/KEY",
	}}}}
	cfg.Upstream.MaxAttempts = 1 // retries have tests of their own
	return cfg
}

const (
	messageBody   = `{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"hi"}]}`
	messageStream = `{"model":"m","max_tokens":64,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
	okMessage     = `{"id":"msg_1","type":"message","role":"assistant","model":"served","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":7,"cache_creation_input_tokens":1000,"cache_read_input_tokens":9000,"output_tokens":20}}`
)

// signed is the second turn of a conversation, with all that a re-encoding
// would change: odd numbers, escapes, the order of keys, blanks.
const signed = `{ "max_tokens" : 1e3, "model":"m", "temperature":1.0,
 "system":[{"type":"text","text":"caf\u00e9 é <b>"},{"type":"text","cache_control":{"ttl":"1h","type":"ephemeral"},"text":"\u2028"}],
 "context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]},"output_config":{"effort":"low"},"x-unknown":12345678901234567890,
 "tools":[{"name":"t","strict":true,"defer_loading":true,"input_schema":{"type":"object"}}],
 "messages":[{"role":"user","content":"q"},{"role":"assistant","content":[
  {"type":"thinking","thinking":"hm\n","signature":"EqQB/+=="},{"type":"redacted_thinking","data":"Zm9v"},
  {"type":"tool_use","id":"toolu_1","name":"t","input":{"b":1,"a":2.50}}]},
  {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"}]}] }`

func TestAnthropicRequestsGoUpByteForByte(t *testing.T) {
	for _, c := range []struct {
		name, base, model, path, uri, body, want string
	}{
		{"nothing must change", "", "", "/v1/messages", "/v1/messages", signed, signed},
		{"the model's value alone", "", "claude-x", "/v1/messages", "/v1/messages", signed, strings.Replace(signed, `"model":"m"`, `"model":"claude-x"`, 1)},
		{"without /v1, with a query", "", "", "/messages?beta=true", "/v1/messages?beta=true", messageBody, messageBody},
		{"a base that ends in /v1", "/v1", "", "/v1/messages/", "/v1/messages", messageBody, messageBody},
		{"a base below a path", "/anthropic/", "", "/v1/messages", "/anthropic/v1/messages", messageBody, messageBody},
		{"nothing is asked for in a stream", "", "", "/v1/messages", "/v1/messages", messageStream, messageStream},
		{"count", "", "claude-x", "/v1/messages/count_tokens?beta=true", "/v1/messages/count_tokens?beta=true", signed, strings.Replace(signed, `"model":"m"`, `"model":"claude-x"`, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, func(conn net.Conn) { say(conn, jsonAnswer("200 OK", okMessage)) })
			cfg := claude(up.url + c.base)
			cfg.Models[0].Deployments[0].Model = c.model
			r := newRig(t, cfg, nil)
			a := r.post(c.path, c.body)
			if a.StatusCode != 200 || a.body != okMessage {
				t.Fatalf("%d %s", a.StatusCode, a.body)
			}
			if got := up.requests()[0]; got.uri != c.uri || got.body != c.want {
				t.Errorf("%s\ngot  %s\nwant %s", got.uri, got.body, c.want)
			}
		})
	}
}

func TestAnthropicHeaders(t *testing.T) {
	up := newRaw(t, func(c net.Conn) {
		say(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nRequest-Id: req_1\r\nAnthropic-Organization-Id: org\r\nAnthropic-Ratelimit-Requests-Remaining: 3\r\nSet-Cookie: MARK\r\nContent-Length: "+itoa(len(okMessage))+"\r\n\r\n"+okMessage)
	})
	r := newRig(t, claude(up.url), nil)
	a := r.do(http.MethodPost, "/v1/messages", messageBody, "X-Api-Key", userKey, "Anthropic-Beta", "b1,b2", "Anthropic-Beta", "unknown-2099", "Anthropic-X", "new",
		"Anthropic-Version", "2099-01-01", "Cookie", "MARK", "X-Goog-Api-Key", "MARK", "X-Forwarded-For", "MARK", "Proxy-Authorization", "MARK",
		"Connection", "x-evil", "X-Evil", "MARK", "X-Stainless-Lang", "js", "User-Agent", "claude-cli/2")
	if a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	for name, want := range map[string]string{"Request-Id": "req_1", "Anthropic-Organization-Id": "org", "Anthropic-Ratelimit-Requests-Remaining": "3", "Set-Cookie": "", "X-Litellm-Model-Id": "a1"} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	want := http.Header{
		"X-Api-Key": {providerKey}, "Anthropic-Version": {"2099-01-01"}, "Anthropic-Beta": {"b1,b2", "unknown-2099"}, "Anthropic-X": {"new"},
		"Content-Type": {"application/json"}, "Accept": {"application/json"}, "Accept-Encoding": {"identity"}, "User-Agent": {"claude-cli/2"},
		"X-Stainless-Lang": {"js"}, "Content-Length": {itoa(len(messageBody))},
	}
	got := up.requests()[0].header
	for name, v := range got {
		if strings.Join(want[name], "|") != strings.Join(v, "|") {
			t.Errorf("%s: %q went up", name, v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("headers %v", got)
	}
	r.post("/v1/messages", messageBody)
	if got := up.requests()[1].header.Get("Anthropic-Version"); got != "2023-06-01" {
		t.Errorf("a client without a version sent %q", got)
	}
}

// TestCachedTokensCountTheSame: whoever serves and whoever asks, whole or in a
// stream, the same consumption counts the same.
func TestCachedTokensCountTheSame(t *testing.T) {
	chat := `{"id":"c","object":"chat.completion","model":"s","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10007,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":9000}}}`
	chatEvents := deltaBare + finish + `data: {"choices":[],"usage":{"prompt_tokens":10007,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":9000}}}` + "\n\n" + done
	events := messageEvents(`"input_tokens":7,"cache_creation_input_tokens":1000,"cache_read_input_tokens":9000,"output_tokens":1`, `"output_tokens":20`)
	want := limiter.Usage{Input: 10007, Output: 20, Cached: 9000}
	for _, c := range []struct {
		name, path, body, sent string
		cfg                    func(string) fsm.Config
	}{
		{"Anthropic, native", "/v1/messages", messageBody, jsonAnswer("200 OK", okMessage), claude},
		{"Anthropic, native stream", "/v1/messages", messageStream, sseHead + events, claude},
		{"Anthropic, translated", "/v1/chat/completions", chatBody, jsonAnswer("200 OK", okMessage), claude},
		{"Anthropic, translated stream", "/v1/chat/completions", askedChat, sseHead + events, claude},
		{"OpenAI, native", "/v1/chat/completions", chatBody, jsonAnswer("200 OK", chat), one},
		{"OpenAI, native stream", "/v1/chat/completions", streamBody, sseHead + chatEvents, one},
		{"OpenAI, translated", "/v1/messages", messageBody, jsonAnswer("200 OK", chat), one},
		{"OpenAI, translated stream", "/v1/messages", messageStream, sseHead + chatEvents, one},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, func(conn net.Conn) { say(conn, c.sent) })
			r := newRig(t, c.cfg(up.url), nil)
			if a := r.post(c.path, c.body); a.StatusCode != 200 || a.err != nil {
				t.Fatalf("%d %s %v", a.StatusCode, a.body, a.err)
			}
			if u := r.gate.spent(t, 0); u != want {
				t.Errorf("settled %+v, want %+v", u, want)
			}
		})
	}
}

func TestAnthropicUpstreamErrorsPassUnchanged(t *testing.T) {
	body := func(kind string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"prompt is too long: 9 > 8","x":1},"request_id":"req_9"}`
	}
	for _, c := range []struct {
		line, kind string
		status     int
	}{
		{"400 Bad Request", "invalid_request_error", 400}, {"403 Forbidden", "permission_error", 403}, {"404 Not Found", "not_found_error", 404},
		{"413 Too Large", "request_too_large", 413}, {"429 Too Many", "rate_limit_error", 429}, {"500 Internal", "api_error", 500},
		{"503 Unavailable", "overloaded_error", 503}, {"529 Overloaded", "overloaded_error", 529},
	} {
		for _, request := range []string{messageBody, messageStream} {
			up := newRaw(t, func(conn net.Conn) {
				say(conn, strings.Replace(jsonAnswer(c.line, body(c.kind)), "\r\n\r\n", "\r\nRequest-Id: req_9\r\nRetry-After: 3\r\nX-Should-Retry: false\r\n\r\n", 1))
			})
			r := newRig(t, claude(up.url), nil)
			a := r.post("/v1/messages", request)
			if a.StatusCode != c.status || a.body != body(c.kind) || a.Header.Get("Request-Id") != "req_9" || a.Header.Get("Retry-After") != "3" || a.Header.Get("X-Should-Retry") != "false" {
				t.Errorf("%d: %d %s %v", c.status, a.StatusCode, a.body, a.Header)
			}
			if limited := a.Header.Get("X-Sluice-Limited-By"); (limited == "upstream") != (c.status == 429) {
				t.Errorf("%d: limited by %q", c.status, limited)
			}
			if u := r.gate.spent(t, 0); u != (limiter.Usage{}) {
				t.Errorf("%d: settled %+v", c.status, u)
			}
		}
	}
	up := newRaw(t, func(conn net.Conn) { say(conn, jsonAnswer("401 Unauthorized", body("authentication_error"))) })
	r := newRig(t, claude(up.url), nil)
	wantAnthropic(t, r.post("/v1/messages", messageBody), 502, "api_error", "refused the credential")
}

// askedChat is a streaming chat request that can be translated.
const askedChat = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`
