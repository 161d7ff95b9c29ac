package proxy

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

func messageEvent(name, rest string) string {
	return "event: " + name + "\ndata: {\"type\":\"" + name + "\"" + rest + "}\n\n"
}

func messageStart(usage string) string {
	return messageEvent("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"served","content":[],"stop_reason":null,"usage":{`+usage+`}}`)
}

func messageDelta(usage string) string {
	return messageEvent("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{`+usage+`}`)
}

var (
	blockStart  = messageEvent("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	textDelta   = messageEvent("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"日本 🚀"}`)
	blockStop   = messageEvent("content_block_stop", `,"index":0`)
	messagePing = messageEvent("ping", "")
	messageStop = messageEvent("message_stop", "")
)

// messageEvents is a stream with the given figures at its start and its end.
func messageEvents(start, end string) string {
	return messageStart(start) + blockStart + messagePing + textDelta + blockStop + messageDelta(end) + messageStop
}

// jsonDelta is an event with n bytes of a tool's input.
func jsonDelta(n int) string {
	return messageEvent("content_block_delta", `,"index":0,"delta":{"type":"input_json_delta","partial_json":"`+strings.Repeat("x", n)+`"}`)
}

func messageCases() []streamCase {
	toolCalls := messageStart(`"input_tokens":25,"output_tokens":1`) +
		messageEvent("content_block_start", `,"index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"a","input":{}}`) +
		messageEvent("content_block_delta", `,"index":0,"delta":{"type":"input_json_delta","partial_json":""}`) +
		messageEvent("content_block_delta", `,"index":0,"delta":{"type":"input_json_delta","partial_json":"{\"q\":\"\\u65"}`) +
		messageEvent("content_block_delta", `,"index":0,"delta":{"type":"input_json_delta","partial_json":"e5\"}"}`) + blockStop +
		messageEvent("content_block_start", `,"index":1,"content_block":{"type":"tool_use","id":"toolu_2","name":"b","input":{}}`) +
		messageEvent("content_block_stop", `,"index":1`) + strings.Replace(messageDelta(`"output_tokens":15`), "end_turn", "tool_use", 1) + messageStop
	start := messageStart(`"input_tokens":25,"output_tokens":1`)
	end := limiter.Usage{Input: 25, Output: 15}
	big := func(n int) streamCase {
		return streamCase{fmt.Sprintf("an event of %d bytes", n), messageStream, start + jsonDelta(n) + messageDelta(`"output_tokens":15`) + messageStop, "", end}
	}
	cases := []streamCase{
		{"split", messageStream, messageEvents(`"input_tokens":25,"output_tokens":1`, `"output_tokens":15`), "", end},
		{"repeated", messageStream, messageEvents(`"input_tokens":25,"cache_read_input_tokens":1000,"output_tokens":1`, `"input_tokens":25,"cache_read_input_tokens":1000,"output_tokens":15`), "", limiter.Usage{Input: 1025, Output: 15, Cached: 1000}},
		{"only at the end", messageStream, messageEvents(`"input_tokens":0,"output_tokens":0`, `"input_tokens":25,"output_tokens":15`), "", end},
		{"zeros at the end", messageStream, messageEvents(`"input_tokens":25,"output_tokens":1`, `"input_tokens":0,"output_tokens":15`), "", end},
		{"two deltas", messageStream, start + textDelta + messageDelta(`"output_tokens":7`) + messageDelta(`"output_tokens":15`) + messageStop, "", end},
		{"null afterwards", messageStream, start + messageDelta(`"output_tokens":15`) + messageEvent("message_delta", `,"delta":{},"usage":null`) + messageStop, "", end},
		{"null parts", messageStream, messageEvents(`"input_tokens":25,"cache_creation_input_tokens":null,"output_tokens":1`, `"input_tokens":null,"output_tokens":15`), "", end},
		{"CRLF", messageStream, strings.ReplaceAll(messageEvents(`"input_tokens":25`, `"output_tokens":15`), "\n", "\r\n"), "", end},
		{"no space, no names", messageStream, strings.ReplaceAll(nameless(messageEvents(`"input_tokens":25`, `"output_tokens":15`)), "data: ", "data:"), "", end},
		{"comments and pings", messageStream, ": processing\n\n" + start + ": x\n" + messagePing + textDelta + messagePing + messageDelta(`"output_tokens":15`) + messageStop, "", end},
		{"unknown events", messageStream, start + messageEvent("from_the_future", `,"x":1`) + messageDelta(`"output_tokens":15`) + messageStop, "", end},
		{"tool calls", messageStream, toolCalls, "", end},
		{"last event without its blank line", messageStream, strings.TrimRight(messageEvents(`"input_tokens":25`, `"output_tokens":15`), "\n"), messageEvents(`"input_tokens":25`, `"output_tokens":15`), end},
		{"error of the upstream's own", messageStream, start + textDelta + messageEvent("error", `,"error":{"type":"overloaded_error","message":"Overloaded"}`), "", limiter.Usage{Input: 25, Output: 3}},
		{"no message_stop", messageStream, start + textDelta + messageDelta(`"output_tokens":15`), start + textDelta + messageDelta(`"output_tokens":15`) + "…", end},
		{"cut in an event", messageStream, start + textDelta + "event: content_block_delta\ndata: {\"ty", start + textDelta + "…", limiter.Usage{Input: 25, Output: 3}},
		{"null, then cut", messageStream, start + textDelta + messageEvent("message_delta", `,"delta":{},"usage":null`), start + textDelta + messageEvent("message_delta", `,"delta":{},"usage":null`) + "…", limiter.Usage{Input: 25, Output: 3}},
		{"zeros are figures", messageStream, messageEvents(`"input_tokens":0,"output_tokens":0`, `"output_tokens":0`), "", limiter.Usage{}},
	}
	return append(cases, big(70<<10), big(1500<<10), big(12<<20))
}

// nameless is a stream whose events have no names.
func nameless(stream string) string {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(stream, "\n") {
		if !strings.HasPrefix(line, "event:") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// checkMessages compares an answer with a case of a client of Anthropic's.
func (c *streamCase) checkMessages(t *testing.T, r *rig, a answer) {
	t.Helper()
	want, failed := strings.CutSuffix(c.want, "…")
	if c.want == "" {
		want = c.sent
	}
	got := a.body
	if failed {
		var event string
		got, event, _ = strings.Cut(a.body, "event: error\ndata: ")
		if !strings.HasPrefix(event, `{"type":"error","error":{"type":"api_error","message":"`) || !strings.HasSuffix(event, "}\n\n") {
			t.Errorf("error event %q", event)
		}
		if strings.Contains(a.body, "message_stop") {
			t.Error("a message_stop was forged")
		}
	}
	if got != want {
		t.Errorf("got  %.600q\nwant %.600q", got, want)
	}
	if u := r.gate.spent(t, 0); u != c.usage {
		t.Errorf("settled %+v, want %+v", u, c.usage)
	}
}

func TestMessageStreamsPassByteForByte(t *testing.T) {
	for _, c := range messageCases() {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, func(conn net.Conn) { say(conn, sseHead+c.sent) })
			r := newRig(t, claude(up.url), nil)
			c.checkMessages(t, r, r.post("/v1/messages", c.body))
		})
	}
}

func TestMessageStreamsInPiecesOfAnySize(t *testing.T) {
	for _, c := range messageCases() {
		if len(c.sent) > 60<<10 {
			continue
		}
		for _, size := range []int{1, 2, 3, 7, 64} {
			t.Run(fmt.Sprintf("%s by %d", c.name, size), func(t *testing.T) {
				r := newRig(t, claude("http://127.0.0.1:1"), nil)
				r.proxy.providers[fsm.ProviderAnthropic] = scripted{c.sent, size}
				r.proxy.table.Store(nil)
				c.checkMessages(t, r, r.post("/v1/messages", c.body))
			})
		}
	}
}

func TestBrokenMessageStreams(t *testing.T) {
	head := messageStart(`"input_tokens":25,"output_tokens":1`) + textDelta
	for _, c := range []struct {
		name   string
		script func(net.Conn)
		kind   string
	}{
		{"reset", func(c net.Conn) { say(c, sseHead+head); time.Sleep(20 * time.Millisecond); reset(c) }, "api_error"},
		{"chunked without its end", func(c net.Conn) {
			say(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"+chunkOf(head))
		}, "api_error"},
		{"silence", func(c net.Conn) { say(c, sseHead+head); closed(c) }, "timeout_error"},
		{"endless event", func(c net.Conn) {
			say(c, sseHead+head+"data: ")
			for range 40 {
				say(c, strings.Repeat("x", 64<<10))
			}
			closed(c)
		}, "api_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, c.script)
			cfg := claude(up.url)
			cfg.Upstream.IdleTimeout = 200 * time.Millisecond
			r := newRig(t, cfg, func(o *Options) { o.MaxEvent = 1 << 20 })
			a := r.post("/v1/messages", messageStream)
			event, ok := strings.CutPrefix(a.body, head)
			if !ok || !strings.HasPrefix(event, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\""+c.kind+"\"") || !strings.HasSuffix(event, "}\n\n") || a.err != nil {
				t.Errorf("%q, %v", a.body, a.err)
			}
			if u := r.gate.spent(t, 0); u != (limiter.Usage{Input: 25, Output: 3}) {
				t.Errorf("settled %+v", u)
			}
		})
	}
}

// TestClientLeavesAMessageStream: the input is what the upstream said, the
// output what it had produced.
func TestClientLeavesAMessageStream(t *testing.T) {
	for _, c := range []struct {
		name, path, body, sent string
		cfg                    func(string) fsm.Config
		want                   limiter.Usage
	}{
		{"native", "/v1/messages", messageStream, messageStart(`"input_tokens":25,"output_tokens":1`) + strings.Repeat(textDelta, 5), claude, limiter.Usage{Input: 25, Output: 15}},
		{"to a chat client", "/v1/chat/completions", askedChat, messageStart(`"input_tokens":25,"output_tokens":1`) + blockStart + strings.Repeat(textDelta, 5), claude, limiter.Usage{Input: 25, Output: 15}},
		{"from chat completions", "/v1/messages", messageStream, strings.Repeat(deltaBare, 5), one, limiter.Usage{Input: 32, Output: 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			gone := make(chan struct{})
			up := newRaw(t, func(conn net.Conn) {
				say(conn, sseHead+c.sent)
				closed(conn)
				close(gone)
			})
			r := newRig(t, c.cfg(up.url), nil)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			res := r.openAt(ctx, c.path, c.body)
			defer res.Body.Close()
			read := make([]byte, 0, 1<<16)
			for strings.Count(string(read), "🚀") < 5 {
				n, err := res.Body.Read(read[len(read):cap(read)])
				if read = read[:len(read)+n]; err != nil {
					t.Fatalf("%v after %q", err, read)
				}
			}
			cancel()
			select {
			case <-gone:
			case <-time.After(2 * time.Second):
				t.Fatal("the upstream goes on")
			}
			if u := r.gate.spent(t, 0); u != c.want {
				t.Errorf("settled %+v, want %+v", u, c.want)
			}
		})
	}
}
