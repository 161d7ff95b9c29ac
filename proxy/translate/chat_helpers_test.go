package translate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// replay sends a stream of Messages events through a translator, as one who
// reuses the memory of each.
func replay(t testing.TB, events string, usage bool) string {
	t.Helper()
	s := NewChatStream("claude", 1700000000, usage)
	var out []byte
	for event := range strings.SplitSeq(events, "\n\n") {
		name, data := parse(event)
		b := []byte(data)
		var err error
		if out, err = s.Event(out, name, b); err != nil {
			t.Fatalf("%v: %s", err, event)
		}
		for i := range b {
			b[i] = '!'
		}
	}
	out, ok := s.End(out)
	if !ok {
		t.Fatal("the stream was taken for cut")
	}
	return string(out)
}

func parse(event string) (name, data string) {
	for line := range strings.SplitSeq(event, "\n") {
		if v, ok := strings.CutPrefix(line, "event: "); ok {
			name = v
		} else if v, ok := strings.CutPrefix(line, "data: "); ok {
			data += v
		}
	}
	return name, data
}

type chatCall struct {
	Index    *int    `json:"index"`
	ID       *string `json:"id"`
	Type     *string `json:"type"`
	Function struct {
		Name      *string `json:"name"`
		Arguments *string `json:"arguments"`
	} `json:"function"`
}

type chatMessageOut struct {
	Role      *string           `json:"role"`
	Content   *string           `json:"content"`
	Reasoning *string           `json:"reasoning_content"`
	Thinking  []json.RawMessage `json:"thinking_blocks"`
	ToolCalls []chatCall        `json:"tool_calls"`
}

type chatOut struct {
	ID, Object, Model string
	Created           int64
	Choices           []struct {
		Index          int
		Message, Delta chatMessageOut
		FinishReason   *string `json:"finish_reason"`
	}
	Usage json.RawMessage
	Error json.RawMessage
}

// said is what a client has understood of an answer.
type said struct {
	id, content, reasoning, finish, usage string
	thinking, calls                       []string
}

func (s said) String() string { return fmt.Sprintf("%+q", s.list()) }

func (s said) list() []string {
	l := []string{s.id, s.content, s.reasoning, s.finish, s.usage}
	return append(append(l, s.thinking...), s.calls...)
}

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func decodeAnswer(t testing.TB, body []byte) said {
	t.Helper()
	var a chatOut
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	m := a.Choices[0].Message
	s := said{id: a.ID, content: text(m.Content), reasoning: text(m.Reasoning), finish: text(a.Choices[0].FinishReason), usage: string(a.Usage)}
	for _, b := range m.Thinking {
		s.thinking = append(s.thinking, canonical(t, b))
	}
	for _, c := range m.ToolCalls {
		s.calls = append(s.calls, text(c.ID), text(c.Function.Name), text(c.Function.Arguments))
	}
	return s
}

func canonical(t testing.TB, raw []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// assemble reads a stream as a strict client does: it fails the test at
// whatever is not in legal order.
func assemble(t testing.TB, stream string) said {
	t.Helper()
	s, done, failed := reading(t, stream)
	if !done || failed {
		t.Errorf("done=%v failed=%v, want a stream that ends well", done, failed)
	}
	return s
}

func reading(t testing.TB, stream string) (s said, done, failed bool) {
	t.Helper()
	if stream != "" && !strings.HasSuffix(stream, "\n\n") {
		t.Fatalf("the last event is not complete: %q", stream)
	}
	begun := false
	for event := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		if stream == "" {
			break
		}
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || strings.ContainsAny(data, "\r\n") {
			t.Fatalf("not an event of one data line: %q", event)
		}
		if done || failed {
			t.Fatalf("after the end: %s", event)
		}
		if data == "[DONE]" {
			if s.finish == "" {
				t.Fatal("[DONE] without finish_reason")
			}
			done = true
			continue
		}
		var c chatOut
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%v: %q", err, data)
		}
		if c.Error != nil {
			failed = true
			continue
		}
		if c.Object != "chat.completion.chunk" || s.id != "" && c.ID != s.id {
			t.Fatalf("object or id: %s", data)
		}
		s.id = c.ID
		if len(c.Choices) == 0 {
			if s.finish == "" || s.usage != "" {
				t.Fatalf("usage before the end, or twice: %s", data)
			}
			s.usage = string(c.Usage)
			continue
		}
		if s.usage != "" || s.finish != "" {
			t.Fatalf("a choice behind the end: %s", data)
		}
		if role := c.Choices[0].Delta.Role; (role != nil) == begun {
			t.Fatalf("the role belongs into the first chunk and no other: %s", data)
		}
		begun = true
		s.finish = text(c.Choices[0].FinishReason)
		s.add(t, c.Choices[0].Delta)
	}
	return s, done, failed
}

func (s *said) add(t testing.TB, d chatMessageOut) {
	t.Helper()
	s.content += text(d.Content)
	s.reasoning += text(d.Reasoning)
	for _, b := range d.Thinking {
		s.thinking = append(s.thinking, canonical(t, b))
	}
	for _, c := range d.ToolCalls {
		n := len(s.calls) / 3
		switch {
		case c.Index == nil || *c.Index > n || *c.Index < 0:
			t.Fatalf("index %v behind %d calls", c.Index, n)
		case *c.Index == n:
			if c.ID == nil || c.Function.Name == nil || c.Type == nil {
				t.Fatal("a call begins without id, name or type")
			}
			s.calls = append(s.calls, *c.ID, *c.Function.Name, text(c.Function.Arguments))
		case c.ID != nil || c.Function.Name != nil || c.Type != nil:
			t.Fatal("id, name or type in a later delta")
		default:
			s.calls[*c.Index*3+2] += text(c.Function.Arguments)
		}
	}
}
