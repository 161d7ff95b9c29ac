package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

const chatBody = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

func TestMockAnswersEveryEndpoint(t *testing.T) {
	r := newRig(t, mocked(), nil)
	for i, c := range []struct {
		path, body, want string
		usage            limiter.Usage
	}{
		{"/v1/chat/completions", chatBody, `"content":"hello big world"`, limiter.Usage{Input: 10, Output: 20}},
		{"/chat/completions", chatBody, `"total_tokens":30`, limiter.Usage{Input: 10, Output: 20}},
		{"/v1/completions", `{"model":"m","prompt":"x"}`, `"text":"hello big world"`, limiter.Usage{Input: 10, Output: 20}},
		{"/embeddings", `{"model":"m","input":"x"}`, `"embedding":[`, limiter.Usage{Input: 10}},
		{"/openai/deployments/m/chat/completions?api-version=x", `{"model":"other"}`, `"hello big world"`, limiter.Usage{Input: 10, Output: 20}},
		{"/openai/deployments/m/embeddings", `{"input":"x"}`, `"embedding"`, limiter.Usage{Input: 10}},
		{"//v1//chat/completions/", chatBody, `"hello big world"`, limiter.Usage{Input: 10, Output: 20}},
		{"/v1/chat/completions", `{"model":"m","stream":true}`, "data: [DONE]\n\n", limiter.Usage{Input: 10, Output: 20}},
		{"/v1/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, `"total_tokens":30`, limiter.Usage{Input: 10, Output: 20}},
	} {
		t.Run(c.path+" "+itoa(i), func(t *testing.T) {
			a := r.post(c.path, c.body)
			if a.StatusCode != 200 || !strings.Contains(a.body, c.want) {
				t.Fatalf("%d %s", a.StatusCode, a.body)
			}
			if u := r.gate.spent(t, i); u != c.usage {
				t.Errorf("settled %+v, want %+v", u, c.usage)
			}
			if strings.Contains(c.body, "stream") && !strings.Contains(c.body, "include_usage") && strings.Contains(a.body, "usage") {
				t.Errorf("usage shown unasked: %s", a.body)
			}
		})
	}
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	r := newRig(t, mocked(), nil)
	r.gate.standing[limiter.ScopeKey] = limiter.Standing{Limits: limiter.Limits{Requests: limiter.Of(5), Tokens: limiter.Of(100)}, Used: limiter.Used{Requests: 1, Tokens: 130}}
	r.addTeam(fsm.Team{ID: "t", Metadata: map[string]any{"priority": "prod"}})
	r.addKey("sk-team-key-0123456789", fsm.Key{TeamID: "t", Metadata: map[string]any{"priority": "dev"}})

	a := r.do("POST", "/v1/chat/completions", chatBody, "Authorization", "bearer sk-team-key-0123456789", "x-litellm-call-id", "my-call.1")
	for name, want := range map[string]string{
		"x-sluice-node": "n1", "x-sluice-limits": "exact", "x-litellm-call-id": "my-call.1",
		"x-litellm-model-id": "mock-1", "x-litellm-model-group": "m", "x-litellm-priority": "prod",
		"x-ratelimit-api_key-limit-requests": "5", "x-ratelimit-api_key-remaining-requests": "4",
		"x-ratelimit-api_key-limit-tokens": "100", "x-ratelimit-api_key-remaining-tokens": "0",
		"x-ratelimit-team-limit-requests": "",
	} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if !regexp.MustCompile(`^\d+\.\d{3}$`).MatchString(a.Header.Get("x-litellm-overhead-duration-ms")) {
		t.Errorf("overhead %q", a.Header.Get("x-litellm-overhead-duration-ms"))
	}
	if got := r.gate.tickets[0]; got != (limiter.Ticket{Model: "m", Key: keyHash("sk-team-key-0123456789"), Team: "t", Priority: "prod"}) {
		t.Errorf("ticket %+v", got)
	}
	a = r.do("POST", "/v1/chat/completions", chatBody, "Authorization", "Bearer "+masterKey, "x-litellm-call-id", "two words")
	if id := a.Header.Get("x-litellm-call-id"); !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) {
		t.Errorf("call id %q is no UUID", id)
	}
	if got := r.gate.tickets[1]; got != (limiter.Ticket{Model: "m"}) {
		t.Errorf("ticket of the master key %+v", got)
	}
	if a := r.do("GET", "/nowhere", ""); a.Header.Get("x-sluice-node") != "n1" || a.Header.Get("x-litellm-call-id") == "" {
		t.Errorf("headers of a 404: %v", a.Header)
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	r := newRig(t, mocked(), nil)
	for _, c := range []struct {
		method, path, text, allow string
		status                    int
	}{
		{"POST", "/v1/v1/chat/completions", "twice", "", 404},
		{"POST", "/V1/chat/completions", "lower case", "", 404},
		{"GET", "/", "The data plane answers", "", 404},
		{"HEAD", "/api/hello", "", "", 404},
		{"GET", "/v1/chat/completions", "takes POST", "POST", 405},
		{"POST", "/v1/models", "GET", "GET, HEAD", 405},
		{"OPTIONS", "/v1/chat/completions", "POST", "POST", 405},
		{"GET", "/v1/models/%2e%2e/x", "encoded", "", 400},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			a := r.do(c.method, c.path, "", "Authorization", "Bearer "+userKey)
			if a.Header.Get("Allow") != c.allow {
				t.Errorf("Allow %q", a.Header.Get("Allow"))
			}
			if c.method == "HEAD" {
				if a.StatusCode != c.status {
					t.Errorf("status %d", a.StatusCode)
				}
				return
			}
			wantError(t, a, c.status, typeInvalid, c.text)
		})
	}
}

func TestRefusedRequestsReachNoGate(t *testing.T) {
	cfg := mocked()
	zero := int64(0)
	cfg.Models = append(cfg.Models, fsm.Model{Name: "idle", Deployments: []fsm.Deployment{{ID: "z", Provider: fsm.ProviderMock, Weight: &zero}}},
		fsm.Model{Name: "keyless", Deployments: []fsm.Deployment{{ID: "k", Provider: fsm.ProviderCompatible, APIBase: "http://127.0.0.1:1", APIKey: "os.environ/EMPTY"}}})
	r := newRig(t, cfg, func(o *Options) { o.MaxBody = 1000 })
	pad := func(n int) string {
		head := `{"model":"m","x":"`
		return head + strings.Repeat("y", n-len(head)-2) + `"}`
	}
	zipped := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(s))
		_ = z.Close()
		return b.String()
	}
	for _, c := range []struct {
		name, body, encoding string
		status               int
		text                 string
	}{
		{"bad JSON", `{"model"`, "", 400, "not valid JSON"},
		{"no model", `{}`, "", 400, "missing or empty"},
		{"empty model", `{"model":""}`, "", 400, "missing or empty"},
		{"unknown model", `{"model":"x"}`, "", 404, "/chat/completions: Invalid model name passed in model=x. Call `/v1/models`"},
		{"variant", `{"model":"m","Model":"m"}`, "", 400, "variant"},
		{"too large", pad(1001), "", 413, "larger than 1000 bytes"},
		{"too large unpacked", zipped(pad(100_000)), "gzip", 413, "larger"},
		{"unknown encoding", "x", "br", 415, "gzip"},
		{"two encodings", "x", "gzip, gzip", 415, "gzip"},
		{"bad gzip", "no gzip at all", "gzip", 400, "not valid gzip"},
		{"cut gzip", zipped(pad(900))[:30], "gzip", 400, "not valid gzip"},
		{"no weight", `{"model":"idle"}`, "", 503, "takes traffic"},
		{"no credential", `{"model":"keyless"}`, "", 503, "credentials are missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := []string{}
			if c.encoding != "" {
				h = []string{"Content-Encoding", c.encoding}
			}
			wantError(t, r.post("/v1/chat/completions", c.body, h...), c.status, "", c.text)
		})
	}
	if n := len(r.gate.tickets); n != 0 {
		t.Errorf("%d tickets were asked for", n)
	}
	for name, h := range map[string][]string{pad(1000): nil, zipped(pad(1000)): {"Content-Encoding", "gzip"}} {
		if a := r.post("/v1/chat/completions", name, h...); a.StatusCode != 200 {
			t.Errorf("a body of exactly the cap: %d %s", a.StatusCode, a.body)
		}
	}
}

func TestLimiterRefusal(t *testing.T) {
	r := newRig(t, mocked(), nil)
	reset := time.Date(2026, 10, 5, 16, 31, 3, 0, time.FixedZone("x", 3600))
	var next error
	r.gate.admit = func(limiter.Ticket) error { return next }

	refusal := &limiter.Refusal{
		Ticket: limiter.Ticket{Model: "m"}, Scope: limiter.ScopePool, Dimension: limiter.Tokens, Saturation: 0.528,
		RetryAfter: 1500 * time.Millisecond, ResetAt: reset, Model: limiter.Limits{Tokens: limiter.Of(1000)},
	}
	refusal.Standings[limiter.ScopeModel].Limits.Tokens = limiter.Of(1000)
	next = fmt.Errorf("wrapped: %w", refusal)
	a := r.post("/v1/chat/completions", chatBody)
	wantError(t, a, 429, "throttling_error", "Priority-based rate limit exceeded. Model: m, Priority: None, Rate limit type: tokens, Model TPM: 1000, Model RPM: not configured, Remaining: 0, Model saturation: 52.8%")
	if !strings.Contains(a.body, `"param":null`) {
		t.Errorf("param: %s", a.body)
	}
	for name, want := range map[string]string{
		"retry-after": "2", "rate_limit_type": "tokens", "reset_at": "2026-10-05 15:31:03 UTC", "x-litellm-saturation": "52.80%",
		"x-litellm-priority": "default", "x-sluice-limited-by": "priority", "x-ratelimit-model-limit-tokens": "1000", "x-litellm-model-group": "m",
	} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	next = limiter.ErrNoQuorum
	a = r.post("/v1/chat/completions", chatBody)
	wantError(t, a, 503, "", "No quorum")
	if a.Header.Get("x-sluice-limited-by") != "quorum" {
		t.Errorf("limited by %q", a.Header.Get("x-sluice-limited-by"))
	}
	next = limiter.ErrClosed
	wantError(t, r.post("/v1/chat/completions", chatBody), 503, "", "could not decide")
}

func TestModels(t *testing.T) {
	cfg := mocked()
	cfg.Models = append(cfg.Models, fsm.Model{Name: "openai/*", Deployments: []fsm.Deployment{{ID: "w", Provider: fsm.ProviderMock}}})
	cfg.Aliases = map[string]string{"fast": "m"}
	r := newRig(t, cfg, nil)
	r.addKey("sk-narrow-0123456789", fsm.Key{Models: []string{"openai/gpt", "nothing"}})
	narrow := []string{"x-api-key", "sk-narrow-0123456789"}
	entry := func(id string) string {
		return `{"id":"` + id + `","object":"model","created":1677610602,"owned_by":"openai"}`
	}
	for _, c := range []struct {
		path   string
		header []string
		status int
		want   string
	}{
		{"/v1/models", nil, 200, `{"data":[` + entry("m") + "," + entry("fast") + `],"object":"list"}`},
		{"/models?return_wildcard_routes=true", nil, 200, `{"data":[` + entry("m") + "," + entry("openai/*") + "," + entry("fast") + `],"object":"list"}`},
		{"/models", narrow, 200, `{"data":[` + entry("openai/gpt") + `],"object":"list"}`},
		{"/v1/models/fast", nil, 200, entry("fast")},
		{"/v1/models/openai/x", nil, 200, entry("openai/x")},
		{"/models/m", narrow, 403, "not available"},
		{"/models/none", nil, 404, "Invalid model name"},
	} {
		t.Run(c.path, func(t *testing.T) {
			h := c.header
			if h == nil {
				h = []string{"x-api-key", userKey}
			}
			a := r.do("GET", c.path, "", h...)
			if a.StatusCode != c.status || !strings.Contains(a.body, c.want) {
				t.Errorf("%d %s", a.StatusCode, a.body)
			}
		})
	}
	if n := len(r.gate.tickets); n != 0 {
		t.Errorf("listing models asked for %d tickets", n)
	}
}

func TestAllowLists(t *testing.T) {
	cfg := mocked()
	mock := []fsm.Deployment{{Provider: fsm.ProviderMock}}
	cfg.Models = append(cfg.Models, fsm.Model{Name: "b", Deployments: mock}, fsm.Model{Name: "openai/*", Deployments: mock})
	cfg.Aliases = map[string]string{"fast": "m"}
	r := newRig(t, cfg, nil)
	r.addTeam(fsm.Team{ID: "team-m", Models: []string{"m"}})
	for i, c := range []struct {
		name   string
		models []string
		team   string
		ask    string
		status int
		typ    string
	}{
		{"empty list allows all", nil, "", "m", 200, ""},
		{"named", []string{"m"}, "", "m", 200, ""},
		{"other", []string{"b"}, "", "m", 403, "key_model_access_denied"},
		{"alias of another", []string{"b"}, "", "fast", 403, "key_model_access_denied"},
		{"alias of an allowed one", []string{"m"}, "", "fast", 200, ""},
		{"alias named", []string{"fast"}, "", "fast", 200, ""},
		{"target of a named alias", []string{"fast"}, "", "m", 403, ""},
		{"pattern", []string{"openai/*"}, "", "openai/gpt", 200, ""},
		{"one name below the wildcard", []string{"openai/gpt"}, "", "openai/gpt", 200, ""},
		{"another name below the wildcard", []string{"openai/gpt"}, "", "openai/o1", 403, ""},
		{"star", []string{"*"}, "", "m", 200, ""},
		{"all-proxy-models", []string{"all-proxy-models"}, "", "b", 200, ""},
		{"all-team-models, allowed by the team", []string{"all-team-models"}, "team-m", "m", 200, ""},
		{"all-team-models, not allowed by the team", []string{"all-team-models"}, "team-m", "b", 403, "team_model_access_denied"},
		{"all-team-models without a team", []string{"all-team-models"}, "", "m", 403, "key_model_access_denied"},
		{"team's list holds for a key without one", nil, "team-m", "b", 403, "team_model_access_denied"},
		{"unknown name, restricted key", []string{"m"}, "", "zzz", 403, ""},
		{"case", []string{"m"}, "", "M", 403, ""},
		{"trailing blank", []string{"m"}, "", "m ", 403, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			secret := fmt.Sprintf("sk-list-0123456789-%03d", i)
			r.addKey(secret, fsm.Key{Models: c.models, TeamID: c.team})
			a := r.do("POST", "/chat/completions", `{"model":"`+c.ask+`"}`, "Authorization", "Bearer "+secret)
			if a.StatusCode != c.status {
				t.Fatalf("%d %s", a.StatusCode, a.body)
			}
			if c.status != 200 {
				wantError(t, a, c.status, c.typ, "is not available for this API key, or the model name is invalid.")
			}
		})
	}
}

func TestPathAndAliasModelsAreChargedToTheirGroup(t *testing.T) {
	cfg := mocked()
	mock := []fsm.Deployment{{Provider: fsm.ProviderMock}}
	cfg.Models = append(cfg.Models, fsm.Model{Name: "shared/*", Deployments: mock}, fsm.Model{Name: "own/*", PerName: true, Deployments: mock})
	cfg.Aliases = map[string]string{"fast": "m"}
	r := newRig(t, cfg, nil)
	for _, c := range []struct{ path, body, group string }{
		{"/chat/completions", `{"model":"fast"}`, "m"},
		{"/openai/deployments/m/chat/completions", `{"model":"b"}`, "m"},
		{"/openai/deployments/shared/x/chat/completions", `{}`, "shared/*"},
		{"/chat/completions", `{"model":"own/x"}`, "own/x"},
	} {
		a := r.post(c.path, c.body)
		if a.StatusCode != 200 || a.Header.Get("x-litellm-model-group") != c.group {
			t.Errorf("%s %s: %d, group %q", c.path, c.body, a.StatusCode, a.Header.Get("x-litellm-model-group"))
		}
	}
}

func TestOptionsNameEverythingMissing(t *testing.T) {
	_, err := New(Options{MaxBody: -1})
	for _, want := range []string{"View", "Gate", "MasterKey", "NodeID", "MaxBody"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func TestPanicSettles(t *testing.T) {
	r := newRig(t, mocked(), func(o *Options) {})
	r.proxy.providers[fsm.ProviderMock] = panicking{}
	r.proxy.table.Store(nil)
	req, err := http.NewRequestWithContext(context.Background(), "POST", r.url+"/v1/chat/completions", strings.NewReader(chatBody))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+userKey)
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
		t.Errorf("status %d, want a broken connection", res.StatusCode)
	}
	if u := r.gate.spent(t, 0); u != (limiter.Usage{}) {
		t.Errorf("settled %+v", u)
	}
}

type panicking struct{ mock }

func (panicking) send(context.Context, *call) (*http.Response, error) { panic("provider fault") }

func TestRealGateHoldsTheLimit(t *testing.T) {
	cfg := mocked()
	cfg.Models[0].RPM = limiter.Of(2)
	r := newRig(t, cfg, nil)
	gate, err := limiter.New(limiter.Options{
		Node: "n1", Applier: r.client.Applier("n1", "nonce"), Now: time.Now,
		Policy:     func() limiter.Policy { return r.state.View().Policy() },
		OnNoQuorum: func() limiter.NoQuorum { return limiter.NoQuorumDeny },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := gate.Close(context.Background()); err != nil {
			t.Errorf("close gate: %v", err)
		}
	}()
	r.proxy.gate = GateAdmitter(gate)
	for i, remaining := range []string{"1", "0"} {
		a := r.post("/v1/chat/completions", chatBody)
		if a.StatusCode != 200 || a.Header.Get("x-ratelimit-model-remaining-requests") != remaining {
			t.Errorf("call %d: %d, remaining %q", i+1, a.StatusCode, a.Header.Get("x-ratelimit-model-remaining-requests"))
		}
	}
	a := r.post("/v1/chat/completions", chatBody)
	wantError(t, a, 429, "throttling_error", "Model capacity reached for m. Priority: None, Rate limit type: requests, Model TPM: not configured, Model RPM: 2, Remaining: 0")
	if a.Header.Get("x-sluice-limited-by") != "model" || a.Header.Get("retry-after") == "" {
		t.Errorf("headers %v", a.Header)
	}
}
