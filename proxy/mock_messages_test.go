package proxy

import (
	"encoding/json"
	"strings"
	"testing"

	"sluice/limiter"
)

// TestTheMockSpeaksAnthropic, to every kind of client.
func TestTheMockSpeaksAnthropic(t *testing.T) {
	r := newRig(t, mocked(), nil)
	want := limiter.Usage{Input: 10, Output: 20}
	a := r.post("/v1/messages", messageBody)
	if !strings.Contains(a.body, `"content":[{"type":"text","text":"hello big world"}],"stop_reason":"end_turn"`) || !json.Valid([]byte(a.body)) {
		t.Errorf("%s", a.body)
	}
	a = r.post("/v1/messages", messageStream)
	var order []string
	for event := range strings.SplitSeq(strings.TrimSuffix(a.body, "\n\n"), "\n\n") {
		name, data, _ := strings.Cut(strings.TrimPrefix(event, "event: "), "\ndata: ")
		if order = append(order, name); !json.Valid([]byte(data)) {
			t.Errorf("event %q", event)
		}
	}
	if got := strings.Join(order, " "); got != "message_start content_block_start ping content_block_delta content_block_delta content_block_delta content_block_stop message_delta message_stop" {
		t.Errorf("order %s", got)
	}
	for i := range 2 {
		if u := r.gate.spent(t, i); u != want {
			t.Errorf("settled %+v", u)
		}
	}
	if a := r.post("/v1/messages/count_tokens", messageBody); a.body != `{"input_tokens":10}` {
		t.Errorf("%s", a.body)
	}
}
