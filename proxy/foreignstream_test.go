package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

// foreignCase is a stream that is translated: which events the client gets, in
// which order, and what is counted.
type foreignCase struct {
	name, path, body, sent string
	cfg                    func(string) fsm.Config
	want                   []string // what each event holds, in order
	usage                  limiter.Usage
}

func foreignCases() []foreignCase {
	toolStart := func(i int, id string) string {
		return messageEvent("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":{"type":"tool_use","id":"%s","name":"f","input":{}}`, i, id))
	}
	input := func(i int, piece string) string {
		return messageEvent("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":{"type":"input_json_delta","partial_json":"%s"}`, i, piece))
	}
	stop := func(i int) string { return messageEvent("content_block_stop", fmt.Sprintf(`,"index":%d`, i)) }
	call := func(delta string) string {
		return `data: {"choices":[{"index":0,"delta":{"tool_calls":[` + delta + `]},"finish_reason":null}]}` + "\n\n"
	}
	start := messageStart(`"input_tokens":25,"output_tokens":1`)
	tools := start + toolStart(0, "t0") + input(0, `{\"q\":\"\\u65`) + input(0, `e5\"}`) + stop(0) + toolStart(1, "t1") + stop(1) +
		strings.Replace(messageDelta(`"output_tokens":15`), "end_turn", "tool_use", 1) + messageStop
	calls := call(`{"index":0,"id":"c0","type":"function","function":{"name":"f","arguments":""}}`) + call(`{"index":0,"function":{"arguments":"{\"q\":\"\\u65"}}`) +
		call(`{"index":0,"function":{"arguments":"e5\"}"}}`) + call(`{"index":1,"id":"c1","type":"function","function":{"name":"f","arguments":""}}`) +
		strings.Replace(finish, `"stop"`, `"tool_calls"`, 1) + lastUsage + done
	chat, end := "/v1/chat/completions", limiter.Usage{Input: 25, Output: 15}
	eleven := limiter.Usage{Input: 11, Output: 5}
	return []foreignCase{
		{"text to chat", chat, askedChat, messageEvents(`"input_tokens":25,"output_tokens":1`, `"output_tokens":15`), claude,
			[]string{`"role":"assistant"`, ": ping", `"content":"日本 🚀"`, `"finish_reason":"stop"`, `"prompt_tokens":25,"completion_tokens":15`, "[DONE]"}, end},
		{"usage that nobody asked for", chat, strings.Replace(askedChat, `"include_usage":true`, `"include_usage":false`, 1), messageEvents(`"input_tokens":25,"output_tokens":1`, `"output_tokens":15`), claude,
			[]string{`"role":"assistant"`, ": ping", `"content":"日本 🚀"`, `"finish_reason":"stop"`, "[DONE]"}, end},
		{"tools to chat", chat, askedChat, tools, claude,
			[]string{`"role"`, `"index":0,"id":"t0"`, `{\"q\":\"\\u65`, `e5\"}`, `"index":1,"id":"t1"`, "", `"finish_reason":"tool_calls"`, `"usage":{`, "[DONE]"}, end},
		{"upstream's error to chat", chat, askedChat, start + blockStart + textDelta + messageEvent("error", `,"error":{"type":"overloaded_error","message":"Overloaded"}`), claude,
			[]string{`"role"`, "🚀", `{"error":{"message":"Overloaded"`}, limiter.Usage{Input: 25, Output: 3}},
		{"cut to chat", chat, askedChat, start + blockStart + textDelta, claude,
			[]string{`"role"`, "🚀", `{"error":{"message":"The upstream broke off`}, limiter.Usage{Input: 25, Output: 3}},
		{"delta and no stop to chat", chat, askedChat, start + blockStart + textDelta + blockStop + messageDelta(`"output_tokens":15`), claude,
			[]string{`"role"`, "🚀", `{"error":{"message":"The upstream broke off`}, end},
		{"no JSON to chat", chat, askedChat, start + blockStart + textDelta + "data: hello\n\n" + messageStop, claude,
			[]string{`"role"`, "🚀", `{"error":{"message":"The upstream sent something`}, limiter.Usage{Input: 25, Output: 3}},
		{"text to Messages", "/v1/messages", messageStream, ": hi\n\n" + deltaBare + finish + lastUsage + done + ": hi\n\n", one,
			[]string{": hi", "message_start", "content_block_start", `"text":"日本 🚀"`, "content_block_stop", `"stop_reason":"end_turn"`, "message_stop"}, eleven},
		{"no [DONE] to Messages", "/v1/messages", messageStream, deltaBare + finish + lastUsage, one,
			[]string{"message_start", "content_block_start", "🚀", "content_block_stop", `"output_tokens":5`, "message_stop"}, eleven},
		{"no usage to Messages", "/v1/messages", messageStream, deltaBare + finish, one,
			[]string{"message_start", "content_block_start", "🚀", "content_block_stop", "message_delta", "message_stop"}, limiter.Usage{Input: 32, Output: 2}},
		{"usage in an unterminated event to Messages", "/v1/messages", messageStream, deltaBare + finish + strings.TrimRight(lastUsage, "\n"), one,
			[]string{"message_start", "content_block_start", "🚀", "content_block_stop", `"output_tokens":5`, "message_stop"}, eleven},
		{"tools to Messages", "/v1/messages", messageStream, calls, one,
			[]string{"message_start", `"id":"c0"`, `{\"q\":\"\\u65`, `e5\"}`, "content_block_stop", `"id":"c1"`, "content_block_stop", `"stop_reason":"tool_use"`, "message_stop"}, eleven},
		{"upstream's error to Messages", "/v1/messages", messageStream, deltaBare + "data: {\"error\":{\"message\":\"oh\",\"code\":429}}\n\n" + done, one,
			[]string{"message_start", "content_block_start", "🚀", `{"type":"error","error":{"type":"rate_limit_error","message":"oh"}}`}, limiter.Usage{Input: 32, Output: 1}},
		{"cut to Messages", "/v1/messages", messageStream, deltaBare + "data: {\"cho", one,
			[]string{"message_start", "content_block_start", "🚀", `event: error`}, limiter.Usage{Input: 32, Output: 1}},
		{"the end of another choice to Messages", "/v1/messages", messageStream, deltaBare + strings.Replace(finish, `"index":0`, `"index":1`, 1), one,
			[]string{"message_start", "content_block_start", "🚀", `event: error`}, limiter.Usage{Input: 32, Output: 2}},
		{"no JSON to Messages", "/v1/messages", messageStream, deltaBare + "data: hello\n\n" + done, one,
			[]string{"message_start", "content_block_start", "🚀", `event: error`}, limiter.Usage{Input: 32, Output: 1}},
	}
}

func (c *foreignCase) check(t *testing.T, r *rig, a answer) {
	t.Helper()
	if a.StatusCode != 200 || a.err != nil || !(a.Header.Get("Content-Type") == "text/event-stream") || a.Header.Get("Content-Length") != "" {
		t.Fatalf("%d %v %v %s", a.StatusCode, a.err, a.Header, a.body)
	}
	// A comment is a line of its own; what follows is the next event.
	body := a.body
	for _, comment := range []string{": ping\n", ": hi\n"} {
		body = strings.ReplaceAll(body, comment, comment+"\n")
	}
	events := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
	if len(events) != len(c.want) {
		t.Errorf("%d events, want %d: %q", len(events), len(c.want), events)
	}
	for i := range min(len(events), len(c.want)) {
		if !strings.Contains(events[i], c.want[i]) {
			t.Errorf("event %d is %q, want %q", i, events[i], c.want[i])
		}
	}
	if u := r.gate.spent(t, 0); u != c.usage {
		t.Errorf("settled %+v, want %+v", u, c.usage)
	}
}

func TestForeignStreams(t *testing.T) {
	for _, c := range foreignCases() {
		t.Run(c.name, func(t *testing.T) {
			head := strings.Replace(sseHead, "text/event-stream", "Text/Event-Stream;charset=UTF-8", 1)
			up := newRaw(t, func(conn net.Conn) { say(conn, head+c.sent) })
			r := newRig(t, c.cfg(up.url), nil)
			c.check(t, r, r.post(c.path, c.body))
			if body := up.requests()[0].body; !strings.Contains(body, `"stream":true`) || strings.Contains(body, "include_usage") != strings.HasSuffix(c.path, "messages") {
				t.Errorf("asked %s", body)
			}
		})
	}
}

func TestForeignStreamsInPiecesOfAnySize(t *testing.T) {
	for _, c := range foreignCases() {
		for _, size := range []int{1, 2, 3, 7} {
			t.Run(fmt.Sprintf("%s by %d", c.name, size), func(t *testing.T) {
				cfg := c.cfg("http://127.0.0.1:1")
				r := newRig(t, cfg, nil)
				kind := cfg.Models[0].Deployments[0].Provider
				r.proxy.providers[kind] = foreignScript{scripted{c.sent, size}, r.proxy.providers[kind]}
				r.proxy.table.Store(nil)
				c.check(t, r, r.post(c.path, c.body))
			})
		}
	}
}

// foreignScript is a scripted provider that speaks what another one speaks.
type foreignScript struct {
	scripted
	as provider
}

func (s foreignScript) serves(e endpoint) endpoint { return s.as.serves(e) }

// TestForeignStreamsEndWithTheirEnd: an upstream that holds its connection open
// after its last event does not hold the client's end back, and what was used is
// settled by then. Every event before it has come at once.
func TestForeignStreamsEndWithTheirEnd(t *testing.T) {
	for _, c := range []struct {
		path, body, last string
		parts            []string
		cfg              func(string) fsm.Config
	}{
		{"/v1/chat/completions", askedChat, "data: [DONE]\n", []string{messageStart(`"input_tokens":25`), blockStart + textDelta, messageDelta(`"output_tokens":15`) + messageStop}, claude},
		{"/v1/messages", messageStream, "data: {\"type\":\"message_stop\"}\n", []string{deltaBare, deltaBare, finish + lastUsage}, one},
	} {
		step := make(chan struct{})
		up := newRaw(t, func(conn net.Conn) {
			say(conn, sseHead)
			for _, part := range c.parts {
				say(conn, part)
				<-step
			}
			closed(conn)
		})
		r := newRig(t, c.cfg(up.url), nil)
		ctx, cancel := context.WithCancel(context.Background())
		res := r.openAt(ctx, c.path, c.body)
		in := bufio.NewReader(res.Body)
		for i := range c.parts {
			for want, line := "data: ", ""; ; {
				var err error
				if i == len(c.parts)-1 {
					want = c.last
				}
				if line, err = in.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(line, want) {
					break
				}
			}
			if i == len(c.parts)-1 {
				r.gate.mu.Lock()
				if len(r.gate.receipts[0].settled) != 1 {
					t.Error("the client had its end before what it used was settled")
				}
				r.gate.mu.Unlock()
			}
			step <- struct{}{}
		}
		cancel()
		res.Body.Close()
	}
}

// TestForeignStreamsWithBigEvents: whatever the size of one, it arrives whole,
// with the end and the usage behind it.
func TestForeignStreamsWithBigEvents(t *testing.T) {
	for _, n := range []int{70 << 10, 1500 << 10, 12 << 20} {
		start := messageStart(`"input_tokens":25`) + messageEvent("content_block_start", `,"index":0,"content_block":{"type":"tool_use","id":"t0","name":"f","input":{}}`)
		call := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c0","type":"function","function":{"name":"f","arguments":"` + strings.Repeat("x", n) + `"}}]},"finish_reason":null}]}` + "\n\n"
		for _, c := range []struct {
			path, body, sent, end string
			cfg                   func(string) fsm.Config
			usage                 limiter.Usage
		}{
			{"/v1/chat/completions", askedChat, start + jsonDelta(n) + blockStop + messageDelta(`"output_tokens":15`) + messageStop, "data: [DONE]\n\n", claude, limiter.Usage{Input: 25, Output: 15}},
			{"/v1/messages", messageStream, call + finish + lastUsage + done, messageStop, one, limiter.Usage{Input: 11, Output: 5}},
		} {
			up := newRaw(t, func(conn net.Conn) { say(conn, sseHead+c.sent) })
			r := newRig(t, c.cfg(up.url), nil)
			a := r.post(c.path, c.body)
			if got := strings.Count(a.body, "xxxxxxxx"); got != n/8 || !strings.HasSuffix(a.body, c.end) {
				t.Errorf("%s, %d bytes: %d arrived, end %.80q", c.path, n, got*8, a.body[max(len(a.body)-80, 0):])
			}
			if u := r.gate.spent(t, 0); u != c.usage {
				t.Errorf("%s: settled %+v", c.path, u)
			}
		}
	}
}

// TestForeignStreamsHaveNoTotalLimit: only silence ends them.
func TestForeignStreamsHaveNoTotalLimit(t *testing.T) {
	up := newRaw(t, func(c net.Conn) {
		say(c, sseHead+messageStart(`"input_tokens":25`)+blockStart)
		for range 10 {
			time.Sleep(50 * time.Millisecond)
			say(c, textDelta)
		}
		say(c, messageDelta(`"output_tokens":15`)+messageStop)
	})
	cfg := claude(up.url)
	cfg.Upstream.FirstByteTimeout, cfg.Upstream.IdleTimeout = 200*time.Millisecond, 200*time.Millisecond
	r := newRig(t, cfg, nil)
	if a := r.post("/v1/chat/completions", askedChat); strings.Count(a.body, "🚀") != 10 || !strings.HasSuffix(a.body, "data: [DONE]\n\n") {
		t.Errorf("%s", a.body)
	}
}
