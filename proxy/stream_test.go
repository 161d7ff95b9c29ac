package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

const (
	streamBody = `{"model":"m","stream":true}`
	askedBody  = `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`
	delta      = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"日本 🚀\"},\"finish_reason\":null}],\"usage\":null}\n\n"
	deltaBare  = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"日本 🚀\"},\"finish_reason\":null}]}\n\n"
	finish     = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	lastUsage  = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":5}}\n\n"
	done       = "data: [DONE]\n\n"
)

// streamCase is one stream of an upstream and what the client gets of it.
type streamCase struct {
	name, body, sent, want string // want "" = sent; "…" at its end = an error event follows
	usage                  limiter.Usage
}

func streamCases() []streamCase {
	big := "data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("x", 12<<20) + "\"}}]}\n\n"
	partial := limiter.Usage{Input: estimate(int64(len(`{"stream_options":{"include_usage":true},"model":"m","stream":true}`))), Output: 1}
	eleven := limiter.Usage{Input: 11, Output: 5}
	return []streamCase{
		{"hidden usage", streamBody, delta + finish + lastUsage + done, deltaBare + finish + done, eleven},
		{"asked usage passes untouched", askedBody, delta + finish + lastUsage + done, "", eleven},
		{"running totals", askedBody, strings.Repeat("data: {\"choices\":[{}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":7}}\n\n", 3) + "data: {\"usage\":null}\n\n" + done, "", limiter.Usage{Input: 1, Output: 7}},
		{"CRLF", streamBody, strings.ReplaceAll(delta+finish+lastUsage+done, "\n", "\r\n"), strings.ReplaceAll(deltaBare+finish+done, "\n", "\r\n"), eleven},
		{"no space after data:", streamBody, strings.ReplaceAll(delta+finish+lastUsage+done, "data: ", "data:"), strings.ReplaceAll(deltaBare+finish+done, "data: ", "data:"), eleven},
		{"BOM", streamBody, "\ufeff" + delta + lastUsage + done, "\ufeff" + deltaBare + done, eleven},
		{"several data lines", streamBody, "data: {\"choices\":[],\ndata: \"usage\":{\"prompt_tokens\":11,\"completion_tokens\":5}}\n\n" + finish + done, finish + done, eleven},
		{"comments stay comments", askedBody, ": hi\n\n" + delta + ": x\n" + lastUsage + done, "", eleven},
		{"other fields stay", askedBody, "event: m\nid: 7\nretry: 10\n" + lastUsage + done, "", eleven},
		{"content filter chunk without choices stays", streamBody, "data: {\"choices\":[],\"prompt_filter_results\":[1],\"usage\":null}\n\n" + lastUsage + done, "data: {\"choices\":[],\"prompt_filter_results\":[1]}\n\n" + done, eleven},
		{"last event without its blank line", streamBody, delta + lastUsage + "data: [DONE]", deltaBare + done, eleven},
		{"last event with one line feed", streamBody, delta + lastUsage + "data: [DONE]\n", deltaBare + done, eleven},
		{"usage in an unterminated event", streamBody, finish + strings.TrimRight(lastUsage, "\n"), finish, eleven},
		{"finish without [DONE] is an end", askedBody, delta + finish + lastUsage, "", eleven},
		{"12 MB event", askedBody, big + lastUsage + done, "", eleven},
		{"error of the upstream's own", askedBody, delta + "data: {\"error\":{\"message\":\"x\"}}\n\n", "", partial},
		{"end without an end", streamBody, delta, deltaBare + "…", partial},
		{"cut in an event", streamBody, delta + "data: {\"choi", deltaBare + "…", partial},
		{"cut after usage", askedBody, lastUsage + delta, lastUsage + delta + "…", eleven},
		{"zero usage is a figure", askedBody, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0}}\n\n" + done, "", limiter.Usage{}},
	}
}

// check compares an answer with the case.
func (c *streamCase) check(t *testing.T, r *rig, a answer) {
	t.Helper()
	want, failed := strings.CutSuffix(c.want, "…")
	if c.want == "" {
		want = c.sent
	}
	got := a.body
	if failed {
		var event string
		got, event, _ = strings.Cut(a.body, "data: {\"error\":")
		if !strings.HasSuffix(event, "\n\n") || !strings.Contains(event, `"code":"502"`) {
			t.Errorf("error event %q", event)
		}
	}
	if got != want {
		t.Errorf("got  %.300q\nwant %.300q", got, want)
	}
	if u := r.gate.spent(t, 0); u != c.usage {
		t.Errorf("settled %+v, want %+v", u, c.usage)
	}
}

func TestStreams(t *testing.T) {
	for _, c := range streamCases() {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, func(conn net.Conn) { say(conn, sseHead+c.sent) })
			r := newRig(t, one(up.url), nil)
			c.check(t, r, r.post("/v1/chat/completions", c.body))
			if got := up.requests()[0].body; !strings.Contains(got, `"include_usage":true`) {
				t.Errorf("usage was not asked for: %s", got)
			}
		})
	}
}

func TestStreamsInPiecesOfAnySize(t *testing.T) {
	for _, c := range streamCases() {
		if len(c.sent) > 1<<20 {
			continue
		}
		for _, size := range []int{1, 2, 3, 7} {
			t.Run(fmt.Sprintf("%s by %d", c.name, size), func(t *testing.T) {
				r := newRig(t, one("http://127.0.0.1:1"), nil)
				r.proxy.providers[fsm.ProviderCompatible] = scripted{c.sent, size}
				r.proxy.table.Store(nil)
				c.check(t, r, r.post("/v1/chat/completions", c.body))
			})
		}
	}
}

// scripted is a provider that answers with a stream, size bytes at a read.
type scripted struct {
	stream string
	size   int
}

func (s scripted) serves(e endpoint) endpoint { return e }

func (s scripted) prepare(*target, func(string) (string, error)) error { return nil }

func (s scripted) send(context.Context, *call) (*http.Response, error) {
	return mockAnswer("text/event-stream", io.NopCloser(&sizedReader{strings.NewReader(s.stream), s.size})), nil
}

func TestStreamWithoutUsageSupport(t *testing.T) {
	up := newRaw(t, func(c net.Conn) { say(c, sseHead+delta+finish+done) })
	cfg := one(up.url)
	cfg.Models[0].Deployments[0].NoStreamUsage = true
	r := newRig(t, cfg, nil)
	a := r.post("/v1/chat/completions", streamBody)
	if a.body != delta+finish+done || up.requests()[0].body != streamBody {
		t.Errorf("%q, asked %s", a.body, up.requests()[0].body)
	}
	if u := r.gate.spent(t, 0); u.Input != estimate(int64(len(streamBody))) || u.Output != 2 {
		t.Errorf("settled %+v", u)
	}
}

func TestNothingIsInjectedWhereNothingStreams(t *testing.T) {
	up := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("200 OK", okBody)) })
	r := newRig(t, one(up.url), nil)
	for i, body := range []string{`{"model":"m","stream":false,"stream_options":{"include_usage":false}}`, `{"model":"m","stream_options":{}}`} {
		r.post("/v1/chat/completions", body)
		if got := up.requests()[i].body; got != body {
			t.Errorf("sent %s", got)
		}
	}
	r.post("/v1/embeddings", streamBody)
	if got := up.requests()[2].body; got != streamBody {
		t.Errorf("embeddings sent %s", got)
	}
}

// open sends a streaming request and returns the response with its body unread.
func (r *rig) open(ctx context.Context, body string) *http.Response {
	r.t.Helper()
	return r.openAt(ctx, "/v1/chat/completions", body)
}

func (r *rig) openAt(ctx context.Context, path, body string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+userKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

func TestEventsAreFlushedOneByOne(t *testing.T) {
	step := make(chan struct{})
	up := newRaw(t, func(c net.Conn) {
		say(c, sseHead)
		for range 5 {
			say(c, deltaBare)
			<-step
		}
		say(c, ": ping\n") // a comment alone must not wait for an event
		<-step
		say(c, "\n"+done)
	})
	r := newRig(t, one(up.url), nil)
	res := r.open(context.Background(), askedBody)
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	for range 5 {
		got := make([]byte, len(deltaBare))
		if _, err := io.ReadFull(in, got); err != nil || string(got) != deltaBare {
			t.Fatalf("%q, %v", got, err)
		}
		step <- struct{}{}
	}
	if line, err := in.ReadString('\n'); err != nil || line != ": ping\n" {
		t.Fatalf("%q, %v", line, err)
	}
	step <- struct{}{}
	if rest, err := io.ReadAll(in); err != nil || string(rest) != "\n"+done {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestBrokenStreams(t *testing.T) {
	for _, c := range []struct {
		name   string
		script func(net.Conn)
		code   string
	}{
		{"reset", func(c net.Conn) { say(c, sseHead+deltaBare); time.Sleep(20 * time.Millisecond); reset(c) }, "502"},
		{"chunked without its end", func(c net.Conn) {
			say(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"+chunkOf(deltaBare))
		}, "502"},
		{"silence", func(c net.Conn) { say(c, sseHead+deltaBare); closed(c) }, "504"},
		{"endless event", func(c net.Conn) {
			say(c, sseHead+deltaBare+"data: ")
			for range 40 {
				say(c, strings.Repeat("x", 64<<10))
			}
			closed(c)
		}, "502"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, c.script)
			cfg := one(up.url)
			cfg.Upstream.IdleTimeout = 200 * time.Millisecond
			r := newRig(t, cfg, func(o *Options) { o.MaxEvent = 1 << 20 })
			a := r.post("/v1/chat/completions", askedBody)
			event, ok := strings.CutPrefix(a.body, deltaBare)
			if !ok || !strings.HasPrefix(event, `data: {"error":{"message":`) || !strings.Contains(event, `"code":"`+c.code+`"`) || !strings.HasSuffix(event, "}\n\n") {
				t.Errorf("%q", a.body)
			}
			if a.err != nil {
				t.Errorf("reading: %v", a.err)
			}
			if u := r.gate.spent(t, 0); u.Input == 0 || u.Output == 0 {
				t.Errorf("settled %+v", u)
			}
		})
	}
}

func chunkOf(s string) string { return strings.ToLower(hexLen(len(s))) + "\r\n" + s + "\r\n" }

func hexLen(n int) string {
	const digits = "0123456789abcdef"
	if n < 16 {
		return string(digits[n])
	}
	return hexLen(n/16) + string(digits[n%16])
}

func TestFailureAfterDoneIsNone(t *testing.T) {
	up := newRaw(t, func(c net.Conn) {
		say(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"+chunkOf(deltaBare+done))
	})
	r := newRig(t, one(up.url), nil)
	if a := r.post("/v1/chat/completions", askedBody); a.body != deltaBare+done {
		t.Errorf("%q", a.body)
	}
}

func TestSlowStreamIsNotCutByAnyTotal(t *testing.T) {
	up := newRaw(t, func(c net.Conn) {
		time.Sleep(120 * time.Millisecond)
		say(c, sseHead)
		for range 12 {
			time.Sleep(50 * time.Millisecond)
			say(c, deltaBare)
		}
		say(c, done)
	})
	cfg := one(up.url)
	cfg.Upstream.FirstByteTimeout, cfg.Upstream.IdleTimeout = 400*time.Millisecond, 300*time.Millisecond
	r := newRig(t, cfg, func(o *Options) { o.WriteTimeout = 300 * time.Millisecond })
	if a := r.post("/v1/chat/completions", askedBody); a.body != strings.Repeat(deltaBare, 12)+done {
		t.Errorf("%q", a.body)
	}
}

func TestClientThatLeavesAStream(t *testing.T) {
	for _, c := range []struct {
		name string
		sent string
		want func(limiter.Usage) bool
	}{
		{"before usage", deltaBare, func(u limiter.Usage) bool { return u.Input > 0 && u.Output >= 1 }},
		{"after usage", deltaBare + lastUsage, func(u limiter.Usage) bool { return u == limiter.Usage{Input: 11, Output: 5} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			gone := make(chan struct{})
			up := newRaw(t, func(conn net.Conn) { say(conn, sseHead+c.sent); closed(conn); close(gone) })
			r := newRig(t, one(up.url), nil)
			ctx, cancel := context.WithCancel(context.Background())
			res := r.open(ctx, askedBody)
			if _, err := io.ReadFull(res.Body, make([]byte, len(c.sent))); err != nil {
				t.Fatal(err)
			}
			cancel()
			res.Body.Close()
			select {
			case <-gone:
			case <-time.After(5 * time.Second):
				t.Fatal("the upstream call went on")
			}
			if u := r.gate.spent(t, 0); !c.want(u) {
				t.Errorf("settled %+v", u)
			}
		})
	}
}

func TestClientThatDoesNotReadIsLeft(t *testing.T) {
	gone := make(chan struct{})
	up := newRaw(t, func(c net.Conn) {
		defer close(gone)
		say(c, sseHead)
		event := "data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("x", 256<<10) + "\"}}]}\n\n"
		for range 400 {
			if _, err := io.WriteString(c, event); err != nil {
				return
			}
		}
	})
	r := newRig(t, one(up.url), func(o *Options) { o.WriteTimeout = 200 * time.Millisecond })
	res := r.open(context.Background(), askedBody)
	defer res.Body.Close()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Fatal("a client that does not read holds the upstream")
	}
	r.gate.spent(t, 0)
}

func TestShutdownEndsStreamsWithAnError(t *testing.T) {
	up := newRaw(t, func(c net.Conn) { say(c, sseHead+deltaBare); closed(c) })
	r := newRig(t, one(up.url), nil)
	ctx, cancel := context.WithCancelCause(context.Background())
	srv := &http.Server{Handler: r.proxy, BaseContext: func(net.Listener) context.Context { return ctx }}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	r.url = "http://" + l.Addr().String()
	res := r.open(context.Background(), askedBody)
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, len(deltaBare))); err != nil {
		t.Fatal(err)
	}
	cancel(ErrShutdown)
	rest, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(rest), "shutting down") || !strings.HasPrefix(string(rest), "data: {\"error\"") {
		t.Errorf("%q, %v", rest, err)
	}
}
