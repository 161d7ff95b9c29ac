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
