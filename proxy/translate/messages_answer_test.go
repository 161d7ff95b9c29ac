package translate

import (
	"encoding/json"
	"strings"
	"testing"
)

// msgChat returns a chat completion with the message and the end of a choice.
func msgChat(message, finish string) string {
	return `{"id":"chatcmpl-A1","object":"chat.completion","created":1,"model":"up","choices":[{"index":0,"message":{"role":"assistant",` +
		message + `},"finish_reason":` + finish + `}],"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13}}`
}

func TestMessagesAnswer(t *testing.T) {
	const text = `{"type":"text","text":"hi"}`
	for _, c := range []struct{ name, message, finish, content, stop string }{
		{"text", `"content":"hi"`, `"stop"`, text, "end_turn"},
		{"text keeps its bytes", `"content":"\u2028<é\ud83d\/"`, `"stop"`, `{"type":"text","text":"\u2028<é\ud83d\/"}`, "end_turn"},
		{"text in parts", `"content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]`, `"stop"`, text, "end_turn"},
		{"cut", `"content":"hi"`, `"length"`, text, "max_tokens"},
		{"filtered", `"content":"hi"`, `"content_filter"`, text, "refusal"},
		{"refused", `"content":null,"refusal":"no"`, `"stop"`, `{"type":"text","text":"no"}`, "refusal"},
		{"nothing said", `"content":""`, `"stop"`, ``, "end_turn"},
		{"no finish_reason", `"content":"hi"`, `null`, text, "end_turn"},
		{"a strange finish_reason", `"content":"hi"`, `"eos"`, text, "end_turn"},
		{"nulls all over", `"content":"hi","refusal":null,"tool_calls":null,"function_call":null,"reasoning_content":null`, `"stop"`, text, "end_turn"},
		{"thoughts", `"reasoning_content":"t","content":"hi"`, `"stop"`, `{"type":"thinking","thinking":"t","signature":""},` + text, "end_turn"},
		{"thoughts under both names", `"reasoning":"t","reasoning_content":"t","content":"hi"`, `"stop"`, `{"type":"thinking","thinking":"t","signature":""},` + text, "end_turn"},
		{"thoughts under the other name", `"reasoning":"t","content":"hi"`, `"stop"`, `{"type":"thinking","thinking":"t","signature":""},` + text, "end_turn"},
		{"a call", `"content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\": 1.0,\"z\":\"\\u2028\\ud83d \\\"\\\\\"}"}}]`, `"tool_calls"`,
			`{"type":"tool_use","id":"call_1","name":"f","input":{"a":1.0,"z":"\u2028\ud83d \"\\"}}`, "tool_use"},
		{"half a surrogate, escaped once", `"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":\"\ud83d\ud83d\ude00\"}"}}]`, `"tool_calls"`,
			`{"type":"tool_use","id":"c","name":"f","input":{"a":"\ud83d😀"}}`, "tool_use"},
		{"text and calls", `"content":"hi","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}},{"id":"c2","function":{"name":"g","arguments":""}}]`, `"tool_calls"`,
			text + `,{"type":"tool_use","id":"c1","name":"f","input":{}},{"type":"tool_use","id":"c2","name":"g","input":{}}`, "tool_use"},
		{"a forced call ends with stop", `"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}}]`, `"stop"`, `{"type":"tool_use","id":"c1","name":"f","input":{}}`, "tool_use"},
		{"calls promised and none there", `"content":"hi","tool_calls":[]`, `"tool_calls"`, text, "end_turn"},
		{"a call of the older kind", `"content":null,"function_call":{"name":"f","arguments":"{}"}`, `"function_call"`, `{"type":"tool_use","id":"toolu_A1_0","name":"f","input":{}}`, "tool_use"},
		{"a call without id", `"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]`, `"tool_calls"`, `{"type":"tool_use","id":"toolu_A1_0","name":"f","input":{}}`, "tool_use"},
		{"arguments that are no JSON", `"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":"}}]`, `"length"`, `{"type":"tool_use","id":"c","name":"f","input":{"invalid_json":"{\"a\":"}}`, "max_tokens"},
		{"arguments that are no object", `"tool_calls":[{"id":"c","function":{"name":"f","arguments":"[1]"}}]`, `"tool_calls"`, `{"type":"tool_use","id":"c","name":"f","input":{"invalid_json":"[1]"}}`, "tool_use"},
		{"arguments as an object", `"tool_calls":[{"id":"c","function":{"name":"f","arguments":{"a": 1}}}]`, `"tool_calls"`, `{"type":"tool_use","id":"c","name":"f","input":{"a":1}}`, "tool_use"},
		{"null for arguments", `"tool_calls":[{"id":"c","function":{"name":"f","arguments":"null"}}]`, `"tool_calls"`, `{"type":"tool_use","id":"c","name":"f","input":{}}`, "tool_use"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := MessagesAnswer([]byte(msgChat(c.message, c.finish)), "claude-x")
			want := `{"id":"msg_A1","type":"message","role":"assistant","model":"claude-x","content":[` + c.content + `],"stop_reason":"` + c.stop +
				`","stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":3}}`
			if err != nil || string(got) != want {
				t.Errorf("\n got %s, %v\nwant %s", got, err, want)
			}
		})
	}
}

func TestMessagesAnswerNamesTheStopSequenceWhereTheServerDoes(t *testing.T) {
	for _, c := range []struct{ finish, want string }{
		{`"stop","stop_reason":"\u003e"`, `"stop_reason":"stop_sequence","stop_sequence":"\u003e"`},
		{`"stop","matched_stop":"END"`, `"stop_reason":"stop_sequence","stop_sequence":"END"`},
		{`"stop","stop_reason":128009`, `"stop_reason":"end_turn","stop_sequence":null`},
		{`"stop","stop_reason":null`, `"stop_reason":"end_turn","stop_sequence":null`},
	} {
		got, err := MessagesAnswer([]byte(msgChat(`"content":"x"`, c.finish)), "m")
		if err != nil || !strings.Contains(string(got), c.want) {
			t.Errorf("%s: got %s, %v", c.finish, got, err)
		}
	}
}

func TestMessagesAnswerUsage(t *testing.T) {
	for _, c := range []struct {
		name, usage             string
		input, cached, answered int64
	}{
		{"cached tokens are counted once", `{"prompt_tokens":10007,"prompt_tokens_details":{"cached_tokens":9000},"completion_tokens":20}`, 1007, 9000, 20},
		{"no details", `{"prompt_tokens":5,"prompt_tokens_details":null,"completion_tokens":2}`, 5, 0, 2},
		{"more cached than there was", `{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":9},"completion_tokens":2}`, 0, 5, 2},
		{"none", `null`, 0, 0, 0},
		{"nonsense", `{"prompt_tokens":-1,"completion_tokens":1e300}`, 0, 0, 1 << 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := MessagesAnswer([]byte(`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":`+c.usage+`}`), "m")
			if err != nil {
				t.Fatal(err)
			}
			var a struct {
				ID    string
				Usage map[string]int64
			}
			if err := json.Unmarshal(got, &a); err != nil {
				t.Fatal(err)
			}
			u := a.Usage
			if u["input_tokens"] != c.input || u["cache_read_input_tokens"] != c.cached || u["output_tokens"] != c.answered || u["cache_creation_input_tokens"] != 0 {
				t.Errorf("got %v", u)
			}
			if !strings.HasPrefix(a.ID, "msg_") || len(a.ID) != 4+24 {
				t.Errorf("id %q", a.ID)
			}
		})
	}
}

func TestMessagesAnswerOfSomethingElse(t *testing.T) {
	for _, in := range []string{``, `x`, `[]`, `{}`, `{"error":{"message":"x"}}`, `{"choices":[]}`, `{"choices":[{}]}`, `{"choices":[{"message":null}]}`, `{"choices":{"message":{}}}`} {
		if got, err := MessagesAnswer([]byte(in), "m"); err == nil {
			t.Errorf("%s translated to %s", in, got)
		}
	}
}

func TestMessagesError(t *testing.T) {
	const over = `{"error":{"message":"Over \u003c é","type":"requests","param":null,"code":null}}`
	for _, c := range []struct {
		name    string
		status  int
		body    string
		want    int
		kind    string
		message string
	}{
		{"bad request", 400, over, 400, "invalid_request_error", `Over \u003c é`},
		{"unprocessable", 422, `{"detail":"bad"}`, 422, "invalid_request_error", "bad"},
		{"too large", 413, over, 413, "request_too_large", `Over \u003c é`},
		{"unknown model", 404, `{"error":{"message":"no model"}}`, 404, "api_error", "no model"},
		{"too many", 429, over, 429, "rate_limit_error", `Over \u003c é`},
		{"broken", 500, over, 500, "api_error", `Over \u003c é`},
		{"unavailable", 503, `Service Unavailable`, 503, "overloaded_error", "The upstream answered with status 503."},
		{"overloaded", 529, ``, 529, "overloaded_error", "The upstream answered with status 529."},
		{"too slow", 504, `<html>`, 504, "timeout_error", "The upstream answered with status 504."},
		{"no error at all", 200, `{}`, 502, "api_error", "The upstream answered with status 502."},
		{"error as a string", 400, `{"error":"bad"}`, 400, "invalid_request_error", "bad"},
		{"vLLM's older form", 400, `{"object":"error","message":"bad","code":400}`, 400, "invalid_request_error", "bad"},
		{"a validator's form", 422, `{"detail":[{"msg":"x"}]}`, 422, "invalid_request_error", "The upstream answered with status 422."},
		{"the gateway's key", 401, `{"error":{"message":"Incorrect API key provided: sk-secret"}}`, 502, "api_error", "The upstream refused the gateway's own credentials or account; tell the gateway's operator."},
		{"the gateway's rights", 403, `{"error":{"message":"Project proj_secret"}}`, 502, "api_error", "The upstream refused the gateway's own credentials or account; tell the gateway's operator."},
		{"grown too long", 400, `{"error":{"message":"Reduce it.","code":"context_length_exceeded"}}`, 400, "invalid_request_error", "prompt is too long: Reduce it."},
		{"grown too long, by words", 400, `{"error":{"message":"This model's maximum context length is 8192 tokens."}}`, 400, "invalid_request_error", "prompt is too long: This model's maximum context length is 8192 tokens."},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, got := MessagesError(c.status, []byte(c.body))
			want := `{"type":"error","error":{"type":"` + c.kind + `","message":"` + c.message + `"}}`
			if status != c.want || string(got) != want {
				t.Errorf("\n got %d %s\nwant %d %s", status, got, c.want, want)
			}
		})
	}
}

func TestMessagesInputEstimate(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     int64
	}{
		{"one message of eight bytes", `{"messages":[{"role":"user","content":"12345678"}]}`, 4 + 2},
		{"escapes count by what they say", `{"messages":[{"role":"user","content":"\"\n\\/\/\u00e9x"}]}`, 4 + 2},
		{"nothing", `{"messages":[]}`, 1},
		{"system in blocks", `{"system":[{"type":"text","text":"1234"}],"messages":[]}`, 1},
		{"an image counts by itself", `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAAAAAA"}}]}]}`, 4 + 1600},
		{"a PDF by its size", `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","data":"` + strings.Repeat("A", 90000) + `"}}]}]}`, 4 + 2*2000},
		{"a text document", `{"messages":[{"role":"user","content":[{"type":"document","title":"1234","source":{"type":"text","data":"1234"}}]}]}`, 4 + 2},
		{"a call and its result", `{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{"a":12}}]},{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"1234567"}]}]}]}`, 2*4 + 4},
		{"thoughts do not count", `{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"1234"}]}]}`, 4},
		{"tools", `{"messages":[],"tools":[{"name":"f","description":"ab","input_schema":{"a":1}}]}`, 4 + 3},
		{"a block unknown counts by its text", `{"messages":[{"role":"user","content":[{"type":"new","text":"1234"}]}]}`, 4 + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := MessagesInputEstimate([]byte(c.in)); err != nil || got != c.want {
				t.Errorf("got %d, %v; want %d", got, err, c.want)
			}
		})
	}
	for _, in := range []string{``, `x`, `[]`, `{}`, `{"messages":"x"}`} {
		if got, err := MessagesInputEstimate([]byte(in)); err == nil {
			t.Errorf("%q estimated as %d", in, got)
		}
	}
}

func FuzzMessagesAnswer(f *testing.F) {
	f.Add([]byte(msgChat(`"content":"hi"`, `"stop"`)), 200)
	f.Add([]byte(msgChat(`"reasoning":"t","content":[{"text":"a"}],"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":\"\\ud83d\ud83d\"}"}}]`, `"tool_calls","stop_reason":"x"`)), 401)
	f.Add([]byte(`{"error":{"message":"m","code":"context_length_exceeded"}}`), 400)
	f.Fuzz(func(t *testing.T, body []byte, status int) {
		if _, envelope := MessagesError(status, body); !json.Valid(envelope) {
			t.Fatalf("error %s", envelope)
		}
		got, err := MessagesAnswer(body, "m")
		if err != nil {
			return
		}
		var a struct {
			ID, Type, Role string
			Content        []struct {
				Type  string
				Input json.RawMessage
			}
			StopReason string `json:"stop_reason"`
			Usage      map[string]int64
		}
		if err := json.Unmarshal(got, &a); err != nil || a.ID == "" || a.Type != "message" || a.Content == nil || a.StopReason == "" || a.Usage == nil {
			t.Fatalf("%v: %s", err, got)
		}
		for _, b := range a.Content {
			if b.Type == "tool_use" && (len(b.Input) == 0 || b.Input[0] != '{') {
				t.Fatalf("input %s", b.Input)
			}
		}
	})
}
