package translate

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

const hello = `"messages":[{"role":"user","content":"hi"}]`

// base is what every request with the messages of hello begins with.
const base = `{"model":"claude-x","max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]`

func TestChatRequestFields(t *testing.T) {
	for _, c := range []struct {
		name, fields string
		want         string // behind base, without the last brace
	}{
		{"nothing", ``, ``},
		{"nulls are absent", `"temperature":null,"tools":null,"n":null,"audio":null,"user":null`, ``},
		{"what happens anyway", `"n":1,"logprobs":false,"top_logprobs":0,"logit_bias":{ },"frequency_penalty":0.0,"presence_penalty":-0,"store":false,"modalities":["text"],"verbosity":"medium","functions":[]`, ``},
		{"hints and what is for the gateway", `"seed":1,"prediction":{},"metadata":{"tags":["a"]},"fallbacks":["b"],"num_retries":2,"timeout":3,"cache":{},"prompt_cache_key":"k"`, ``},
		{"numbers as they came", `"temperature":7.0e-1,"top_p":0.90`, `,"temperature":7.0e-1,"top_p":0.90`},
		{"the defaults of both protocols", `"temperature":1.0,"top_p":1`, ``},
		{"one stop", `"stop":"\u0045ND"`, `,"stop_sequences":["\u0045ND"]`},
		{"stops", `"stop":["a","","\n b"]`, `,"stop_sequences":["a","\n b"]`},
		{"no stop", `"stop":[]`, ``},
		{"user wins over safety_identifier", `"safety_identifier":"s","user":"u"`, `,"metadata":{"user_id":"u"}`},
		{"safety_identifier", `"safety_identifier":"s"`, `,"metadata":{"user_id":"s"}`},
		{"tier auto", `"service_tier":"auto"`, `,"service_tier":"auto"`},
		{"tier default", `"service_tier":"default"`, `,"service_tier":"standard_only"`},
		{"stream", `"stream":true,"stream_options":{"include_usage":true}`, `,"stream":true`},
		{"Anthropic's own", `"top_k":5,"thinking":{"type": "adaptive"},"cache_control":{"type":"ephemeral"}`, `,"top_k":5,"thinking":{"type": "adaptive"},"cache_control":{"type":"ephemeral"}`},
		{"an escaped name", `"\u0074op_k":5`, `,"top_k":5`},
		{"text", `"response_format":{"type":"text"}`, ``},
		{"json_schema", `"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object", "x":1.0}}}`,
			`,"output_config":{"format":{"type":"json_schema","schema":{"type":"object", "x":1.0}}}`},
		{"schema and effort", `"reasoning_effort":"high","response_format":{"type":"json_schema","json_schema":{"schema":{}}}`,
			`,"thinking":{"type":"adaptive"},"output_config":{"effort":"high","format":{"type":"json_schema","schema":{}}}`},
		{"least effort", `"reasoning_effort":"minimal"`, `,"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}`},
		{"no effort", `"reasoning_effort":"none"`, `,"thinking":{"type":"disabled"}`},
		{"effort and thinking", `"reasoning_effort":"low","thinking":{"type":"disabled"}`, `,"output_config":{"effort":"low"},"thinking":{"type":"disabled"}`},
		{"tool without parameters", `"tools":[{"type":"function","function":{"name":"f","description":"","strict":false,"parameters":{}}}]`,
			`,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}]`},
		{"schema without type", `"tools":[{"type":"function","function":{"name":"f","cache_control":{"type":"ephemeral"},"parameters":{"properties":{}}}}]`,
			`,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}}]`},
		{"Anthropic's tools", `"tools":[{"type":"web_search_20250305","name": "web_search"}],"tool_choice":"none","parallel_tool_calls":false`,
			`,"tools":[{"type":"web_search_20250305","name": "web_search"}],"tool_choice":{"type":"none"}`},
		{"required", `"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"`,
			`,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"any"}`},
		{"one tool, one call", `"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false`,
			`,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}`},
		{"no tools", `"tools":[],"tool_choice":"auto","parallel_tool_calls":false`, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := `{"model":"claude",` + hello
			if c.fields != "" {
				body += "," + c.fields
			}
			out, err := ChatRequest([]byte(body+"}"), "claude-x", Options{})
			if err != nil {
				t.Fatalf("%#v", err)
			}
			if want := base + c.want + "}"; string(out) != want {
				t.Errorf("got  %s\nwant %s", out, want)
			}
		})
	}
}

func TestChatRequestCap(t *testing.T) {
	for _, c := range []struct {
		name, fields string
		options      Options
		want         string
	}{
		{"the default", ``, Options{}, `"max_tokens":4096`},
		{"the deployment's", ``, Options{MaxTokens: 77}, `"max_tokens":77`},
		{"max_tokens", `"max_tokens":5,`, Options{}, `"max_tokens":5,`},
		{"max_completion_tokens wins", `"max_tokens":5,"max_completion_tokens":6,`, Options{}, `"max_tokens":6,`},
		{"null is none", `"max_tokens":5,"max_completion_tokens":null,`, Options{}, `"max_tokens":5,`},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := ChatRequest([]byte(`{`+c.fields+hello+`}`), "m", c.options)
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("got %s, %v, want %s", out, err, c.want)
			}
		})
	}
}

func TestChatRequestMessages(t *testing.T) {
	call := func(id string) string {
		return `{"role":"assistant","tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"f","arguments":" {} "}}]}`
	}
	use := func(id string) string { return `{"type":"tool_use","id":"` + id + `","name":"f","input": {} }` }
	for _, c := range []struct {
		name, messages, want string // want is system and messages
	}{
		{"system from the middle", `{"role":"user","content":"a"},{"role":"system","content":"s"},{"role":"user","content":"b"}`,
			`"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`},
		{"an empty system message", `{"role":"system","content":""},{"role":"user","content":"a"}`,
			`"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]`},
		{"cache_control of a message", `{"role":"system","content":"s","cache_control":{"type":"ephemeral"}},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"cache_control":{"ttl":"1h"}}`,
			`"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"ttl":"1h"}}]}]`},
		{"assistants in a row, an empty one", `{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"assistant","content":""},{"role":"assistant","content":"c"}`,
			`"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]}]`},
		{"refusals", `{"role":"user","content":"a"},{"role":"assistant","content":null,"refusal":"no"},{"role":"user","content":"b"},{"role":"assistant","content":[{"type":"refusal","refusal":"never"}]}`,
			`"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"text","text":"no"}]},{"role":"user","content":[{"type":"text","text":"b"}]},{"role":"assistant","content":[{"type":"text","text":"never"}]}]`},
		{"results go before text", `{"role":"user","content":"a"},` + call("1") + `,{"role":"user","content":"wait"},{"role":"tool","tool_call_id":"1","content":""}`,
			`"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[` + use("1") + `]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1"},{"type":"text","text":"wait"}]}]`},
		{"ids of other providers", `{"role":"user","content":"a"},` + call(`f.x:0\u00e9`) + `,{"role":"tool","tool_call_id":"f.x:0\u00e9","content":"r"}`,
			`"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[` + use("f_x_0_u00e9") + `]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"f_x_0_u00e9","content":[{"type":"text","text":"r"}]}]}]`},
		{"images", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA/+=","detail":"low"},"cache_control":{"type":"ephemeral"}},{"type":"image_url","image_url":{"url":"DATA:image\/jpg;a=b;base64,BB\/"}},{"type":"image_url","image_url":{"url":"https://x/y?a=1&b=\u00e9"}}]}`,
			`"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA/+="},"cache_control":{"type":"ephemeral"}},{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"BB/"}},{"type":"image","source":{"type":"url","url":"https://x/y?a=1&b=é"}}]}]`},
		{"documents", `{"role":"user","content":[{"type":"file","file":{"filename":"a\u00e9.pdf","file_data":"data:application/pdf;base64,JVBE"}},{"type":"image_url","image_url":{"url":"data:application/pdf;base64,JV"}}]}`,
			`"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBE"},"title":"a\u00e9.pdf"},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JV"}}]}]`},
		{"an image from a tool", `{"role":"user","content":"a"},` + call("1") + `,{"role":"tool","tool_call_id":"1","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}`,
			`"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[` + use("1") + `]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}}]}]}]`},
		{"half a surrogate pair in arguments", `{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"x\":\"\ud83d\ude00 \ud83d\"}"}}]}`,
			`"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"x":"😀 \ud83d"}}]}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := ChatRequest([]byte(`{"messages":[`+c.messages+`]}`), "m", Options{})
			if err != nil {
				t.Fatalf("%#v", err)
			}
			if want := `{"model":"m","max_tokens":4096,` + c.want + `}`; string(out) != want {
				t.Errorf("got  %s\nwant %s", out, want)
			}
		})
	}
}

func TestChatRequestRefusals(t *testing.T) {
	message := func(m string) string { return `"messages":[{"role":"user","content":"a"},` + m + `]` }
	part := func(p string) string {
		return `"messages":[{"role":"user","content":[{"type":"text","text":"a"},` + p + `]}]`
	}
	for _, c := range []struct{ name, fields, param string }{
		{"n", hello + `,"n":2`, "n"},
		{"temperature above 1", hello + `,"temperature":1.2`, "temperature"},
		{"temperature as text", hello + `,"temperature":"1"`, "temperature"},
		{"top_p", hello + `,"top_p":-0.1`, "top_p"},
		{"logprobs", hello + `,"logprobs":true`, "logprobs"},
		{"logit_bias", hello + `,"logit_bias":{"1":2}`, "logit_bias"},
		{"frequency_penalty", hello + `,"frequency_penalty":0.1`, "frequency_penalty"},
		{"presence_penalty", hello + `,"presence_penalty":-1`, "presence_penalty"},
		{"store", hello + `,"store":true`, "store"},
		{"audio out", hello + `,"modalities":["text","audio"]`, "modalities"},
		{"functions", hello + `,"functions":[{}]`, "functions"},
		{"unknown", hello + `,"top_q":1`, "top_q"},
		{"unknown null", hello + `,"top_q":null`, "top_q"},
		{"case variant", hello + `,"Model":"x"`, "Model"},
		{"twice", hello + `,"user":"a","\u0075ser":"b"`, "user"},
		{"max_tokens 0", hello + `,"max_tokens":0`, "max_tokens"},
		{"max_tokens 1.5", hello + `,"max_tokens":1.5`, "max_tokens"},
		{"max_tokens as text", hello + `,"max_tokens":"5"`, "max_tokens"},
		{"huge max_tokens", hello + `,"max_completion_tokens":9223372036854775808`, "max_completion_tokens"},
		{"blank stop", hello + `,"stop":["a","\n"]`, "stop[1]"},
		{"stop of another type", hello + `,"stop":3`, "stop"},
		{"json_object", hello + `,"response_format":{"type":"json_object"}`, "response_format"},
		{"schema missing", hello + `,"response_format":{"type":"json_schema","json_schema":{}}`, "response_format.json_schema.schema"},
		{"effort", hello + `,"reasoning_effort":"huge"`, "reasoning_effort"},
		{"output_config twice over", hello + `,"reasoning_effort":"low","output_config":{}`, "output_config"},
		{"tier", hello + `,"service_tier":"flex"`, "service_tier"},
		{"user as a number", hello + `,"user":1`, "user"},
		{"stream as text", hello + `,"stream":"true"`, "stream"},
		{"custom tool", hello + `,"tools":[{"type":"custom","custom":{"name":"x"}}]`, "tools[0].type"},
		{"nameless tool", hello + `,"tools":[{"type":"function","function":{}}]`, "tools[0].function.name"},
		{"parameters", hello + `,"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]`, "tools[0].function.parameters"},
		{"choice without tools", hello + `,"tool_choice":"required"`, "tool_choice"},
		{"unknown choice", hello + `,"tool_choice":{"type":"allowed_tools"}`, "tool_choice"},
		{"no messages", `"user":"x"`, "messages"},
		{"empty messages", `"messages":[]`, "messages"},
		{"system alone", `"messages":[{"role":"system","content":"x"}]`, "messages"},
		{"message of another type", message(`3`), "messages[1]"},
		{"role", message(`{"role":"critic","content":"x"}`), "messages[1].role"},
		{"role twice", message(`{"role":"user","role":"system","content":"x"}`), "messages[1].role"},
		{"empty user", message(`{"role":"user","content":" \n"}`), "messages[1].content"},
		{"content of another type", message(`{"role":"user","content":{}}`), "messages[1].content"},
		{"legacy function", message(`{"role":"function","name":"f","content":"x"}`), "messages[1].role"},
		{"legacy function_call", message(`{"role":"assistant","function_call":{"name":"f"}}`), "messages[1].function_call"},
		{"result of nothing", message(`{"role":"tool","content":"x"}`), "messages[1].tool_call_id"},
		{"arguments", message(`{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":"}}]}`), "messages[1].tool_calls[1].function.arguments"},
		{"arguments that are no object", message(`{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"[]"}}]}`), "messages[1].tool_calls[0].function.arguments"},
		{"arguments that are no string", message(`{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{}}}]}`), "messages[1].tool_calls[0].function.arguments"},
		{"custom call", message(`{"role":"assistant","tool_calls":[{"id":"1","type":"custom"}]}`), "messages[1].tool_calls[0].type"},
		{"thinking of another kind", message(`{"role":"assistant","thinking_blocks":[{"type":"text"}]}`), "messages[1].thinking_blocks[0].type"},
		{"audio in", part(`{"type":"input_audio","input_audio":{}}`), "messages[0].content[1].type"},
		{"unknown part", part(`{"type":"video"}`), "messages[0].content[1].type"},
		{"image in a system message", message(`{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}`), "messages[1].content[0].type"},
		{"image by path", part(`{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}`), "messages[0].content[1].image_url.url"},
		{"image not in base64", part(`{"type":"image_url","image_url":{"url":"data:image/png,AA"}}`), "messages[0].content[1].image_url.url"},
		{"file of another type", part(`{"type":"file","file":{"file_data":"data:text/csv;base64,AA"}}`), "messages[0].content[1].file"},
		{"file by id", part(`{"type":"file","file":{"file_id":"f"}}`), "messages[0].content[1].file.file_id"},
		{"cache_control", part(`{"type":"text","text":"b","cache_control":"x"}`), "messages[0].content[1].cache_control"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ChatRequest([]byte(`{`+c.fields+`}`), "claude-x", Options{})
			var e *Error
			if !errors.As(err, &e) || e.Param != c.param || e.Message == "" {
				t.Errorf("got %#v, want an Error about %q", err, c.param)
			}
		})
	}
	for _, body := range []string{``, `[]`, `"x"`, `{`, `{"a":1}}`, strings.Repeat(`[`, 1<<20), `{"messages":` + strings.Repeat(`{"a":`, 20000)} {
		var e *Error
		if _, err := ChatRequest([]byte(body), "m", Options{}); !errors.As(err, &e) {
			t.Errorf("%.20q: got %v, want an Error", body, err)
		}
	}
}

func TestDeepValuesPassWithoutRecursion(t *testing.T) {
	deep := strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000)
	out, err := ChatRequest([]byte(`{`+hello+`,"container":`+deep+`}`), "m", Options{})
	if err != nil || !json.Valid(out) || !strings.Contains(string(out), deep) {
		t.Errorf("%v, %d bytes", err, len(out))
	}
}

func TestThinkingBudgetOfOlderModels(t *testing.T) {
	const old = "anthropic/claude-sonnet-4-5-20250929"
	bare := `"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"1","content":"r"}]`
	for _, c := range []struct{ name, fields, want string }{
		{"low", hello + `,"reasoning_effort":"low"`, `"thinking":{"type":"enabled","budget_tokens":1024}`},
		{"high, within half of the cap", hello + `,"reasoning_effort":"high"`, `"thinking":{"type":"enabled","budget_tokens":2048}`},
		{"high", hello + `,"reasoning_effort":"high","max_tokens":20000`, `"thinking":{"type":"enabled","budget_tokens":4096}`},
		{"none", hello + `,"reasoning_effort":"none"`, ``},
		{"calls without their thinking", bare + `,"reasoning_effort":"high"`, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := ChatRequest([]byte(`{`+c.fields+`}`), old, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(out), "output_config") || !strings.Contains(string(out), c.want) ||
				c.want == "" && strings.Contains(string(out), "thinking") {
				t.Errorf("got %s, want %s", out, c.want)
			}
		})
	}
	var e *Error
	if _, err := ChatRequest([]byte(`{`+hello+`,"reasoning_effort":"low","max_tokens":1024}`), old, Options{}); !errors.As(err, &e) || e.Param != "reasoning_effort" {
		t.Errorf("no room to think: %v", err)
	}
	for model, want := range map[string]bool{
		"claude-3-7-sonnet-latest": true, "claude-3.5-haiku": true, "claude-2.1": true, "claude-instant-1": true,
		"claude-sonnet-4-20250514": true, "claude-opus-4-1": true, "us.anthropic.claude-opus-4-5-20251101-v1:0": true,
		"claude-haiku-4-5": true, "claude-sonnet-4": true, "claude-opus-4-1@20250805": true, "claude-sonnet-4.5": true,
		"claude-opus-4-6": false, "claude-sonnet-4-6-20260101": false, "claude-opus-4-8": false, "claude-opus-4.7": false,
		"claude-opus-5": false, "claude-sonnet-5-5": false, "claude-fable-5": false, "claude-haiku-4-10": false, "glm-4.6": false, "": false,
	} {
		if got := budgetOnly(model); got != want {
			t.Errorf("budgetOnly(%q) = %v", model, got)
		}
	}
}
