package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

// answers is an upstream that gives one answer after the other, and the last
// one for ever.
type answers struct {
	url string
	mu  sync.Mutex
	got []call1
}

// call1 is one request as it arrived.
type call1 struct {
	at   time.Time
	body string
}

func newAnswers(t *testing.T, steps ...http.HandlerFunc) *answers {
	t.Helper()
	a := &answers{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		n := len(a.got)
		a.got = append(a.got, call1{time.Now(), string(body)})
		a.mu.Unlock()
		steps[min(n, len(steps)-1)](w, r)
	}))
	t.Cleanup(srv.Close)
	a.url = srv.URL
	return a
}

func (a *answers) calls() []call1 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]call1(nil), a.got...)
}

// status answers with a JSON body and headers in pairs.
func status(code int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

var served = status(200, okBody)

// script takes the connection over.
func script(do func(net.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			defer c.Close()
			do(c)
		}
	}
}

// quick are settings with which retries take milliseconds.
func quick(cfg fsm.Config) fsm.Config {
	cfg.Upstream.RetrySettings = fsm.RetrySettings{BaseDelay: 4 * time.Millisecond, MinDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond}
	return cfg
}

func upstreamOf(id string, a *answers) fsm.Deployment {
	return fsm.Deployment{ID: id, Provider: fsm.ProviderCompatible, APIBase: a.url + "/v1", APIKey: "os.environ/KEY"}
}

// among is the model "m" on several upstreams d1, d2 …
func among(ups ...*answers) fsm.Config {
	cfg := fsm.DefaultConfig()
	m := fsm.Model{Name: "m"}
	for i, a := range ups {
		m.Deployments = append(m.Deployments, upstreamOf(fmt.Sprintf("d%d", i+1), a))
	}
	cfg.Models = []fsm.Model{m}
	return quick(cfg)
}

// inOrder gives the deployments of the first model the orders 1, 2 …
func inOrder(cfg fsm.Config) fsm.Config {
	for i := range cfg.Models[0].Deployments {
		cfg.Models[0].Deployments[i].Order = int64(i + 1)
	}
	return cfg
}

func TestAFailedCallIsMadeAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		first http.HandlerFunc
	}{
		{"408", status(408, "{}")}, {"409", status(409, "{}")}, {"429", status(429, "{}")}, {"500", status(500, "{}")},
		{"502", status(502, "{}")}, {"503", status(503, "{}")}, {"504", status(504, "{}")}, {"529", status(529, "{}")},
		{"reset before an answer", script(reset)},
		{"closed before an answer", script(func(net.Conn) {})},
		{"headers, then a reset", script(func(c net.Conn) { say(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"); reset(c) })},
		{"an event stream without an event", script(func(c net.Conn) { say(c, sseHead); reset(c) })},
		{"a comment, then silence", script(func(c net.Conn) { closed(c) })},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newAnswers(t, c.first, served)
			cfg := among(up)
			cfg.Upstream.FirstByteTimeout = 100 * time.Millisecond
			r := newRig(t, cfg, nil)
			a := r.post("/v1/chat/completions", `{"model":"m","stream":true}`)
			if a.StatusCode != 200 || a.body != okBody {
				t.Fatalf("%d %s", a.StatusCode, a.body)
			}
			got := up.calls()
			if len(got) != 2 || got[0].body != got[1].body || a.Header.Get("x-litellm-attempted-retries") != "1" {
				t.Errorf("%d calls, %q retries: %v", len(got), a.Header.Get("x-litellm-attempted-retries"), got)
			}
			if len(r.gate.tickets) != 1 {
				t.Errorf("admitted %d times", len(r.gate.tickets))
			}
			if u := r.gate.spent(t, 0); u != (limiter.Usage{Input: 7, Output: 3, Cached: 2}) {
				t.Errorf("settled %+v, want what the attempt that served used", u)
			}
		})
	}
}

func TestWhatIsNotMadeAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		status int
	}{
		{"400", status(400, "{}"), 400},
		{"401, which is no fault of the caller", status(401, "{}"), 502},
		{"403", status(403, "{}"), 403},
		{"404", status(404, "{}"), 404},
		{"413", status(413, "{}"), 413},
		{"422", status(422, "{}"), 422},
		{"501", status(501, "{}"), 501},
		{"x-should-retry: false", status(503, "{}", "X-Should-Retry", "false"), 503},
		{"a wait over the cap", status(429, "{}", "Retry-After", "277403"), 429},
		{"a redirect", status(307, "{}"), 502},
		{"a stream that breaks after its first event", script(func(c net.Conn) { say(c, sseHead+delta); reset(c) }), 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newAnswers(t, c.answer)
			r := newRig(t, among(up), nil)
			a := r.post("/v1/chat/completions", `{"model":"m","stream":true}`)
			if n := len(up.calls()); a.StatusCode != c.status || n != 1 {
				t.Errorf("%d after %d calls: %s", a.StatusCode, n, a.body)
			}
			if c.name == "a wait over the cap" && a.Header.Get("Retry-After") != "277403" {
				t.Errorf("retry-after %q, want the true one", a.Header.Get("Retry-After"))
			}
		})
	}
}

// An SDK with its two retries before a gateway with six attempts.
func TestRetriesDoNotMultiplyBeyondTheBound(t *testing.T) {
	for _, c := range []struct {
		name string
		body string
		conf func(*fsm.Config)
		want int
	}{
		{"as configured", chatBody, func(*fsm.Config) {}, 6},
		{"no retries configured", chatBody, func(c *fsm.Config) { c.Upstream.MaxAttempts = 1 }, 1},
		{"the client wants fewer", `{"model":"m","num_retries":2}`, func(*fsm.Config) {}, 3},
		{"the client wants none", `{"model":"m","num_retries":0}`, func(*fsm.Config) {}, 1},
		{"the client wants more", `{"model":"m","num_retries":99}`, func(*fsm.Config) {}, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newAnswers(t, status(503, `{"a":1}`)), newAnswers(t, status(503, `{"b":1}`))
			cfg := among(a, b)
			c.conf(&cfg)
			r := newRig(t, cfg, nil)
			res := r.post("/v1/chat/completions", c.body)
			if n := len(a.calls()) + len(b.calls()); res.StatusCode != 503 || n != c.want {
				t.Errorf("%d after %d calls, want %d", res.StatusCode, n, c.want)
			}
			if got := res.Header.Get("x-litellm-attempted-retries"); got != itoa(c.want-1) {
				t.Errorf("says %q retries", got)
			}
		})
	}
	t.Run("a whole outage stays within the budget", func(t *testing.T) {
		up := newAnswers(t, status(503, "{}"))
		r := newRig(t, among(up), nil)
		const questions, sdk = 20, 3
		for range questions * sdk {
			if a := r.post("/v1/chat/completions", chatBody); a.StatusCode != 503 {
				t.Fatalf("%d %s", a.StatusCode, a.body)
			}
		}
		if n := len(up.calls()); n > questions*sdk+freeRetries {
			t.Errorf("%d calls for %d requests", n, questions*sdk)
		}
	})
}

func TestTheProvidersTimeIsKept(t *testing.T) {
	up := newAnswers(t, status(429, "{}", "Retry-After", "9", "Retry-After-Ms", "80"), served)
	r := newRig(t, among(up), nil)
	if a := r.post("/v1/chat/completions", chatBody); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	got := up.calls()
	if gap := got[1].at.Sub(got[0].at); len(got) != 2 || gap < 80*time.Millisecond || gap > time.Second {
		t.Errorf("asked again after %v, want 80 ms and a little", gap)
	}
}

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

func TestAClientThatLeavesWhileItsRetryWaits(t *testing.T) {
	up := newAnswers(t, status(503, "{}"))
	cfg := among(up)
	cfg.Upstream.RetrySettings = fsm.RetrySettings{Jitter: fsm.JitterNone, BaseDelay: 20 * time.Second}
	r := newRig(t, cfg, nil)
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/v1/chat/completions", strings.NewReader(chatBody))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+userKey)
	go func() {
		for len(up.calls()) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
	}
	if u := r.gate.spent(t, 0); u != (limiter.Usage{}) {
		t.Errorf("settled %+v", u)
	}
	if n := len(up.calls()); n != 1 {
		t.Errorf("%d calls", n)
	}
}

func TestTheClientsTimeBoundsTheAttempts(t *testing.T) {
	up := newAnswers(t, status(503, "{}"))
	cfg := among(up)
	cfg.Upstream.RetrySettings = fsm.RetrySettings{Jitter: fsm.JitterNone, BaseDelay: 50 * time.Millisecond}
	r := newRig(t, cfg, nil)
	if a := r.post("/v1/chat/completions", chatBody, "X-Litellm-Timeout", "0.12"); a.StatusCode != 503 {
		t.Errorf("%d", a.StatusCode)
	}
	if n := len(up.calls()); n != 2 {
		t.Errorf("%d calls, want one wait of 50 ms and none of 100", n)
	}
}

func TestBigBodiesAreReplayed(t *testing.T) {
	for _, size := range []int{ownBody - 100, ownBody + 100, 300 << 10, 3 << 20} {
		for _, model := range []string{"", "renamed"} {
			a, b := newAnswers(t, script(reset)), newAnswers(t, served)
			cfg := inOrder(among(a, b))
			cfg.Models[0].Deployments[0].Model, cfg.Models[0].Deployments[1].Model = model, model
			r := newRig(t, cfg, nil)
			body := `{"model":"m","x":"` + strings.Repeat("y", size) + `"}`
			if res := r.post("/v1/chat/completions", body); res.StatusCode != 200 {
				t.Fatalf("%d bytes: %d %s", size, res.StatusCode, res.body)
			}
			want := body
			if model != "" {
				want = strings.Replace(body, `"m"`, `"renamed"`, 1)
			}
			if b.calls()[0].body != want {
				t.Errorf("%d bytes, %q: the body changed", size, model)
			}
		}
	}
}

// An upstream that closes its idle connections just as a call goes up on one.
func TestACallThatMeetsAClosingConnectionGoesUpOnAFreshOne(t *testing.T) {
	for name, end := range map[string]func(net.Conn){"reset": reset, "closed": func(net.Conn) {}} {
		t.Run(name, func(t *testing.T) {
			var conns sync.Map
			up := newAnswers(t, func(w http.ResponseWriter, r *http.Request) {
				if _, used := conns.LoadOrStore(r.RemoteAddr, true); used {
					script(end)(w, r)
					return
				}
				served(w, r)
			})
			cfg := among(up)
			cfg.Upstream.MaxAttempts = 1
			r := newRig(t, cfg, nil)
			const n = 50
			for i := range n {
				if a := r.post("/v1/chat/completions", chatBody); a.StatusCode != 200 || a.Header.Get("x-litellm-attempted-retries") != "0" {
					t.Fatalf("call %d: %d %s", i, a.StatusCode, a.body)
				}
			}
			if got := len(up.calls()); got > 2*n {
				t.Errorf("%d calls for %d requests: more than one each was made again", got, n)
			}
		})
	}
}

// An upstream that dies of a request is asked once more on a fresh connection,
// not on every idle one.
func TestADeadlyRequestIsNotTriedOnEveryIdleConnection(t *testing.T) {
	var deadly atomic.Bool
	up := newAnswers(t, func(w http.ResponseWriter, r *http.Request) {
		if deadly.Load() {
			script(reset)(w, r)
			return
		}
		time.Sleep(20 * time.Millisecond) // so that each has a connection of its own
		served(w, r)
	})
	cfg := among(up)
	cfg.Upstream.MaxAttempts = 1
	r := newRig(t, cfg, nil)
	var many sync.WaitGroup
	for range 20 {
		many.Go(func() { r.post("/v1/chat/completions", chatBody) })
	}
	many.Wait()
	deadly.Store(true)
	before := len(up.calls())
	if a := r.post("/v1/chat/completions", chatBody); a.StatusCode != 502 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if n := len(up.calls()) - before; n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
}
