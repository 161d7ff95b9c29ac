package translate

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

func file(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "chat", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// golden compares got with a file, line by line.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", "chat", name), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := file(t, name); got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// An assistant turn with signed thinking and calls comes back with its results:
// blocks keep their order, signatures, cache marks and every byte.
func TestTwoTurnsOfCallsWithThinking(t *testing.T) {
	out, err := ChatRequest([]byte(file(t, "two_turns.request.json")), "claude-x", Options{})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "two_turns.golden.json", string(out)+"\n")
	for _, bytes := range []string{
		`{"type": "thinking", "signature": "EqoB/+==", "thinking": "Two \u0063alls <é>."},{"type": "redacted_thinking", "data": "ZW5j"},{"type":"tool_use"`,
		`"input":{"b": 1.0, "a": 1e3, "n": 12345678901234567890, "city": "Par\u0069s é <"}`,
		`"text":"Be brief. \u00e9 é < \u2028  "`,
		`"cache_control":{"ttl": "1h", "type": "ephemeral"}`,
		`"temperature":0.70`,
	} {
		if !strings.Contains(string(out), bytes) {
			t.Errorf("the request lost %s", bytes)
		}
	}
}

func TestAnswerOfCalls(t *testing.T) {
	out, err := ChatAnswer([]byte(file(t, "calls.answer.json")), "claude", 1700000000)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "calls.answer.golden.json", string(out)+"\n")
}

func TestStreamOfCalls(t *testing.T) {
	out := replay(t, file(t, "calls.events"), true)
	golden(t, "calls.events.golden", out)
}

// The same answer says the same whether it is streamed or not.
func TestStreamedAnswerEqualsTheWhole(t *testing.T) {
	whole, err := ChatAnswer([]byte(file(t, "calls.answer.json")), "claude", 1700000000)
	if err != nil {
		t.Fatal(err)
	}
	want := decodeAnswer(t, whole)
	got := assemble(t, replay(t, file(t, "calls.events"), true))
	if got.String() != want.String() {
		t.Errorf("streamed\n%s\nwhole\n%s", got, want)
	}
}

// How an upstream lays its JSON out, or over how many data lines, changes nothing.
func TestLayoutOfEventsDoesNotMatter(t *testing.T) {
	plain := file(t, "calls.events")
	var spaced strings.Builder
	for event := range strings.SplitSeq(plain, "\n\n") {
		name, data := parse(event)
		if data == "" {
			continue
		}
		var b bytes.Buffer
		if err := json.Indent(&b, []byte(data), " ", "\t"); err != nil {
			t.Fatal(err)
		}
		spaced.WriteString("event: " + name + "\ndata: " + strings.ReplaceAll(b.String(), "\n", "\r\ndata: ") + "\n\n")
	}
	if got, want := replay(t, spaced.String(), true), replay(t, plain, true); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
