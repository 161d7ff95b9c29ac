package proxy

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

// wantAnthropic checks status and envelope, and that the message holds text.
func wantAnthropic(t *testing.T, a answer, status int, typ, text string) {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("status %d, want %d; body %s", a.StatusCode, status, a.body)
	}
	var e struct {
		Type      string
		RequestID string `json:"request_id"`
		Error     struct{ Type, Message string }
	}
	d := json.NewDecoder(strings.NewReader(a.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil || e.Type != "error" {
		t.Fatalf("not an envelope: %v: %q", err, a.body)
	}
	if e.Error.Type != typ {
		t.Errorf("type %q, want %q", e.Error.Type, typ)
	}
	if !strings.Contains(e.Error.Message, text) {
		t.Errorf("message %q does not hold %q", e.Error.Message, text)
	}
	id := a.Header.Get("X-Litellm-Call-Id")
	if id == "" || e.RequestID != id && e.RequestID != "" || e.RequestID == id && a.Header.Get("Request-Id") != id {
		t.Errorf("ids: %q in the body, Request-Id %q, call %q", e.RequestID, a.Header.Get("Request-Id"), id)
	}
	if ct := a.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("content type %q", ct)
	}
}

func TestGatewayErrorsInAnthropicsEnvelope(t *testing.T) {
	refuse := func(err error) func(*fakeGate) {
		return func(g *fakeGate) { g.admit = func(limiter.Ticket) error { return err } }
	}
	limit := &limiter.Refusal{Scope: limiter.ScopeKey, Dimension: limiter.Requests, RetryAfter: 17 * time.Second}
	for _, c := range []struct {
		name, body string
		headers    []string
		gate       func(*fakeGate)
		status     int
		typ, text  string
		header     map[string]string
	}{
		{"no key", messageBody, nil, nil, 401, "authentication_error", "No api key", nil},
		{"bad key", messageBody, []string{"X-Api-Key", "sk-nobody-0123456789"}, nil, 401, "authentication_error", "Invalid proxy server token", nil},
		{"blocked", messageBody, []string{"X-Api-Key", blockedKey}, nil, 401, "authentication_error", "Key is blocked", nil},
		{"model not allowed", messageBody, []string{"X-Api-Key", narrowKey}, nil, 403, "permission_error", "not available", nil},
		{"limit", messageBody, user, refuse(limit), 429, "rate_limit_error", "", map[string]string{"Retry-After": "17", "Rate_limit_type": "requests", "X-Sluice-Limited-By": "key"}},
		{"oversize", messageBody, user, refuse(&limiter.Refusal{Oversize: true}), 400, "invalid_request_error", "", nil},
		{"no quorum", messageBody, user, refuse(limiter.ErrNoQuorum), 503, "overloaded_error", "No quorum", map[string]string{"Retry-After": "1", "X-Sluice-Limited-By": "quorum"}},
		{"bad JSON", `{"model":`, user, nil, 400, "invalid_request_error", "not valid JSON", nil},
		{"empty", ``, user, nil, 400, "invalid_request_error", "empty", nil},
		{"stream is a word", `{"model":"m","stream":"yes"}`, user, nil, 400, "invalid_request_error", `"stream"`, nil},
		{"max_tokens twice", `{"model":"m","max_tokens":1,"max_tokens":9}`, user, nil, 400, "invalid_request_error", `"max_tokens"`, nil},
		{"another case", `{"model":"m","Model":"x"}`, user, nil, 400, "invalid_request_error", `"model"`, nil},
		{"unknown model", `{"model":"nope"}`, user, nil, 404, "not_found_error", "Invalid model name passed in model=nope", nil},
		{"too large", `{"model":"m","x":"` + strings.Repeat("x", 2000) + `"}`, user, nil, 413, "request_too_large", "gateway.max_body", nil},
		{"encoding", messageBody, append([]string{"Content-Encoding", "zstd"}, user...), nil, 415, "invalid_request_error", "content encoding", map[string]string{"Accept-Encoding": "gzip, identity"}},
		{"nothing takes traffic", `{"model":"idle"}`, user, nil, 503, "overloaded_error", "takes traffic", nil},
	} {
		for _, path := range []string{"/v1/messages", "/messages"} {
			t.Run(c.name+path, func(t *testing.T) {
				cfg := claude("http://127.0.0.1:1")
				zero := int64(0)
				cfg.Models = append(cfg.Models, fsm.Model{Name: "idle", Deployments: []fsm.Deployment{{ID: "z", Provider: fsm.ProviderMock, Weight: &zero}}})
				r := newRig(t, cfg, func(o *Options) { o.MaxBody = 1000 })
				r.addKey(blockedKey, fsm.Key{Blocked: true})
				r.addKey(narrowKey, fsm.Key{Models: []string{"idle"}})
				if c.gate != nil {
					c.gate(r.gate)
				}
				a := r.do(http.MethodPost, path, c.body, c.headers...)
				wantAnthropic(t, a, c.status, c.typ, c.text)
				for name, want := range c.header {
					if got := a.Header.Get(name); got != want && strings.Join(a.Header[strings.ToLower(name)], "") != want {
						t.Errorf("%s: %q, want %q", name, got, want)
					}
				}
			})
		}
	}
}

const (
	blockedKey = "sk-blocked-0123456789abcdef"
	narrowKey  = "sk-narrow-0123456789abcdef"
)

var user = []string{"X-Api-Key", userKey}

func TestUpstreamFailuresInAnthropicsEnvelope(t *testing.T) {
	for _, c := range []struct {
		name      string
		script    func(net.Conn)
		status    int
		typ, text string
	}{
		{"reset", reset, 502, "api_error", "broke off"},
		{"headers, then reset", func(c net.Conn) { say(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"); reset(c) }, 502, "api_error", "broke off"},
		{"silence", closed, 504, "timeout_error", "in time"},
		{"empty", func(c net.Conn) { say(c, jsonAnswer("200 OK", "")) }, 502, "api_error", "empty"},
		{"redirect", func(c net.Conn) { say(c, jsonAnswer("302 Found", "x")) }, 502, "api_error", "302"},
	} {
		for _, provider := range []func(string) fsm.Config{claude, one} {
			for _, body := range []string{messageBody, messageStream} {
				up := newRaw(t, c.script)
				cfg := provider(up.url)
				cfg.Upstream.FirstByteTimeout = 100 * time.Millisecond
				r := newRig(t, cfg, nil)
				t.Run(c.name+" "+cfg.Models[0].Deployments[0].Provider, func(t *testing.T) {
					wantAnthropic(t, r.post("/v1/messages", body), c.status, c.typ, c.text)
				})
				if u := r.gate.spent(t, 0); u != (limiter.Usage{}) {
					t.Errorf("%s: settled %+v", c.name, u)
				}
			}
		}
	}
}

// TestProbesAndStrayPaths: what coding agents try costs nothing and is answered
// in the protocol that they speak.
func TestProbesAndStrayPaths(t *testing.T) {
	r := newRig(t, claude("http://127.0.0.1:1"), nil)
	version := []string{"Anthropic-Version", "2023-06-01"}
	for _, c := range []struct {
		method, path string
		headers      []string
		status       int
		text         string
	}{
		{http.MethodHead, "/", nil, 404, ""},
		{http.MethodHead, "/api/hello", nil, 404, ""},
		{http.MethodGet, "/v1/messages", nil, 405, "takes POST"},
		{http.MethodHead, "/v1/messages", nil, 405, ""},
		{http.MethodPost, "/v1/v1/messages", version, 404, "/v1 is there twice"},
		{http.MethodPost, "/v1/Messages", version, 404, "lower case"},
		{http.MethodPost, "/v1/messages/batches", version, 404, "Not Found"},
		{http.MethodPost, "/v1/messages/../x", version, 400, "segment of dots"},
	} {
		a := r.do(c.method, c.path, "", c.headers...)
		if a.StatusCode != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.StatusCode, a.body)
		} else if c.method != http.MethodHead {
			kind := map[int]string{404: "not_found_error", 405: "invalid_request_error", 400: "invalid_request_error"}[c.status]
			wantAnthropic(t, a, c.status, kind, c.text)
		}
		if allow := a.Header.Get("Allow"); (allow == "POST") != (c.status == 405) {
			t.Errorf("%s: Allow %q", c.path, allow)
		}
	}
	wantError(t, r.do(http.MethodGet, "/v1/nothing", ""), 404, typeInvalid, "Not Found")
	wantError(t, r.do(http.MethodPost, "/v1/chat/completions", chatBody, version...), 401, typeAuth, "No api key")
	if len(r.gate.tickets) != 0 {
		t.Errorf("probes used quota: %v", r.gate.tickets)
	}
}

func TestModelsInAnthropicsShape(t *testing.T) {
	cfg := mocked()
	cfg.Aliases = map[string]string{"fast": "m"}
	r := newRig(t, cfg, nil)
	version := []string{"Anthropic-Version", "2023-06-01"}
	entry := func(id string) string {
		return `{"type":"model","id":"` + id + `","display_name":"` + id + `","created_at":"2023-02-28T18:56:42Z"}`
	}
	for _, c := range []struct{ path, want string }{
		{"/v1/models?limit=1000", `{"data":[` + entry("m") + `,` + entry("fast") + `],"has_more":false,"first_id":"m","last_id":"fast"}`},
		{"/models/fast", entry("fast")},
	} {
		if a := r.do(http.MethodGet, c.path, "", append(version, user...)...); a.StatusCode != 200 || a.body != c.want {
			t.Errorf("%s: %d %s", c.path, a.StatusCode, a.body)
		}
	}
	wantAnthropic(t, r.do(http.MethodGet, "/v1/models/x", "", append(version, user...)...), 404, "not_found_error", "Invalid model name")
	r.addKey(narrowKey, fsm.Key{Models: []string{"other"}})
	if a := r.do(http.MethodGet, "/v1/models", "", append(version, "X-Api-Key", narrowKey)...); a.body != `{"data":[],"has_more":false,"first_id":null,"last_id":null}` {
		t.Errorf("nothing to see: %s", a.body)
	}
}
