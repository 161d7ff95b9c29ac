package translate

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var msgUpdate = flag.Bool("update-messages", false, "write the golden files of the Messages translation anew")

// msgGolden compares got with a file below testdata/messages, byte for byte.
func msgGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "messages", name)
	if *msgUpdate {
		if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != strings.TrimSuffix(string(want), "\n") {
		t.Errorf("%s:\n got %s\nwant %s", name, got, want)
	}
}

func msgFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "messages", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func msgParamOf(t *testing.T, err error) string {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is not an *Error", err)
	}
	return e.Param
}

// msgGot is a message as a client puts it together from the events.
type msgGot struct {
	Blocks       []msgGotBlock
	Stop         string
	StopSequence string
	Usage        map[string]int64
	Ended        bool   // message_stop came
	Failed       string // type of the error event
	Events       []string
}

type msgGotBlock struct{ Type, ID, Name, Text string }

// msgFollow reads events as a strict client does. The error names the first
// thing that is not legal.
func msgFollow(stream []byte) (got msgGot, err error) {
	open, started, delta := -1, false, false
	for len(stream) > 0 {
		frame, rest, found := bytes.Cut(stream, []byte("\n\n"))
		if !found {
			return got, fmt.Errorf("unfinished event %q", stream)
		}
		stream = rest
		first, second, _ := strings.Cut(string(frame), "\n")
		name, ok1 := strings.CutPrefix(first, "event: ")
		data, ok2 := strings.CutPrefix(second, "data: ")
		if !ok1 || !ok2 || strings.Contains(data, "\n") {
			return got, fmt.Errorf("bad framing %q", frame)
		}
		var e struct {
			Type  string
			Index *int
			Delta struct {
				Type, Text, Thinking string
				PartialJSON          string  `json:"partial_json"`
				StopReason           string  `json:"stop_reason"`
				StopSequence         *string `json:"stop_sequence"`
			}
			ContentBlock struct {
				Type, ID, Name string
				Input          json.RawMessage
			} `json:"content_block"`
			Message struct {
				ID, Type, Role, Model string
				Content               []any
				Usage                 map[string]int64
			}
			Usage map[string]int64
			Error struct{ Type, Message string }
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return got, fmt.Errorf("data %q: %w", data, err)
		}
		if e.Type != name {
			return got, fmt.Errorf("event %q has type %q", name, e.Type)
		}
		if got.Ended || got.Failed != "" {
			return got, fmt.Errorf("%s after the end", name)
		}
		if name != "error" && started == (name == "message_start") {
			return got, fmt.Errorf("%s, started %v", name, started)
		}
		if delta && name != "message_stop" && name != "error" {
			return got, fmt.Errorf("%s after message_delta", name)
		}
		got.Events = append(got.Events, name)
		switch name {
		case "message_start":
			started = true
			if e.Message.Role != "assistant" || e.Message.Type != "message" || e.Message.Content == nil || e.Message.Usage == nil {
				return got, fmt.Errorf("incomplete message_start %s", data)
			}
		case "content_block_start":
			if open >= 0 || e.Index == nil || *e.Index != len(got.Blocks) {
				return got, fmt.Errorf("%s while %d is open and %d were", data, open, len(got.Blocks))
			}
			open = *e.Index
			got.Blocks = append(got.Blocks, msgGotBlock{Type: e.ContentBlock.Type, ID: e.ContentBlock.ID, Name: e.ContentBlock.Name})
		case "content_block_delta", "content_block_stop":
			if e.Index == nil || *e.Index != open || open < 0 {
				return got, fmt.Errorf("%s while %d is open", data, open)
			}
			b := &got.Blocks[open]
			if name == "content_block_stop" {
				open = -1
				break
			}
			want := map[string]string{"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}[b.Type]
			if e.Delta.Type != want {
				return got, fmt.Errorf("%s in a block of type %s", e.Delta.Type, b.Type)
			}
			b.Text += e.Delta.Text + e.Delta.Thinking + e.Delta.PartialJSON
		case "message_delta":
			if open >= 0 || e.Delta.StopReason == "" || e.Usage == nil {
				return got, fmt.Errorf("%s while %d is open", data, open)
			}
			delta = true
			got.Stop, got.Usage = e.Delta.StopReason, e.Usage
			if e.Delta.StopSequence != nil {
				got.StopSequence = *e.Delta.StopSequence
			}
		case "message_stop":
			if !delta {
				return got, errors.New("message_stop without message_delta")
			}
			got.Ended = true
		case "error":
			got.Failed = e.Error.Type
		default:
			return got, fmt.Errorf("unknown event %s", name)
		}
	}
	return got, nil
}

// msgPlay plays chunks through a new stream, holds every prefix of them to the
// rules, and returns what a client has at the end. ok is End's.
func msgPlay(t *testing.T, chunks ...string) (got msgGot, ok bool) {
	t.Helper()
	s := NewMessagesStream("claude-x", "msg_1")
	var out []byte
	for i, c := range chunks {
		var err error
		data := []byte(c)
		if out, err = s.Event(out, data); err != nil {
			t.Fatalf("chunk %d: %v", i, err)
		}
		clear(data) // the caller's buffer is its own again
		if _, err := msgFollow(out); err != nil {
			t.Fatalf("after chunk %d: %v\n%s", i, err, out)
		}
	}
	out, ok = s.End(out)
	got, err := msgFollow(out)
	if err != nil {
		t.Fatalf("at the end: %v\n%s", err, out)
	}
	if ok != (got.Ended || got.Failed != "") {
		t.Fatalf("End says %v, but the client saw %v", ok, got.Events)
	}
	return got, ok
}
