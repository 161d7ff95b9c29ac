package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

const okBody = `{"id":"x","model":"served-0613","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}}`

func TestOnlyDocumentedHeadersGoUp(t *testing.T) {
	up := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("200 OK", okBody)) })
	r := newRig(t, one(up.url), nil)
	a := r.post("/v1/chat/completions?beta=true&api-version=1&key="+userKey+"&x=sk-abc", chatBody,
		"Cookie", "MARK", "Proxy-Authorization", "MARK", "X-Forwarded-For", "MARK", "X-Goog-Api-Key", "MARK", "Api-Key", "MARK",
		"X-Evil", "MARK", "Connection", "x-evil, openai-beta", "Openai-Beta", "MARK", "Openai-Organization", "org", "Anthropic-Beta", "b1",
		"X-Stainless-Lang", "go", "User-Agent", "client/1", "Accept-Encoding", "gzip, br", "Idempotency-Key", "MARK")
	if a.StatusCode != 200 || a.body != okBody {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	got := up.requests()[0]
	if got.uri != "/v1/chat/completions?beta=true" {
		t.Errorf("uri %s", got.uri)
	}
	want := http.Header{
		"Authorization": {"Bearer " + providerKey}, "Content-Type": {"application/json"}, "Accept": {"application/json"}, "Accept-Encoding": {"identity"},
		"User-Agent": {"client/1"}, "Openai-Organization": {"org"}, "Anthropic-Beta": {"b1"}, "X-Stainless-Lang": {"go"},
		"Content-Length": {itoa(len(chatBody))},
	}
	for name, v := range got.header {
		if strings.Join(want[name], ",") != strings.Join(v, ",") {
			t.Errorf("%s: %q went up", name, v)
		}
	}
	if len(got.header) != len(want) {
		t.Errorf("headers %v", got.header)
	}
	if got.body != chatBody {
		t.Errorf("the body changed: %s", got.body)
	}
	if u := r.gate.spent(t, 0); u != (limiter.Usage{Input: 7, Output: 3, Cached: 2}) {
		t.Errorf("settled %+v", u)
	}
}

func TestUpstreamHeadersComeDownCleaned(t *testing.T) {
	up := newRaw(t, func(c net.Conn) {
		say(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nSet-Cookie: MARK\r\nLocation: MARK\r\nX-Hop: MARK\r\nConnection: x-hop\r\n"+
			"X-Request-Id: req-1\r\nOpenai-Processing-Ms: 5\r\nX-Ratelimit-Remaining-Tokens: 9\r\nX-Litellm-Model-Id: MARK\r\nX-Sluice-Node: MARK\r\n"+
			"Access-Control-Allow-Origin: MARK\r\nX-Echo: Bearer "+providerKey+"\r\nContent-Length: "+itoa(len(okBody))+"\r\n\r\n"+okBody)
	})
	r := newRig(t, one(up.url), nil)
	a := r.post("/v1/chat/completions", chatBody)
	for name, want := range map[string]string{
		"X-Request-Id": "req-1", "Openai-Processing-Ms": "5", "Llm_provider-X-Ratelimit-Remaining-Tokens": "9", "X-Ratelimit-Remaining-Tokens": "",
		"X-Litellm-Model-Id": "d1", "X-Sluice-Node": "n1", "Set-Cookie": "", "Location": "", "X-Hop": "", "X-Echo": "", "Access-Control-Allow-Origin": "",
		"Content-Length": itoa(len(okBody)),
	} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestUpstreamErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		script func(net.Conn)
		status int
		text   string
		header map[string]string
		reason string
	}{
		{"400 passes unchanged", func(c net.Conn) {
			say(c, strings.Replace(jsonAnswer("400 Bad Request", `{"error":{"message":"too long","x":1}}`), "\r\n\r\n", "\r\nX-Request-Id: r1\r\n\r\n", 1))
		}, 400, `{"error":{"message":"too long","x":1}}`, map[string]string{"x-request-id": "r1"}, ""},
		{"401 is the gateway's problem", func(c net.Conn) {
			say(c, jsonAnswer("401 Unauthorized", `{"error":{"message":"bad key `+providerKey+`"}}`))
		}, 502, "refused the credential", nil, "credential"},
		{"403 passes", func(c net.Conn) { say(c, jsonAnswer("403 Forbidden", `{"error":"country"}`)) }, 403, "country", nil, ""},
		{"404 with the secret in it", func(c net.Conn) { say(c, jsonAnswer("404 Not Found", `no `+providerKey+` here`)) }, 404, "no [redacted] here", nil, ""},
		{"429 is marked", func(c net.Conn) {
			say(c, strings.Replace(jsonAnswer("429 Too Many Requests", `{}`), "\r\n\r\n", "\r\nRetry-After: 7\r\n\r\n", 1))
		}, 429, "{}", map[string]string{"retry-after": "7", "x-sluice-limited-by": "upstream"}, "status_429"},
		{"529 stays", func(c net.Conn) { say(c, jsonAnswer("529 Overloaded", `{"o":1}`)) }, 529, `{"o":1}`, nil, "status_529"},
		{"redirect is not followed", func(c net.Conn) {
			say(c, "HTTP/1.1 307 T\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")
		}, 502, "status 307", nil, "protocol"},
		{"a status that is none", func(c net.Conn) { say(c, jsonAnswer("600 x", `{}`)) }, 502, "status 600", nil, "protocol"},
		{"204", func(c net.Conn) { say(c, "HTTP/1.1 204 No Content\r\n\r\n") }, 502, "status 204", nil, "protocol"},
		{"200 without a body", func(c net.Conn) { say(c, jsonAnswer("200 OK", "")) }, 502, "empty", nil, "protocol"},
		{"reset at once", reset, 502, "broke off", nil, "broken"},
		{"closed at once", func(net.Conn) {}, 502, "broke off", nil, "broken"},
		{"no HTTP", func(c net.Conn) { say(c, "hello\r\n\r\n") }, 502, "broke off", nil, "broken"},
		{"headers, then reset", func(c net.Conn) { say(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"); reset(c) }, 502, "broke off", nil, "broken"},
		{"shorter than it says", func(c net.Conn) {
			say(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"a\":")
		}, 502, "broke off", nil, "broken"},
		{"event stream without an event", func(c net.Conn) { say(c, sseHead); reset(c) }, 502, "broke off", nil, "broken"},
		{"event stream that ends at once", func(c net.Conn) { say(c, sseHead) }, 502, "broke off", nil, "broken"},
		{"event stream with half an event", func(c net.Conn) { say(c, sseHead+"data: {\"choi") }, 502, "broke off", nil, "broken"},
		{"silence", closed, 504, "first_byte_timeout", nil, "timeout"},
		{"headers, then silence", func(c net.Conn) { say(c, sseHead); closed(c) }, 504, "first_byte_timeout", nil, "timeout"},
		{"bytes, then silence", func(c net.Conn) { say(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"); closed(c) }, 504, "idle_timeout", nil, "timeout"},
		{"packed in br", func(c net.Conn) {
			say(c, "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nabc")
		}, 502, "nobody asked for", nil, "protocol"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, c.script)
			cfg := one(up.url)
			cfg.Upstream.FirstByteTimeout, cfg.Upstream.IdleTimeout = 150*time.Millisecond, 100*time.Millisecond
			r := newRig(t, cfg, nil)
			a := r.post("/v1/chat/completions", `{"model":"m","stream":true}`)
			if a.StatusCode != c.status || !strings.Contains(a.body, c.text) {
				t.Fatalf("%d %s", a.StatusCode, a.body)
			}
			if strings.Contains(a.body, providerKey) {
				t.Errorf("the answer holds the provider's key: %s", a.body)
			}
			for name, want := range c.header {
				if got := a.Header.Get(name); got != want {
					t.Errorf("%s: %q", name, got)
				}
			}
			if u := r.gate.spent(t, 0); u != (limiter.Usage{}) {
				t.Errorf("a failure was charged %+v", u)
			}
			if got := r.failures(t); got != c.reason {
				t.Errorf("failure counted as %q, want %q", got, c.reason)
			}
		})
	}
	t.Run("refused connection", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		r := newRig(t, one("http://"+l.Addr().String()), nil)
		wantError(t, r.post("/v1/chat/completions", chatBody), 502, "", "refused the connection")
	})
}

// failures returns the reason label of the one upstream failure counted.
func (r *rig) failures(t *testing.T) string {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "sluice_upstream_failures_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "reason" {
					return l.GetValue()
				}
			}
		}
	}
	return ""
}

func TestBigAnswers(t *testing.T) {
	big := `{"data":[{"embedding":"` + strings.Repeat("A", 18<<20) + `"}],"usage":{"prompt_tokens":99,"total_tokens":99}}`
	for _, c := range []struct {
		name string
		head string
		body string
		want limiter.Usage
		cut  bool
	}{
		{"with a length", "Content-Length: " + itoa(len(big)), big, limiter.Usage{Input: 99}, false},
		{"without a length", "Connection: close", big, limiter.Usage{Input: 99}, false},
		{"cut", "Content-Length: " + itoa(len(big)), big[:1<<20], limiter.Usage{Input: 4}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, func(conn net.Conn) {
				say(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"+c.head+"\r\n\r\n"+c.body)
			})
			r := newRig(t, one(up.url), nil)
			a := r.post("/embeddings", `{"model":"m"}`)
			if (a.err != nil) != c.cut {
				t.Errorf("reading the answer: %v", a.err)
			}
			if !c.cut && a.body != big {
				t.Errorf("%d bytes arrived", len(a.body))
			}
			if u := r.gate.spent(t, 0); u != c.want {
				t.Errorf("settled %+v, want %+v", u, c.want)
			}
		})
	}
	t.Run("cut without a length", func(t *testing.T) {
		up := newRaw(t, func(conn net.Conn) {
			say(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n"+strings.Repeat("x", 0x20000)+"\r\n")
		})
		r := newRig(t, one(up.url), nil)
		if a := r.post("/chat/completions", chatBody); a.err == nil {
			t.Error("a cut answer looks whole")
		}
	})
}

func TestAnswerWithoutUsageIsEstimated(t *testing.T) {
	body := `{"choices":[{"message":{"content":"` + strings.Repeat("word ", 100) + `"}}]}`
	up := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("200 OK", body)) })
	r := newRig(t, one(up.url), nil)
	r.post("/chat/completions", chatBody)
	if u := r.gate.spent(t, 0); u.Input != estimate(int64(len(chatBody))) || u.Output != estimate(int64(len(body))) {
		t.Errorf("settled %+v", u)
	}
	eventually(t, "flagged log line", func() bool { return strings.Contains(r.logs.String(), "usage_estimated=true") })
}

func TestPackedAnswersAreUnpackedAndMetered(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(okBody))
	_ = z.Close()
	up := newRaw(t, func(c net.Conn) {
		say(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: "+itoa(packed.Len())+"\r\n\r\n"+packed.String())
	})
	r := newRig(t, one(up.url), nil)
	a := r.post("/chat/completions", chatBody, "Accept-Encoding", "gzip")
	if a.body != okBody || a.Header.Get("Content-Encoding") != "" {
		t.Errorf("%v %q", a.Header, a.body)
	}
	if u := r.gate.spent(t, 0); u.Input != 7 {
		t.Errorf("settled %+v", u)
	}
}

func TestPackedStreamIsUnpackedEventByEvent(t *testing.T) {
	step := make(chan struct{})
	up := newRaw(t, func(c net.Conn) {
		say(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n")
		z := gzip.NewWriter(c)
		_, _ = io.WriteString(z, deltaBare)
		_ = z.Flush()
		<-step
		_, _ = io.WriteString(z, lastUsage+done)
		_ = z.Close()
	})
	r := newRig(t, one(up.url), nil)
	res := r.open(context.Background(), askedBody)
	defer res.Body.Close()
	got := make([]byte, len(deltaBare))
	if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != deltaBare {
		t.Fatalf("%q, %v", got, err)
	}
	close(step)
	if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != lastUsage+done {
		t.Errorf("%q, %v", rest, err)
	}
	if u := r.gate.spent(t, 0); u != (limiter.Usage{Input: 11, Output: 5}) {
		t.Errorf("settled %+v", u)
	}
}

func TestAzureDialect(t *testing.T) {
	up := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("200 OK", okBody)) })
	cfg := one(up.url)
	cfg.Models[0].Deployments[0] = fsm.Deployment{ID: "az", Provider: fsm.ProviderAzure, APIBase: up.url + "/", APIKey: "os.environ/K", APIVersion: "2025-01-01", Model: "dep/1 x"}
	r := newRig(t, cfg, nil)
	if a := r.post("/v1/chat/completions", chatBody); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	got := up.requests()[0]
	if got.uri != "/openai/deployments/dep%2F1%20x/chat/completions?api-version=2025-01-01" {
		t.Errorf("uri %s", got.uri)
	}
	if got.header.Get("Api-Key") != providerKey || got.header.Get("Authorization") != "" {
		t.Errorf("headers %v", got.header)
	}
	if want := strings.Replace(chatBody, `"m"`, `"dep/1 x"`, 1); got.body != want {
		t.Errorf("body %s", got.body)
	}
}

func TestClientThatLeavesEndsTheCall(t *testing.T) {
	gone := make(chan struct{})
	up := newRaw(t, func(c net.Conn) { closed(c); close(gone) })
	r := newRig(t, one(up.url), nil)
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/v1/chat/completions", strings.NewReader(chatBody))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+userKey)
	go func() {
		eventually(t, "request upstream", func() bool { return len(up.requests()) > 0 })
		cancel()
	}()
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
	}
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Fatal("the upstream call went on")
	}
	if u := r.gate.spent(t, 0); u != (limiter.Usage{Input: estimate(int64(len(chatBody)))}) {
		t.Errorf("settled %+v", u)
	}
}

func TestKeepAliveConnectionsAreReused(t *testing.T) {
	conns := map[string]bool{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		conns[req.RemoteAddr] = true
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, okBody)
	}))
	defer srv.Close()
	r := newRig(t, one(srv.URL), nil)
	for range 10 {
		if a := r.post("/chat/completions", chatBody); a.StatusCode != 200 {
			t.Fatal(a.StatusCode)
		}
	}
	if len(conns) != 1 {
		t.Errorf("%d connections for 10 requests", len(conns))
	}
}

func TestConcurrentBodiesStayApart(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body struct{ User string }
		if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"user": body.User, "usage": map[string]int{"prompt_tokens": 1}})
	}))
	defer srv.Close()
	cfg := one(srv.URL)
	cfg.Models[0].Deployments[0].Model = "renamed"
	r := newRig(t, cfg, nil)
	done := make(chan struct{})
	for g := range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range 20 {
				user := strings.Repeat(itoa(g), 100*(i+1))
				if a := r.post("/chat/completions", `{"model":"m","user":"`+user+`"}`); !strings.Contains(a.body, `"`+user+`"`) {
					t.Errorf("client %d got %d %.80s", g, a.StatusCode, a.body)
				}
			}
		}()
	}
	for range 8 {
		<-done
	}
}
