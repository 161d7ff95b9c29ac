package translate

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestChatAnswers(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{ // want is a part of the answer
		{"text", `{"type":"message","content":[{"type":"text","text":"a"}]}`, `"message":{"role":"assistant","content":"a","refusal":null},"logprobs":null,"finish_reason":"stop"}]}`},
		{"white space around it", " {\"type\":\"message\",\"content\":[]}\n", `"content":null`},
		{"empty text", `{"type":"message","content":[{"type":"text","text":""}]}`, `"content":""`},
		{"calls alone", `{"type":"message","content":[{"type":"text","text":""},{"type":"tool_use","id":"1","name":"f","input":{}}],"stop_reason":"tool_use"}`, `"content":null,"refusal":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"`},
		{"control characters", "{\"type\":\"message\",\"content\":[{\"type\":\"tool_use\",\"id\":\"1\",\"name\":\"f\",\"input\":{\n\t\"a\": \"\\n\\\\\"\n}}]}", `"arguments":"{\"a\":\"\\n\\\\\"}"`},
		{"omitted thinking", `{"type":"message","content":[{"type":"thinking","thinking":"","signature":"s"}]}`, `"thinking_blocks":[{"type":"thinking","thinking":"","signature":"s"}]`},
		{"length", `{"type":"message","content":[],"stop_reason":"max_tokens"}`, `"finish_reason":"length"`},
		{"context full", `{"type":"message","content":[],"stop_reason":"model_context_window_exceeded"}`, `"finish_reason":"length"`},
		{"refusal", `{"type":"message","content":[],"stop_reason":"refusal"}`, `"finish_reason":"content_filter"`},
		{"pause", `{"type":"message","content":[],"stop_reason":"pause_turn"}`, `"finish_reason":"stop"`},
		{"stop sequence", `{"type":"message","content":[],"stop_reason":"stop_sequence"}`, `"finish_reason":"stop"`},
		{"usage in parts", `{"type":"message","content":[],"usage":{"input_tokens":25,"cache_read_input_tokens":null,"output_tokens":15}}`, `"usage":{"prompt_tokens":25,"completion_tokens":15,"total_tokens":40,"prompt_tokens_details":{"cached_tokens":0}}`},
		{"hostile usage", `{"type":"message","content":[],"usage":{"input_tokens":1e300,"output_tokens":-5}}`, `"prompt_tokens":1099511627776,"completion_tokens":0,"total_tokens":1099511627776`},
		{"no usage", `{"type":"message","content":[],"usage":null}`, `"finish_reason":"stop"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := ChatAnswer([]byte(c.body), "m", 1)
			if err != nil {
				t.Fatal(err)
			}
			if !json.Valid(out) || !strings.Contains(string(out), c.want) {
				t.Errorf("got  %s\nwant %s", out, c.want)
			}
		})
	}
	for _, body := range []string{``, `{`, `[]`, `{"type":"error","error":{}}`, `{"type":"message"}`, `{"type":"message","content":[1]}`, `{"type":"message","content":[{"type":"tool_use"}]}`} {
		if out, err := ChatAnswer([]byte(body), "m", 1); !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: got %s, %v", body, out, err)
		}
	}
}

func TestChatErrors(t *testing.T) {
	for _, c := range []struct {
		name         string
		status, want int
		body, wire   string
	}{
		{"message as it came", 400, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: \u003e x"},"request_id":"r"}`,
			`{"error":{"message":"max_tokens: \u003e x","type":"invalid_request_error","param":null,"code":"400"}}`},
		{"prompt too long", 400, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 > 1"}}`,
			`{"error":{"message":"prompt is too long: 2 > 1","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}}`},
		{"overloaded", 529, 503, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
			`{"error":{"message":"Overloaded","type":"overloaded_error","param":null,"code":"503"}}`},
		{"no JSON", 502, 502, `<html>secret</html>`, `{"error":{"message":"The upstream answered with status 502.","type":"api_error","param":null,"code":"502"}}`},
		{"nothing", 500, 500, ``, `{"error":{"message":"The upstream answered with status 500.","type":"api_error","param":null,"code":"500"}}`},
		{"other types", 429, 429, `{"error":{"type":5,"message":["x"]}}`, `{"error":{"message":"The upstream answered with status 429.","type":"api_error","param":null,"code":"429"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out := ChatError(c.status, []byte(c.body))
			if status != c.want || string(out) != c.wire {
				t.Errorf("got  %d %s\nwant %d %s", status, out, c.want, c.wire)
			}
		})
	}
}
