package translate

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzChatRequest(f *testing.F) {
	f.Add([]byte(file(f, "two_turns.request.json")), "claude-x")
	f.Add([]byte(`{`+hello+`,"reasoning_effort":"high"}`), "claude-3")
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image\/png;base64,AA"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,AA","filename":"a"}}]}],"response_format":{"type":"json_schema","json_schema":{"schema":{}}},"stop":"x"}`), "")
	f.Fuzz(func(t *testing.T, body []byte, model string) {
		out, err := ChatRequest(body, model, Options{})
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Message == "" {
				t.Fatalf("%#v is no Error", err)
			}
			return
		}
		if !json.Valid(out) {
			t.Fatalf("not JSON: %s", out)
		}
		var r struct {
			MaxTokens int64 `json:"max_tokens"`
			Messages  []struct {
				Role    string
				Content []struct{ Type string }
			}
		}
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if r.MaxTokens < 1 || len(r.Messages) == 0 {
			t.Fatalf("no cap or no messages: %s", out)
		}
		for i, m := range r.Messages {
			if len(m.Content) == 0 || i > 0 && m.Role == r.Messages[i-1].Role {
				t.Fatalf("turn %d is empty or of the same side as the one before: %s", i, out)
			}
			for j, b := range m.Content[1:] {
				if b.Type == "tool_result" && m.Content[j].Type != "tool_result" {
					t.Fatalf("a result behind other blocks: %s", out)
				}
			}
		}
	})
}

func FuzzChatAnswer(f *testing.F) {
	f.Add(200, []byte(file(f, "calls.answer.json")))
	f.Add(400, []byte(`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if _, out := ChatError(status, body); !json.Valid(out) {
			t.Fatalf("not JSON: %s", out)
		}
		out, err := ChatAnswer(body, string(body[:min(len(body), 3)]), int64(status))
		if err != nil {
			if !errors.Is(err, ErrAnswer) {
				t.Fatalf("%v does not wrap ErrAnswer", err)
			}
			return
		}
		decodeAnswer(t, out)
	})
}

// Whatever an upstream sends, what comes out is in legal order.
func FuzzChatStream(f *testing.F) {
	f.Add(file(f, "calls.events"), true)
	f.Add(strings.ReplaceAll(file(f, "calls.events"), `"index":6`, `"index":5`), false)
	f.Add(`event: content_block_start
data: {"index":0,"content_block":{"type":"tool_use","id":"a","name":"b","input":{"c":1}}}

event: content_block_delta
data: {"index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}

event: message_stop
data: {}

`, false)
	f.Add("data: {\"type\":\"message_start\"}\n\nevent: error\ndata: {\"error\":{\"message\":\"x\"}}\n\n", false)
	f.Fuzz(func(t *testing.T, events string, usage bool) {
		s := NewChatStream("m", 1, usage)
		var out []byte
		var err error
		for event := range strings.SplitSeq(events, "\n\n") {
			name, data := parse(event)
			if out, err = s.Event(out, name, []byte(data)); err != nil {
				if !errors.Is(err, ErrAnswer) {
					t.Fatalf("%v does not wrap ErrAnswer", err)
				}
				break
			}
		}
		out, ok := s.End(out)
		_, done, failed := reading(t, string(out))
		if err == nil && ok != (done || failed) {
			t.Fatalf("ok=%v done=%v failed=%v: %s", ok, done, failed, out)
		}
	})
}

// The walker sees what encoding/json sees, whatever the layout.
func FuzzChatWalk(f *testing.F) {
	f.Add([]byte(` { "a\"\\" : [1, {"b":"]"}] ,"c":-1.5e3 , "":null}`))
	f.Add([]byte(`["\\\\","\"",[],{} , true]`))
	f.Add([]byte(`"\ud83d\ude00 \ud83d \u0041\/\n"`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		got := map[string]string{}
		n := 0
		for w := walk(raw); w.next(); n++ {
			if !json.Valid(w.val) {
				t.Fatalf("%q: element %q", raw, w.val)
			}
			if w.obj {
				got[string(w.key)] = string(w.val)
			}
		}
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil && len(list) != n {
			t.Fatalf("%q: %d elements, want %d", raw, n, len(list))
		}
		if !utf8.Valid(raw) || strings.Contains(strings.ToLower(string(raw)), `\ud`) {
			return // encoding/json replaces what it cannot decode
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(raw, &want) == nil {
			if len(want) != len(got) {
				t.Fatalf("%q: got %q, want %q", raw, got, want)
			}
			for k, v := range want {
				if got[k] != string(v) {
					t.Fatalf("%q: %q is %q, want %q", raw, k, got[k], v)
				}
			}
		}
		var text string
		if s := bytes.TrimSpace(raw); isString(s) && json.Unmarshal(s, &text) == nil {
			if string(unquote(s)) != text {
				t.Fatalf("%q: got %q, want %q", s, unquote(s), text)
			}
			var again string
			if err := json.Unmarshal(quote(nil, []byte(text)), &again); err != nil || again != text {
				t.Fatalf("%q came back as %q, %v", text, again, err)
			}
		}
	})
}
