package proxy

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"

	"sluice/fsm"
	"sluice/limiter"
)

// The tables of what is translated are package translate's to test; here it is
// that requests, answers, headers, errors and streams go through it, and that
// the books are right.

func TestForeignRequestsAndAnswers(t *testing.T) {
	chatAnswer := `{"id":"c","object":"chat.completion","model":"s","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`
	for _, c := range []struct {
		name, path, body, sent string
		cfg                    func(string) fsm.Config
		uri, want, answer      string
		usage                  limiter.Usage
	}{
		{"a chat client and Anthropic", "/v1/chat/completions?x=1", chatBody, okMessage, claude, "/v1/messages",
			`{"model":"served","max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`,
			`"object":"chat.completion"`, limiter.Usage{Input: 10007, Output: 20, Cached: 9000}},
		{"Azure's path and Anthropic", "/openai/deployments/m/chat/completions?api-version=1", chatBody, okMessage, claude, "/v1/messages",
			`{"model":"served","max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`,
			`"object":"chat.completion"`, limiter.Usage{Input: 10007, Output: 20, Cached: 9000}},
		{"a Messages client and OpenAI", "/v1/messages?beta=true", messageBody, chatAnswer, one, "/v1/chat/completions",
			`{"model":"served","messages":[{"role":"user","content":"hi"}],"max_tokens":64}`,
			`"type":"message"`, limiter.Usage{Input: 7, Output: 3}},
		{"with what is for the gateway", "/v1/messages", `{"fallbacks":["m"], "num_retries":1, ` + messageBody[1:len(messageBody)-1] + `,"timeout":5}`, chatAnswer, one, "/v1/chat/completions",
			`{"model":"served","messages":[{"role":"user","content":"hi"}],"max_tokens":64}`,
			`"type":"message"`, limiter.Usage{Input: 7, Output: 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, func(conn net.Conn) {
				say(conn, strings.Replace(jsonAnswer("200 OK", c.sent), "\r\n\r\n", "\r\nEtag: x\r\nRequest-Id: r1\r\n\r\n", 1))
			})
			cfg := c.cfg(up.url)
			cfg.Models[0].Deployments[0].Model = "served"
			r := newRig(t, cfg, nil)
			a := r.post(c.path, c.body, "Anthropic-Version", "2023-06-01", "Anthropic-Beta", "b", "Openai-Beta", "b", "X-Client-Request-Id", "q")
			if a.StatusCode != 200 || !strings.Contains(a.body, c.answer) || !json.Valid([]byte(a.body)) || !strings.Contains(a.body, `"model":"m"`) {
				t.Fatalf("%d %s", a.StatusCode, a.body)
			}
			if a.Header.Get("Content-Length") != itoa(len(a.body)) || a.Header.Get("Content-Type") != "application/json" || a.Header.Get("Etag") != "" || a.Header.Get("Request-Id") != "r1" {
				t.Errorf("headers %v", a.Header)
			}
			got := up.requests()[0]
			if got.uri != c.uri || got.body != c.want {
				t.Errorf("%s\ngot  %s\nwant %s", got.uri, got.body, c.want)
			}
			foreign, credential := "Openai-Beta", "X-Api-Key"
			if c.uri == "/v1/chat/completions" {
				foreign, credential = "Anthropic-Beta", "Authorization"
			}
			if len(got.header[foreign]) != 0 || !strings.HasSuffix(got.header.Get(credential), providerKey) || got.header.Get("X-Client-Request-Id") != "q" {
				t.Errorf("went up: %v", got.header)
			}
			if u := r.gate.spent(t, 0); u != c.usage {
				t.Errorf("settled %+v, want %+v", u, c.usage)
			}
		})
	}
}

func TestWhatCannotBeTranslatedIsNamed(t *testing.T) {
	chat := newRig(t, claude("http://127.0.0.1:1"), nil)
	a := chat.post("/v1/chat/completions", `{"model":"m","n":2,"messages":[{"role":"user","content":"hi"}]}`)
	wantError(t, a, 400, typeInvalid, "one choice")
	if !strings.Contains(a.body, `"param":"n"`) {
		t.Errorf("%s", a.body)
	}
	wantError(t, chat.post("/v1/embeddings", `{"model":"m","input":"x"}`), 400, typeInvalid, "does not serve /embeddings")
	messages := newRig(t, one("http://127.0.0.1:1"), nil)
	wantAnthropic(t, messages.post("/v1/messages", messageBody[:len(messageBody)-1]+`,"mcp_servers":[]}`), 400, "invalid_request_error", "mcp_servers")
	if len(chat.gate.tickets)+len(messages.gate.tickets) != 0 {
		t.Error("a request that could not be sent was counted")
	}
}

// TestAMixedModel: of a model's deployments only those that can serve an
// endpoint are asked.
func TestAMixedModel(t *testing.T) {
	up := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("200 OK", okBody)) })
	cfg := one(up.url)
	heavy := int64(1000)
	cfg.Models[0].Deployments = append(cfg.Models[0].Deployments, fsm.Deployment{
		ID: "a1", Provider: fsm.ProviderAnthropic, APIBase: "http://127.0.0.1:1", APIKey: "os.environ/KEY", Weight: &heavy,
	})
	r := newRig(t, cfg, nil)
	for range 5 {
		if a := r.post("/v1/embeddings", `{"model":"m","input":"x"}`); a.StatusCode != 200 || a.Header.Get("X-Litellm-Model-Id") != "d1" {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
}

func TestForeignErrors(t *testing.T) {
	anthropic := func(kind, message string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"` + message + `"}}`
	}
	openai := func(message string) string {
		return `{"error":{"message":"` + message + `","type":"x","param":null,"code":null}}`
	}
	for _, c := range []struct {
		name, path, body string
		cfg              func(string) fsm.Config
		line, sent       string
		status           int
		text             string
	}{
		{"400 for a chat client", "/v1/chat/completions", chatBody, claude, "400 Bad", anthropic("invalid_request_error", "prompt is too long: 9"), 400, `"code":"context_length_exceeded"`},
		{"429 for a chat client", "/v1/chat/completions", askedChat, claude, "429 Slow", anthropic("rate_limit_error", "slow"), 429, `"type":"rate_limit_error"`},
		{"529 for a chat client", "/v1/chat/completions", askedChat, claude, "529 Over", anthropic("overloaded_error", "Overloaded"), 503, `"message":"Overloaded"`},
		{"401 for a chat client", "/v1/chat/completions", chatBody, claude, "401 No", anthropic("authentication_error", "bad key"), 502, `refused the credential`},
		{"HTML for a chat client", "/v1/chat/completions", chatBody, claude, "502 Bad", "<html>", 502, `status 502`},
		{"an echoed secret", "/v1/chat/completions", chatBody, claude, "404 No", anthropic("not_found_error", "no "+providerKey), 404, `no [redacted]`},
		{"400 for a Messages client", "/v1/messages", messageBody, one, "400 Bad", openai("maximum context length is 8"), 400, `"message":"prompt is too long: maximum`},
		{"429 for a Messages client", "/v1/messages", messageStream, one, "429 Slow", openai("slow"), 429, `"type":"rate_limit_error"`},
		{"500 for a Messages client", "/v1/messages", messageBody, one, "500 Oh", openai("oh"), 500, `{"type":"api_error","message":"oh"}`},
		{"401 for a Messages client", "/v1/messages", messageBody, one, "401 No", openai("bad key"), 502, `refused the credential`},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, func(conn net.Conn) {
				say(conn, strings.Replace(jsonAnswer(c.line, c.sent), "\r\n\r\n", "\r\nRequest-Id: r1\r\nRetry-After: 3\r\n\r\n", 1))
			})
			r := newRig(t, c.cfg(up.url), nil)
			a := r.post(c.path, c.body)
			if a.StatusCode != c.status || !strings.Contains(a.body, c.text) || a.Header.Get("Content-Length") != itoa(len(a.body)) || a.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%d %s %v", a.StatusCode, a.body, a.Header)
			}
			if strings.Contains(a.body, `"type":"error"`) != strings.HasSuffix(c.path, "messages") {
				t.Errorf("the envelope is not the client's: %s", a.body)
			}
			if c.status < 502 && (a.Header.Get("Retry-After") != "3" || a.Header.Get("Request-Id") != "r1") {
				t.Errorf("headers %v", a.Header)
			}
			if u := r.gate.spent(t, 0); u != (limiter.Usage{}) {
				t.Errorf("settled %+v", u)
			}
		})
	}
}

func TestForeignAnswersThatAreNone(t *testing.T) {
	packed := "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nxx"
	for _, c := range []struct{ name, sent string }{
		{"no JSON", jsonAnswer("200 OK", "hello")},
		{"another shape", jsonAnswer("200 OK", `{"detail":"x"}`)},
		{"cut", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"},
		{"packed", packed},
		{"a stream", sseHead + done},
		{"too large", jsonAnswer("200 OK", `{"x":"`+strings.Repeat("x", 5000)+`"}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, func(conn net.Conn) { say(conn, c.sent) })
			small := func(o *Options) { o.MaxEvent = 4 << 10 }
			chat, messages := newRig(t, claude(up.url), small), newRig(t, one(up.url), small)
			wantError(t, chat.post("/v1/chat/completions", chatBody, "Accept-Encoding", "br"), 502, typeUnavailable, "upstream")
			wantAnthropic(t, messages.post("/v1/messages", messageBody, "Accept-Encoding", "br"), 502, "api_error", "upstream")
			if u := chat.gate.spent(t, 0); u != (limiter.Usage{}) {
				t.Errorf("settled %+v", u)
			}
		})
	}
}

// TestForeignAnswersThatArePacked: an upstream that packs unasked is unpacked.
func TestForeignAnswersThatArePacked(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, okMessage) // into memory
	_ = z.Close()
	up := newRaw(t, func(c net.Conn) {
		say(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: "+itoa(packed.Len())+"\r\n\r\n"+packed.String())
	})
	r := newRig(t, claude(up.url), nil)
	a := r.post("/v1/chat/completions", chatBody, "Accept-Encoding", "gzip")
	if !strings.Contains(a.body, `"content":"hi"`) || a.Header.Get("Content-Encoding") != "" || a.Header.Get("Content-Length") != itoa(len(a.body)) {
		t.Errorf("%s %v", a.body, a.Header)
	}
}
