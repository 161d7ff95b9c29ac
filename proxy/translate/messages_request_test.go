package translate

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// msgWith returns a request with one user message and the further members.
func msgWith(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"model":"claude-x","max_tokens":10,"messages":[{"role":"user","content":"hi"}]` + members + `}`
}

const msgPlain = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":10`

func TestMessagesRequestSettings(t *testing.T) {
	for _, c := range []struct{ name, in, model, want string }{
		{"nothing else", "", "m", ""},
		{"numbers keep their spelling", `"temperature":1.0,"top_p":9e-1,"top_k":40`, "m", `,"temperature":1.0,"top_p":9e-1,"top_k":40`},
		{"null is absent", `"temperature":null,"system":null,"tools":null,"stream":null,"thinking":null`, "m", ""},
		{"stop sequences, more than four too", `"stop_sequences":["\u2028","<b>","c","d","e"]`, "m", `,"stop":["\u2028","<b>","c","d","e"]`},
		{"no stop sequences", `"stop_sequences":[]`, "m", ""},
		{"stream", `"stream":true`, "m", `,"stream":true,"stream_options":{"include_usage":true}`},
		{"no stream", `"stream":false`, "m", ""},
		{"user", `"metadata":{"user_id":"u-\u00e9"}`, "m", `,"user":"u-\u00e9"`},
		{"a user longer than OpenAI takes", `"metadata":{"user_id":"` + strings.Repeat("a", 65) + `"}`, "m", `,"user":"635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"`},
		{"no user", `"metadata":{"user_id":null}`, "m", ""},
		{"service tier auto", `"service_tier":"auto"`, "m", ""},
		{"service tier standard", `"service_tier":"standard_only"`, "m", `,"service_tier":"default"`},
		{"anywhere", `"inference_geo":"global"`, "m", ""},
		{"what is dropped", `"cache_control":{"type":"ephemeral"},"context_management":{"edits":[]},"speed":"fast","betas":["x"],"anthropic_beta":["x"],"anthropic_version":"x","diagnostics":{}`, "m", ""},
		{"thinking, of a model that is not known to", `"thinking":{"type":"enabled","budget_tokens":4000}`, "m", ""},
		{"effort, of a model that is not known to", `"output_config":{"effort":"high"}`, "m", ""},
		{"a schema for the answer", `"output_config":{"format":{"type":"json_schema","schema":{"type":"object", "x":1e3}}}`, "m",
			`,"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object", "x":1e3}}}`},
		{"the same under its older name", `"output_format":{"type":"json_schema","schema":{}}`, "m",
			`,"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := MessagesRequest([]byte(msgWith(c.in)), c.model, true)
			if err != nil {
				t.Fatal(err)
			}
			if want := msgPlain + c.want + `}`; string(got) != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
		})
	}
}

func TestMessagesRequestAsksForUsageOnlyIfTold(t *testing.T) {
	got, err := MessagesRequest([]byte(msgWith(`"stream":true`)), "m", false)
	if want := msgPlain + `,"stream":true}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestMessagesRequestDependsOnTheModel(t *testing.T) {
	const budget = `"thinking":{"type":"enabled","budget_tokens":10000}`
	for _, c := range []struct{ model, limit, effort string }{
		{"gpt-4o", "max_tokens", ""},
		{"gpt-3.5-turbo", "max_tokens", ""},
		{"gpt-35-turbo", "max_tokens", ""},
		{"gpt-4.1-mini", "max_tokens", ""},
		{"llama3.1:8b", "max_tokens", ""},
		{"olmo-2", "max_tokens", ""},
		{"o3-mini", "max_completion_tokens", "medium"},
		{"openai/o4-mini", "max_completion_tokens", "medium"},
		{"GPT-5.1", "max_completion_tokens", "medium"},
		{"gpt-10", "max_completion_tokens", "medium"},
		{"ft:gpt-5-mini:org", "max_completion_tokens", "medium"},
		{"gpt-5-chat-latest", "max_completion_tokens", ""},
		{"openai/gpt-oss-120b", "max_tokens", "medium"},
		{"gemini-2.5-pro", "max_tokens", "medium"},
		{"", "max_tokens", ""},
		{"o", "max_tokens", ""},
		{"gpt-", "max_tokens", ""},
	} {
		t.Run(c.model, func(t *testing.T) {
			got, err := MessagesRequest([]byte(msgWith(budget)), c.model, false)
			if err != nil {
				t.Fatal(err)
			}
			var r map[string]any
			if err := json.Unmarshal(got, &r); err != nil {
				t.Fatal(err)
			}
			effort, _ := r["reasoning_effort"].(string)
			if r[c.limit] != 10.0 || effort != c.effort || (r["max_tokens"] != nil) == (r["max_completion_tokens"] != nil) {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestMessagesRequestEffort(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`"thinking":{"type":"enabled","budget_tokens":1024}`, "low"},
		{`"thinking":{"type":"enabled","budget_tokens":4097}`, "medium"},
		{`"thinking":{"type":"enabled","budget_tokens":31999,"display":"omitted"}`, "high"},
		{`"thinking":{"type":"adaptive"}`, ""},
		{`"thinking":{"type":"disabled"}`, ""},
		{`"output_config":{"effort":"low"}`, "low"},
		{`"output_config":{"effort":"max"}`, "high"},
		{`"output_config":{}`, ""},
		{`"output_config":{"effort":"medium"},"thinking":{"type":"enabled","budget_tokens":31999}`, "medium"},
	} {
		got, err := MessagesRequest([]byte(msgWith(c.in)), "o3", false)
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if c.want != "" {
			want = `"reasoning_effort":"` + c.want + `"`
		}
		if !strings.Contains(string(got), want) || strings.Contains(string(got), "reasoning_effort") != (want != "") {
			t.Errorf("%s gives %s, want %q", c.in, got, want)
		}
	}
}

func TestMessagesRequestTools(t *testing.T) {
	const tool = `"tools":[{"name":"f","input_schema":{"type": "object"}}]`
	const want = `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type": "object"}}}]`
	for _, c := range []struct{ name, in, want string }{
		{"one", tool, want},
		{"all of it", `"tools":[{"type":"custom","name":"f","description":"d\u2028<","input_schema":{"a":1.0,"a":2},"strict":true,"cache_control":{"type":"ephemeral"},"defer_loading":true,"allowed_callers":["direct"],"input_examples":[{}],"eager_input_streaming":true}]`,
			`,"tools":[{"type":"function","function":{"name":"f","description":"d\u2028<","parameters":{"a":1.0,"a":2},"strict":true}}]`},
		{"none", `"tools":[],"tool_choice":{"type":"auto"}`, ""},
		{"auto", tool + `,"tool_choice":{"type":"auto"}`, want + `,"tool_choice":"auto"`},
		{"any", tool + `,"tool_choice":{"type":"any","disable_parallel_tool_use":false}`, want + `,"tool_choice":"required"`},
		{"none of them", tool + `,"tool_choice":{"type":"none"}`, want + `,"tool_choice":"none"`},
		{"this one, alone", tool + `,"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}`,
			want + `,"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := MessagesRequest([]byte(msgWith(c.in)), "m", true)
			if want := msgPlain + c.want + `}`; err != nil || string(got) != want {
				t.Errorf("\n got %s, %v\nwant %s", got, err, want)
			}
		})
	}
}

func TestMessagesRequestTurns(t *testing.T) {
	const call = `{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},`
	const called = `{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{}"}}]},`
	for _, c := range []struct{ name, in, want string }{
		{"text keeps its bytes", `{"role":"user","content":"<\u00e9é\ud83d \u2028\/"}`, `{"role":"user","content":"<\u00e9é\ud83d \u2028\/"}`},
		{"one block is a string", `{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}`, `{"role":"user","content":"a"}`},
		{"blocks of text are joined", `{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, `{"role":"user","content":"a\n\nb"}`},
		{"neighbours of one role are one turn", `{"role":"user","content":"a"},{"role":"user","content":"b"}`, `{"role":"user","content":"a\n\nb"}`},
		{"an image as data", `{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA+/"}}]}`,
			`{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA+/"}}]}`},
		{"an image by URL", `{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/?a=1&b"}}]}`,
			`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/?a=1&b"}}]}`},
		{"a PDF", `{"role":"user","content":[{"type":"document","title":"T","source":{"type":"base64","media_type":"application/pdf","data":"AA=="},"citations":{"enabled":false}}]}`,
			`{"role":"user","content":[{"type":"text","text":"T"},{"type":"file","file":{"filename":"T","file_data":"data:application/pdf;base64,AA=="}}]}`},
		{"a text document", `{"role":"user","content":[{"type":"document","title":"T","context":"C","source":{"type":"text","media_type":"text/plain","data":"D"}}]}`,
			`{"role":"user","content":"T\n\nC\n\nD"}`},
		{"a document of blocks", `{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"text","text":"D"}]}}]}`,
			`{"role":"user","content":"D"}`},
		{"pieces of an answer are one text", `{"role":"assistant","content":[{"type":"text","text":"a","citations":[]},{"type":"text","text":"b"}]},{"role":"user","content":"c"}`,
			`{"role":"assistant","content":"ab"},{"role":"user","content":"c"}`},
		{"thoughts are left out", `{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"a"}]},{"role":"user","content":"c"}`,
			`{"role":"assistant","content":"a"},{"role":"user","content":"c"}`},
		{"a turn of nothing but thoughts", `{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"}]},{"role":"user","content":"c"}`,
			`{"role":"user","content":"a"},{"role":"user","content":"c"}`},
		{"a call and its result", call + `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r"}]}`,
			called + `{"role":"tool","tool_call_id":"t1","content":"r"}`},
		{"a result without content", call + `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]}`,
			called + `{"role":"tool","tool_call_id":"t1","content":""}`},
		{"an error as result", call + `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"no"}]}]}`,
			called + `{"role":"tool","tool_call_id":"t1","content":"Error: no"}`},
		{"results come before what the user says", call + `{"role":"user","content":[{"type":"text","text":"so"},{"type":"tool_result","tool_use_id":"t1","content":"r"}]}`,
			called + `{"role":"tool","tool_call_id":"t1","content":"r"},{"role":"user","content":"so"}`},
		{"results in two messages", call + `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r"},{"type":"text","text":"a"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"s"}]}`,
			called + `{"role":"tool","tool_call_id":"t1","content":"r"},{"role":"tool","tool_call_id":"t2","content":"s"},{"role":"user","content":"a"}`},
		{"an image as result", call + `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"image","source":{"type":"url","url":"u"}}]},{"type":"text","text":"so"}]}`,
			called + `{"role":"tool","tool_call_id":"t1","content":"(The result is in the next message.)"},` +
				`{"role":"user","content":[{"type":"text","text":"Returned by tool call t1:"},{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"so"}]}`},
		{"input keeps its bytes but for space", `{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"t1","name":"f","input":{"z": 1.0, "a":"q\"\\ \u2028<é\ud83d","n":12345678901234567890}}]},{"role":"user","content":"c"}`,
			`{"role":"assistant","content":"x","tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"z\":1.0,\"a\":\"q\\\"\\\\ \\u2028<é\\ud83d\",\"n\":12345678901234567890}"}}]},{"role":"user","content":"c"}`},
		{"a system message on the way", `{"role":"user","content":"a"},{"role":"system","content":"s"},{"role":"user","content":"b"}`,
			`{"role":"user","content":"a"},{"role":"system","content":"s"},{"role":"user","content":"b"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := MessagesRequest([]byte(`{"max_tokens":1,"messages":[`+c.in+`]}`), "m", false)
			if want := `{"model":"m","messages":[` + c.want + `],"max_tokens":1}`; err != nil || string(got) != want {
				t.Errorf("\n got %s, %v\nwant %s", got, err, want)
			}
		})
	}
}

func TestMessagesRequestSystem(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`"s\u0020"`, `{"role":"system","content":"s\u0020"},`},
		{`[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral","ttl":"1h"}}]`, `{"role":"system","content":"a\n\nb"},`},
		{`[]`, ``},
	} {
		got, err := MessagesRequest([]byte(msgWith(`"system":`+c.in)), "m", false)
		if want := strings.Replace(msgPlain, `"messages":[`, `"messages":[`+c.want, 1) + `}`; err != nil || string(got) != want {
			t.Errorf("\n got %s, %v\nwant %s", got, err, want)
		}
	}
}

func TestMessagesRequestRefusesWhatItCannotSay(t *testing.T) {
	user := func(block string) string {
		return `{"max_tokens":1,"messages":[{"role":"user","content":[` + block + `]}]}`
	}
	for _, c := range []struct{ name, in, param string }{
		{"no JSON", `{"model":`, ""},
		{"two values", `{} {}`, ""},
		{"no object", `[]`, ""},
		{"nested too deeply", strings.Repeat("[", 1001) + strings.Repeat("]", 1001), ""},
		{"a field unknown", msgWith(`"logit_bias":{}`), "logit_bias"},
		{"a field in another case", msgWith(`"Stream":true`), "Stream"},
		{"a field that folds to another", msgWith(`"ſtream":true`), "ſtream"},
		{"a field twice", msgWith(`"max_tokens":5`), "max_tokens"},
		{"a field twice, once escaped", msgWith(`"\u006dax_tokens":5`), "max_tokens"},
		{"a field twice, once null", msgWith(`"stream":null,"stream":true`), "stream"},
		{"MCP servers", msgWith(`"mcp_servers":[]`), "mcp_servers"},
		{"a container", msgWith(`"container":"c"`), "container"},
		{"a place", msgWith(`"inference_geo":"us"`), "inference_geo"},
		{"no limit", `{"messages":[{"role":"user","content":"x"}]}`, "max_tokens"},
		{"limit 0", `{"max_tokens":0,"messages":[{"role":"user","content":"x"}]}`, "max_tokens"},
		{"limit no number", `{"max_tokens":"5","messages":[{"role":"user","content":"x"}]}`, "max_tokens"},
		{"no messages", `{"max_tokens":1}`, "messages"},
		{"empty messages", `{"max_tokens":1,"messages":[]}`, "messages"},
		{"an answer begun", `{"max_tokens":1,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"{"}]}`, "messages.1"},
		{"a strange role", `{"max_tokens":1,"messages":[{"role":"tool","content":"x"}]}`, "messages.0.role"},
		{"no content", `{"max_tokens":1,"messages":[{"role":"user"}]}`, "messages.0.content"},
		{"content of another kind", `{"max_tokens":1,"messages":[{"role":"user","content":5}]}`, "messages.0.content"},
		{"empty content", `{"max_tokens":1,"messages":[{"role":"user","content":[]}]}`, "messages.0.content"},
		{"a field of a message", `{"max_tokens":1,"messages":[{"role":"user","content":"x","name":"n"}]}`, "messages.0.name"},
		{"a block of no type", user(`{"text":"x"}`), "messages.0.content.0.type"},
		{"a block that is none", user(`"x"`), "messages.0.content.0"},
		{"a text without text", user(`{"type":"text"}`), "messages.0.content.0.text"},
		{"a field of a block", user(`{"type":"text","text":"x","weight":1}`), "messages.0.content.0.weight"},
		{"a block of a server tool", user(`{"type":"web_search_tool_result"}`), "messages.0.content.0.type"},
		{"a container's file", user(`{"type":"container_upload","file_id":"f"}`), "messages.0.content.0.type"},
		{"an image by file", user(`{"type":"image","source":{"type":"file","url":"f"}}`), "messages.0.content.0.source.type"},
		{"an image without source", user(`{"type":"image"}`), "messages.0.content.0.source"},
		{"an image without type", user(`{"type":"image","source":{"type":"base64","data":"x"}}`), "messages.0.content.0.source.media_type"},
		{"a PDF by URL", user(`{"type":"document","source":{"type":"url","url":"u"}}`), "messages.0.content.0.source.type"},
		{"citations asked for", user(`{"type":"document","source":{"type":"text","data":"d"},"citations":{"enabled":true}}`), "messages.0.content.0.citations"},
		{"a call without id", `{"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{}}]}]}`, "messages.0.content.0.id"},
		{"a call with text for input", `{"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":"x"}]}]}`, "messages.0.content.0.input"},
		{"a server's call", `{"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"server_tool_use","id":"t","name":"web_search","input":{}}]}]}`, "messages.0.content.0.type"},
		{"a result of no call", user(`{"type":"tool_result","content":"x"}`), "messages.0.content.0.tool_use_id"},
		{"a strange block in a result", user(`{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_reference"}]}`), "messages.0.content.0.content.0.type"},
		{"a system prompt with an image", msgWith(`"system":[{"type":"image"}]`), "system.0.type"},
		{"a server tool", msgWith(`"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":5}]`), "tools.0.type"},
		{"a client tool of Anthropic's", msgWith(`"tools":[{"type":"bash_20250124","name":"bash"}]`), "tools.0.type"},
		{"a tool without name", msgWith(`"tools":[{"input_schema":{}}]`), "tools.0.name"},
		{"a tool without schema", msgWith(`"tools":[{"name":"f"}]`), "tools.0.input_schema"},
		{"a field of a tool", msgWith(`"tools":[{"name":"f","input_schema":{},"x":1}]`), "tools.0.x"},
		{"a tool twice named", msgWith(`"tools":[{"name":"f","name":"g","input_schema":{}}]`), "tools.0.name"},
		{"a choice without tools", msgWith(`"tool_choice":{"type":"any"}`), "tool_choice"},
		{"a strange choice", msgWith(`"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"required"}`), "tool_choice.type"},
		{"a choice of no tool", msgWith(`"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool"}`), "tool_choice.name"},
		{"temperature as text", msgWith(`"temperature":"1"`), "temperature"},
		{"stop as text", msgWith(`"stop_sequences":"x"`), "stop_sequences"},
		{"stop of numbers", msgWith(`"stop_sequences":[1]`), "stop_sequences"},
		{"stream as text", msgWith(`"stream":"true"`), "stream"},
		{"strange thinking", msgWith(`"thinking":{"type":"deep"}`), "thinking.type"},
		{"thinking without budget", msgWith(`"thinking":{"type":"enabled"}`), "thinking.budget_tokens"},
		{"strange effort", msgWith(`"output_config":{"effort":"huge"}`), "output_config.effort"},
		{"a field of the output", msgWith(`"output_config":{"task_budget":{}}`), "output_config.task_budget"},
		{"a strange format", msgWith(`"output_config":{"format":{"type":"xml"}}`), "output_config.format.type"},
		{"a format without schema", msgWith(`"output_format":{"type":"json_schema"}`), "output_format.schema"},
		{"two formats", msgWith(`"output_format":{},"output_config":{"format":{}}`), "output_format"},
		{"more metadata", msgWith(`"metadata":{"user_id":"u","tags":[]}`), "metadata.tags"},
		{"a strange tier", msgWith(`"service_tier":"flex"`), "service_tier"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := MessagesRequest([]byte(c.in), "m", true)
			if err == nil {
				t.Fatalf("translated to %s", got)
			}
			if p := msgParamOf(t, err); p != c.param {
				t.Errorf("param %q, want %q (%v)", p, c.param, err)
			}
			if !strings.Contains(err.Error(), c.param) || strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("message %q", err)
			}
		})
	}
}

// What a coding agent sends: a system prompt in blocks, tools, thoughts,
// parallel calls, a failed one, and an image among the results.
func TestMessagesRequestOfACodingAgent(t *testing.T) {
	for _, model := range []string{"gpt-5", "qwen3"} {
		got, err := MessagesRequest(msgFile(t, "agent.json"), model, true)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(got) {
			t.Fatalf("not JSON: %s", got)
		}
		msgGolden(t, "agent."+model+".json", got)
	}
}

func FuzzMessagesRequest(f *testing.F) {
	for _, seed := range []string{
		msgWith(""), msgWith(`"stream":true,"system":[{"type":"text","text":"s"}],"stop_sequences":["a"],"thinking":{"type":"enabled","budget_tokens":1}`),
		msgWith(`"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"f"},"output_config":{"effort":"max","format":{"type":"json_schema","schema":{}}}`),
		`{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"u"}}]},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"a":[1,"\ud83d"]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":[{"type":"document","source":{"type":"base64","media_type":"m","data":"d"}}]}]}]}`,
		` {"\u006dessages" : [ ] } `,
	} {
		f.Add([]byte(seed), "gpt-5")
	}
	f.Fuzz(func(t *testing.T, body []byte, model string) {
		before := bytes.Clone(body)
		got, err := MessagesRequest(body, model, true)
		tokens, estimateErr := MessagesInputEstimate(body)
		if !bytes.Equal(before, body) {
			t.Fatal("the body was changed")
		}
		if estimateErr == nil && tokens < 1 || estimateErr != nil && err == nil {
			t.Fatalf("estimate %d, %v", tokens, estimateErr)
		}
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Message == "" {
				t.Fatalf("error %#v", err)
			}
			return
		}
		var r struct {
			Messages []struct{ Role string }
		}
		if err := json.Unmarshal(got, &r); err != nil || len(r.Messages) == 0 {
			t.Fatalf("%v: %s", err, got)
		}
	})
}
