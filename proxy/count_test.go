package proxy

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"sluice/fsm"
	"sluice/limiter"
)

// TestCountingTokens: it asks whoever can count, else estimates, and no limit
// counts it.
func TestCountingTokens(t *testing.T) {
	notFound := `{"type":"error","error":{"type":"not_found_error","message":"Not Found"}}`
	for _, c := range []struct {
		name, sent string
		cfg        func(string) fsm.Config
		body       string
		status     int
		want       string
		calls      int
	}{
		{"Anthropic", jsonAnswer("200 OK", `{"input_tokens":14}`), claude, messageBody, 200, `{"input_tokens":14}`, 1},
		{"no such endpoint", jsonAnswer("404 Not Found", notFound), claude, messageBody, 200, `{"input_tokens":5}`, 1},
		{"refused", jsonAnswer("400 Bad", `{"x":1}`), claude, messageBody, 400, `{"x":1}`, 1},
		{"OpenAI", "", one, messageBody, 200, `{"input_tokens":5}`, 0},
		{"OpenAI, no messages", "", one, `{"model":"m"}`, 400, `"message":"messages must be an array."`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, func(conn net.Conn) { say(conn, c.sent) })
			r := newRig(t, c.cfg(up.url), nil)
			r.gate.admit = func(limiter.Ticket) error { return limiter.ErrNoQuorum }
			a := r.post("/v1/messages/count_tokens?beta=true", c.body)
			if a.StatusCode != c.status || !strings.Contains(a.body, c.want) || len(up.requests()) != c.calls {
				t.Errorf("%d %s, %d calls", a.StatusCode, a.body, len(up.requests()))
			}
			if len(r.gate.tickets) != 0 {
				t.Errorf("counted: %v", r.gate.tickets)
			}
			if a := r.do(http.MethodPost, "/v1/messages/count_tokens", c.body); a.StatusCode != 401 {
				t.Errorf("without a key: %d", a.StatusCode)
			}
		})
	}
}

// TestWhoIsBlockedCountsNoTokens: a limit of nothing is a lock, whatever it
// counts. Other limits let these requests pass uncounted.
func TestWhoIsBlockedCountsNoTokens(t *testing.T) {
	zero := limiter.Of(0)
	for _, c := range []struct {
		name string
		key  fsm.Key
		team *fsm.Team
		cfg  func(*fsm.Config)
		by   string // "" = it passes
	}{
		{"no limit", fsm.Key{}, nil, nil, ""},
		{"a limit of one", fsm.Key{RPM: limiter.Of(1), TPM: limiter.Of(1), MaxParallel: limiter.Of(1)}, nil, nil, ""},
		{"the key's requests", fsm.Key{RPM: zero}, nil, nil, "key"},
		{"the key's tokens", fsm.Key{TPM: zero}, nil, nil, "key"},
		{"the key's slots", fsm.Key{MaxParallel: zero}, nil, nil, "key"},
		{"the key's requests on the model", fsm.Key{ModelRPM: map[string]limiter.Limit{"m": zero}}, nil, nil, "key"},
		{"on another model", fsm.Key{ModelRPM: map[string]limiter.Limit{"n": zero}}, nil, nil, ""},
		{"the team's requests", fsm.Key{TeamID: "t"}, &fsm.Team{ID: "t", RPM: zero}, nil, "team"},
		{"the model's requests", fsm.Key{}, nil, func(c *fsm.Config) { c.Models[0].RPM = zero }, "model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, func(conn net.Conn) { say(conn, jsonAnswer("200 OK", `{"input_tokens":14}`)) })
			cfg := claude(up.url)
			if c.cfg != nil {
				c.cfg(&cfg)
			}
			r := newRig(t, cfg, nil)
			if c.team != nil {
				r.addTeam(*c.team)
			}
			const secret = "sk-counting-0123456789"
			r.addKey(secret, c.key)
			a := r.do(http.MethodPost, "/v1/messages/count_tokens", messageBody, "X-Api-Key", secret)
			if c.by == "" {
				if a.StatusCode != 200 || len(up.requests()) != 1 {
					t.Errorf("%d %s", a.StatusCode, a.body)
				}
				return
			}
			if a.StatusCode != 429 || !strings.Contains(a.body, `"type":"rate_limit_error"`) || a.Header.Get("X-Sluice-Limited-By") != c.by || a.Header.Get("Retry-After") == "" || len(up.requests()) != 0 {
				t.Errorf("%d by %q, %s, %d calls", a.StatusCode, a.Header.Get("X-Sluice-Limited-By"), a.body, len(up.requests()))
			}
		})
	}
}

// TestCountingTooMuchHurtsNobody: providers limit it apart from requests, and
// many an imitation fails at it. Neither takes the deployment away from others.
func TestCountingTooMuchHurtsNobody(t *testing.T) {
	for _, line := range []string{"429 Too Many Requests", "500 Internal Server Error", "529 Overloaded"} {
		t.Run(line, func(t *testing.T) {
			up := newAnswers(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "count_tokens") {
					code, _, _ := strings.Cut(line, " ")
					n, _ := count([]byte(code))
					status(int(n), `{}`, "Retry-After", "300")(w, r)
					return
				}
				status(200, okMessage)(w, r)
			})
			cfg := claude(up.url)
			cfg.Upstream.MaxAttempts = 1
			second := cfg.Models[0].Deployments[0] // one alone would be asked all the same
			second.ID = "a2"
			cfg.Models[0].Deployments = append(cfg.Models[0].Deployments, second)
			r := newRig(t, cfg, nil)
			for range 2 * fewCalls {
				if a := r.post("/v1/messages/count_tokens", messageBody); !strings.HasPrefix(line, itoa(a.StatusCode)) {
					t.Fatalf("%d %s", a.StatusCode, a.body)
				}
			}
			if a := r.post("/v1/messages", messageBody); a.StatusCode != 200 {
				t.Errorf("a message after it: %d %s", a.StatusCode, a.body)
			}
		})
	}
}
