package upstream

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDefaultAnswersAreWhatAnthropicSends(t *testing.T) {
	s := start(t, Options{})
	s.Play(Match{Model: "over"}, Step{Status: 529})
	s.Play(Match{Model: "cached"}, Step{Usage: &Usage{Prompt: 10, Cached: 4, Completion: 2}})
	for _, tt := range []struct {
		name, path, body, want string
		status                 int
	}{
		{"message", "/v1/messages", `{"model":"m"}`, `"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":10,`, 200},
		{"cached tokens are apart", "/v1/messages", `{"model":"cached"}`, `"input_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":2`, 200},
		{"count", "/v1/messages/count_tokens", `{"model":"m","stream":true}`, `{"input_tokens":10}`, 200},
		{"error", "/v1/messages", `{"model":"over"}`, `{"type":"error","error":{"type":"overloaded_error"`, 529},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body, err := post(t, s.URL()+tt.path, tt.body)
			if err != nil || status != tt.status || !strings.Contains(body, tt.want) {
				t.Fatalf("%d %q %v, want %d with %q", status, body, err, tt.status, tt.want)
			}
			if !json.Valid([]byte(body)) {
				t.Errorf("not JSON: %q", body)
			}
		})
	}
}

func TestAMessageStreamHasTheLegalOrder(t *testing.T) {
	s := start(t, Options{})
	s.Play(Match{}, Step{Content: "日本"})
	_, body, err := post(t, s.URL()+"/v1/messages", `{"model":"m","stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for event := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimPrefix(event, "event: "), "\ndata: ")
		var e struct{ Type string }
		if err := json.Unmarshal([]byte(data), &e); !ok || err != nil || e.Type != name {
			t.Errorf("event %q: %v", event, err)
		}
		order = append(order, name)
	}
	want := "message_start content_block_start ping content_block_delta content_block_delta content_block_stop message_delta message_stop"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("order %s", got)
	}
}
