package proxy

import (
	"strings"
	"testing"

	"sluice/limiter"
)

func TestUsageFinder(t *testing.T) {
	for _, c := range []struct {
		name, body string
		known      bool
		want       limiter.Usage
	}{
		{"chat", `{"id":"x","usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}}`, true, limiter.Usage{Input: 10, Output: 20}},
		{"cached", `{"usage":{"prompt_tokens":10007,"completion_tokens":20,"prompt_tokens_details":{"audio_tokens":0,"cached_tokens":9000}},"id":1}`, true, limiter.Usage{Input: 10007, Output: 20, Cached: 9000}},
		{"embedding", `{"data":[{"embedding":[0.1,-2e3]}],"usage":{"prompt_tokens":7,"total_tokens":7}}`, true, limiter.Usage{Input: 7}},
		{"only a total", `{"usage":{"total_tokens":7}}`, true, limiter.Usage{Input: 7}},
		{"zero is a figure", `{"usage":{"prompt_tokens":0,"completion_tokens":0}}`, true, limiter.Usage{}},
		{"null", `{"usage":null}`, false, limiter.Usage{}},
		{"absent", `{"id":"usage"}`, false, limiter.Usage{}},
		{"below the top", `{"x":{"usage":{"prompt_tokens":1}},"y":[{"usage":{"prompt_tokens":1}}]}`, false, limiter.Usage{}},
		{"inside a string", `{"x":"\"usage\":{\"prompt_tokens\":1}"}`, false, limiter.Usage{}},
		{"braces inside strings", `{"x":"}]{\\","usage":{"a":"}","prompt_tokens":3}}`, true, limiter.Usage{Input: 3}},
		{"hostile numbers", `{"usage":{"prompt_tokens":-5,"completion_tokens":1e300,"prompt_tokens_details":{"cached_tokens":99}}}`, true, limiter.Usage{Output: 1 << 40}},
		{"more cached than there is", `{"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":99}}}`, true, limiter.Usage{Input: 5, Cached: 5}},
		{"array", `[{"usage":{"prompt_tokens":1}}]`, false, limiter.Usage{}},
		{"no JSON", `<html>"usage":{"prompt_tokens":1}`, false, limiter.Usage{}},
		{"long key", `{"` + strings.Repeat("usage", 1000) + `":1,"usage":{"prompt_tokens":2}}`, true, limiter.Usage{Input: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for size := 1; size <= len(c.body); size++ {
				var f usageFinder
				for rest := c.body; rest != ""; {
					n := min(size, len(rest))
					_, _ = f.Write([]byte(rest[:n]))
					rest = rest[n:]
				}
				if f.usage.known != c.known || f.usage.tokens() != c.want {
					t.Fatalf("by %d bytes: %+v, want %+v", size, f.usage, c.want)
				}
				if size > 70 {
					size += 50
				}
			}
		})
	}
}

func TestUsageMergeKeepsTheLastFigure(t *testing.T) {
	var u usage
	for _, raw := range []string{`{"prompt_tokens":1,"completion_tokens":1}`, `null`, `{"prompt_tokens":1,"completion_tokens":100}`, `null`, `"x"`, `{}`} {
		u.merge([]byte(raw))
	}
	if got := u.tokens(); got != (limiter.Usage{Input: 1, Output: 100}) {
		t.Errorf("got %+v", got)
	}
}

func TestInspect(t *testing.T) {
	for _, c := range []struct {
		name, data string
		check      func(chunk) bool
	}{
		{"done", "[DONE]", func(c chunk) bool { return c.done && !c.json }},
		{"done with blanks", " [DONE] ", func(c chunk) bool { return c.done }},
		{"usage only", `{"choices":[ ],"usage":{"prompt_tokens":1}}`, func(c chunk) bool { return c.usageOnly() }},
		{"no choices and null usage is something else", `{"choices":[],"usage":null,"prompt_filter_results":[]}`, func(c chunk) bool { return !c.usageOnly() }},
		{"finish", `{"choices":[{"index":0,"delta":{},"finish_reason": "stop"}]}`, func(c chunk) bool { return c.finish && c.tokens() == 1 }},
		{"no finish", `{"choices":[{"finish_reason":null,"delta":{"content":"\"finish_reason\":\"stop\""}}]}`, func(c chunk) bool { return !c.finish }},
		{"error", `{"error":{"message":"x"}}`, func(c chunk) bool { return c.failed }},
		{"null error", `{"error":null,"choices":[]}`, func(c chunk) bool { return !c.failed }},
		{"cut", `{"choi`, func(c chunk) bool { return !c.json && !c.done }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := inspect([]byte(c.data)); !c.check(got) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestWithoutUsageCutsOneMember(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"last", "data: {\"a\":1, \"usage\" : null}\n\n", "data: {\"a\":1}\n\n"},
		{"middle", "data: {\"a\":1,\"usage\":null, \"b\":2}\n\n", "data: {\"a\":1, \"b\":2}\n\n"},
		{"first", "data:{\"usage\":null, \"b\":2}\r\n\r\n", "data:{\"b\":2}\r\n\r\n"},
		{"only", "data: { \"usage\":null }\n\n", "data: {  }\n\n"},
		{"with other fields", "id: 1\ndata: {\"a\":\"usage\",\"usage\":null}\n\n", "id: 1\ndata: {\"a\":\"usage\"}\n\n"},
		{"several lines", "id: 1\ndata: {\"a\":1,\ndata: \"usage\":null}\n\n", "id: 1\ndata: {\"a\":1}\n\n"},
		{"BOM", "\ufeffdata: {\"usage\":null}\n\n", "\ufeffdata: {}\n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := append(make([]byte, 0, 500), c.raw...)
			data, lines := eventData(raw, nil)
			ch := inspect(data)
			if got := string(ch.withoutUsage(nil, raw, data, lines)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzUsageFinder(f *testing.F) {
	f.Add([]byte(`{"a":[{"usage":1}],"usage":{"prompt_tokens":3},"b":"\\\""}`), 3)
	f.Add([]byte(`{"usage":{"prompt_tokens":1},"usage":{"completion_tokens":2}}`), 1)
	f.Fuzz(func(t *testing.T, body []byte, size int) {
		size = max(1, size%32)
		var want usage
		m := newMembers(body)
		for m.next() {
			if string(m.key) == "usage" {
				want.merge(m.value())
			}
		}
		if m.err != nil {
			return // what is found in broken JSON is anybody's guess
		}
		var got usageFinder
		for rest := body; len(rest) > 0; {
			n := min(size, len(rest))
			_, _ = got.Write(rest[:n])
			rest = rest[n:]
		}
		if got.usage != want {
			t.Fatalf("%q by %d bytes: %+v, want %+v", body, size, got.usage, want)
		}
	})
}

// TestFiguresOfTheOtherDialectAreNotAdded: gateways that imitate OpenAI repeat
// Anthropic's cache figures beside prompt_tokens, which hold them already.
func TestFiguresOfTheOtherDialectAreNotAdded(t *testing.T) {
	u := newUsage(openAIProtocol)
	u.merge([]byte(`{"prompt_tokens":100,"completion_tokens":5,"cache_read_input_tokens":90,"cache_creation_input_tokens":10}`))
	if got := u.tokens(); got != (limiter.Usage{Input: 100, Output: 5}) {
		t.Errorf("%+v", got)
	}
}
