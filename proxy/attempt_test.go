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
	got []arrival
}

// arrival is one request as it arrived.
type arrival struct {
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
		a.got = append(a.got, arrival{time.Now(), string(body)})
		a.mu.Unlock()
		steps[min(n, len(steps)-1)](w, r)
	}))
	t.Cleanup(srv.Close)
	a.url = srv.URL
	return a
}

func (a *answers) calls() []arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]arrival(nil), a.got...)
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

// The same race as it really happens: a server that drops connections after
// about the time that the next call takes to come.
func TestIdleConnectionsThatEndAsCallsComeCostNothing(t *testing.T) {
	srv := httptest.NewUnstartedServer(served)
	srv.Config.IdleTimeout = 5 * time.Millisecond
	srv.Start()
	t.Cleanup(srv.Close)
	cfg := among(&answers{url: srv.URL})
	cfg.Upstream.MaxAttempts = 1
	r := newRig(t, cfg, nil)
	for i := range 200 {
		if a := r.post("/v1/chat/completions", chatBody); a.StatusCode != 200 {
			t.Fatalf("call %d: %d %s", i, a.StatusCode, a.body)
		}
		time.Sleep(5*time.Millisecond - 200*time.Microsecond + time.Duration(i%20)*20*time.Microsecond)
	}
}
