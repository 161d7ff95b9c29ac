package translate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// feed sends events, given as their data, and returns all that came out.
func feed(t testing.TB, usage bool, events ...string) (out string, ok bool, err error) {
	t.Helper()
	s := NewChatStream("m", 1, usage)
	var dst []byte
	for _, e := range events {
		if dst, err = s.Event(dst, "", []byte(e)); err != nil {
			break
		}
	}
	dst, ok = s.End(dst)
	return string(dst), ok, err
}

const (
	begin = `{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":25,"output_tokens":1}}}`
	end   = `{"type":"message_stop"}`
)

func TestChatStreams(t *testing.T) {
	tool := func(input string) string {
		return `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":` + input + `}}`
	}
	piece := func(p string) string {
		return `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"` + p + `"}}`
	}
	for _, c := range []struct {
		name   string
		events []string
		want   said
	}{
		{"nothing said", []string{begin, end}, said{finish: "stop"}},
		{"text that a block begins with", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ud83d"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}`, end}, said{content: "a\uFFFDb", finish: "length"}},
		{"a call without arguments", []string{begin, tool(`{}`), piece(``), end}, said{finish: "stop", calls: []string{"t", "f", "{}"}}},
		{"a call that has them at once", []string{begin, tool(`{"a": 1.0}`), `{"type":"content_block_stop","index":0}`, end}, said{finish: "stop", calls: []string{"t", "f", `{"a":1.0}`}}},
		{"a call in pieces cut inside an escape", []string{begin, tool(`{}`), piece(`{\"a\":\"\\u00`), piece(`e9\"}`), `{"type":"content_block_stop","index":0}`, end}, said{finish: "stop", calls: []string{"t", "f", `{"a":"\u00e9"}`}}},
		{"two calls at once", []string{begin, tool(`{}`), strings.Replace(tool(`{}`), `"index":0`, `"index":7`, 1), piece(`{}`),
			strings.Replace(piece(`{\"b\":2}`), `"index":0`, `"index":7`, 1), `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, end},
			said{finish: "tool_calls", calls: []string{"t", "f", "{}", "t", "f", `{"b":2}`}}},
		{"pings, unknown events and what comes too late", []string{`{"type":"ping"}`, begin, `{"type":"new_event"}`, "", " [DONE] ", end, end, tool(`{}`), "rubbish"}, said{finish: "stop"}},
		{"no message_start", []string{end}, said{finish: "stop", id: "chatcmpl-"}},
		{"unsigned thinking", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"a"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"b"}}`, end}, said{finish: "stop", reasoning: "ab"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, ok, err := feed(t, false, c.events...)
			if err != nil || !ok {
				t.Fatalf("ok=%v, %v", ok, err)
			}
			if c.want.id == "" {
				c.want.id = "chatcmpl-msg_1"
			}
			if got := assemble(t, out); got.String() != c.want.String() {
				t.Errorf("got  %s\nwant %s\n%s", got, c.want, out)
			}
			if strings.Contains(out, "usage") {
				t.Errorf("usage that nobody asked for: %s", out)
			}
		})
	}
}

func TestUsageOfStreams(t *testing.T) {
	delta := func(u string) string { return `{"type":"message_delta","delta":{},"usage":` + u + `}` }
	for _, c := range []struct {
		name   string
		deltas []string
		want   string
	}{
		{"split", []string{delta(`{"output_tokens":15}`)}, `{"prompt_tokens":25,"completion_tokens":15,"total_tokens":40,"prompt_tokens_details":{"cached_tokens":0}}`},
		{"repeated", []string{delta(`{"input_tokens":25,"cache_read_input_tokens":1000,"output_tokens":15}`)}, `{"prompt_tokens":1025,"completion_tokens":15,"total_tokens":1040,"prompt_tokens_details":{"cached_tokens":1000}}`},
		{"cumulative, null, zero", []string{delta(`{"output_tokens":7}`), delta(`{"output_tokens":15,"input_tokens":null}`), delta(`null`), delta(`{"input_tokens":0}`)}, `{"prompt_tokens":25,"completion_tokens":15,"total_tokens":40,"prompt_tokens_details":{"cached_tokens":0}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, _, err := feed(t, true, append(append([]string{begin}, c.deltas...), end)...)
			if err != nil {
				t.Fatal(err)
			}
			if got := assemble(t, out); got.usage != c.want {
				t.Errorf("got  %s\nwant %s", got.usage, c.want)
			}
		})
	}
}

func TestStreamsThatDoNotEndWell(t *testing.T) {
	for _, c := range []struct {
		name         string
		events       []string
		ok, err, bad bool // bad: the client was told an error
	}{
		{name: "nothing came"},
		{name: "cut before message_stop", events: []string{begin, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`}},
		{name: "error event", events: []string{begin, `{"type":"error","error":{"type":"overloaded_error","message":"Over\u006coaded"}}`, end}, ok: true, bad: true},
		{name: "error event first", events: []string{`{"type":"error"}`}, ok: true, bad: true},
		{name: "not JSON", events: []string{begin, `{"type":"content_blo`}, err: true},
		{name: "delta of nothing", events: []string{begin, `{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"a"}}`}, err: true},
		{name: "nameless call", events: []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t"}}`}, err: true},
		{name: "block twice", events: []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"text"}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"text"}}`}, err: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, ok, err := feed(t, true, c.events...)
			if ok != c.ok || (err != nil) != c.err || err != nil && !errors.Is(err, ErrAnswer) {
				t.Errorf("ok=%v err=%v, want %v, %v", ok, err, c.ok, c.err)
			}
			if s, done, failed := reading(t, out); done || failed != c.bad || s.finish != "" {
				t.Errorf("done=%v failed=%v finish=%q: %s", done, failed, s.finish, out)
			}
		})
	}
	out, _, _ := feed(t, false, begin, `{"type":"error","error":{"type":"overloaded_error","message":"Over\u006coaded"}}`)
	if want := `data: {"error":{"message":"Over\u006coaded","type":"overloaded_error","param":null,"code":"503"}}` + "\n\n"; !strings.HasSuffix(out, want) {
		t.Errorf("got %s, want %s", out, want)
	}
}

func TestOpenBlocksAreBounded(t *testing.T) {
	s := NewChatStream("m", 1, false)
	for i := range maxBlocks + 1 {
		_, err := s.Event(nil, "", fmt.Appendf(nil, `{"type":"content_block_start","index":%d,"content_block":{"type":"text"}}`, i))
		if (err != nil) != (i == maxBlocks) {
			t.Fatalf("block %d: %v", i, err)
		}
	}
}

func TestEventNameStandsInForTheType(t *testing.T) {
	s := NewChatStream("m", 1, false)
	out, err := s.Event(nil, "message_stop", []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if out, ok := s.End(out); !ok || assemble(t, string(out)).finish != "stop" {
		t.Errorf("ok=%v: %s", ok, out)
	}
}

// A block of thinking beyond what is kept is shown, but not handed out whole:
// cut short, its signature would not fit.
func TestLongThinkingIsNotKept(t *testing.T) {
	s := NewChatStream("m", 1, false)
	event := func(e string) {
		if _, err := s.Event(nil, "", []byte(e)); err != nil {
			t.Fatal(err)
		}
	}
	event(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking"}}`)
	for range 5 {
		event(`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"` + strings.Repeat("x", maxThinking/4) + `"}}`)
	}
	event(`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}`)
	if n := cap(s.blocks[0].thinking); n != 0 {
		t.Errorf("%d bytes are kept", n)
	}
	out, err := s.Event(nil, "", []byte(`{"type":"content_block_stop","index":0}`))
	if err != nil || len(out) > 0 {
		t.Errorf("%.80s, %v", out, err)
	}
}

func TestDeltasDoNotAllocate(t *testing.T) {
	s := NewChatStream("m", 1, true)
	dst := make([]byte, 0, 4096)
	for _, e := range []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`} {
		if _, err := s.Event(dst, "", []byte(e)); err != nil {
			t.Fatal(err)
		}
	}
	delta := []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\u00e9 and some words"}}`)
	if n := testing.AllocsPerRun(100, func() { _, _ = s.Event(dst[:0], "content_block_delta", delta) }); n > 2 {
		t.Errorf("%v allocations for each delta", n)
	}
}

func BenchmarkChatStreamDelta(b *testing.B) {
	s := NewChatStream("m", 1, true)
	dst, _ := s.Event(nil, "", []byte(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`))
	delta := []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\u00e9 and some words"}}`)
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = s.Event(dst[:0], "content_block_delta", delta)
	}
}

func BenchmarkChatRequest(b *testing.B) {
	body := []byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"` + strings.Repeat("some words ", 100_000) + `"}]}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ChatRequest(body, "m", Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
