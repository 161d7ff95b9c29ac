package upstream

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// told is an answer that uses all that a step can say.
var told = Step{
	Times: Forever, Content: "Grüße 🙂", Thinking: "hm, 世界",
	Tools: []ToolCall{{ID: "a", Name: "weather", Arguments: `{"city":"Malm\u00f6"}`}, {ID: "b", Name: "now"}},
	Usage: &Usage{Prompt: 25, Completion: 15, Cached: 5},
}

// events takes a stream apart; each event must be JSON and carry its type as its name.
func events(t *testing.T, body string) []map[string]any {
	t.Helper()
	var list []map[string]any
	for event := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(event, "\ndata: ")
		var o map[string]any
		if err := json.Unmarshal([]byte(data), &o); err != nil || !ok {
			t.Fatalf("event %q: %v", event, err)
		}
		if name != "event: "+o["type"].(string) {
			t.Errorf("the event is named %q and has the type %v", name, o["type"])
		}
		list = append(list, o)
	}
	return list
}

func TestAMessageStreamAddsUpToTheWholeMessage(t *testing.T) {
	s := start(t, Options{})
	s.Play(Match{}, told)
	_, whole, err := post(t, s.URL()+"/v1/messages", `{"model":"m"}`)
	if err != nil {
		t.Fatal(err)
	}
	var message struct {
		Content []struct {
			Type, Text, Thinking, Signature, ID string
			Input                               json.RawMessage
		}
		StopReason string `json:"stop_reason"`
	}
	if err := json.Unmarshal([]byte(whole), &message); err != nil {
		t.Fatal(err)
	}
	_, body, err := post(t, s.URL()+"/v1/messages", `{"model":"m","stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	sums := make([]string, len(message.Content))
	order := ""
	for _, e := range events(t, body) {
		order += e["type"].(string) + " "
		if e["type"] != "content_block_delta" {
			continue
		}
		delta := e["delta"].(map[string]any)
		for _, field := range []string{"text", "thinking", "partial_json"} {
			if part, ok := delta[field].(string); ok {
				sums[int(e["index"].(float64))] += part
			}
		}
	}
	want := []string{message.Content[0].Thinking, message.Content[1].Text, `{"city":"Malm\u00f6"}`, ""}
	if fmt.Sprint(sums) != fmt.Sprint(want) || want[1] != told.Content || message.StopReason != "tool_use" {
		t.Errorf("the stream adds up to %q, the whole is %s", sums, whole)
	}
	if !strings.HasPrefix(order, "message_start ping content_block_start ") || !strings.HasSuffix(order, "content_block_stop message_delta message_stop ") {
		t.Errorf("events %s", order)
	}
}

func TestAResponseStreamNumbersItsEventsAndEndsWithTheWholeResponse(t *testing.T) {
	s := start(t, Options{})
	s.Play(Match{}, told)
	_, body, err := post(t, s.URL()+"/v1/responses", `{"model":"m","stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	list := events(t, body)
	for i, e := range list {
		if e["sequence_number"] != float64(i) {
			t.Errorf("event %d has the number %v", i, e["sequence_number"])
		}
	}
	last := list[len(list)-1]
	response, _ := last["response"].(map[string]any)
	if last["type"] != "response.completed" || len(response["output"].([]any)) != 3 || response["usage"] == nil {
		t.Errorf("the last event is %v", last)
	}
}

func TestAChatStreamGivesParallelCallsByTurnsAndTheirNamesOnce(t *testing.T) {
	s := start(t, Options{})
	s.Play(Match{}, told)
	_, body, err := post(t, s.URL()+"/chat/completions", `{"model":"m","stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(body, `"name":"weather"`) != 1 || strings.Count(body, `"name":"now"`) != 1 {
		t.Errorf("names are repeated or lost: %s", body)
	}
	if !strings.Contains(body, `"finish_reason":"tool_calls"`) || !strings.Contains(body, `"index":1`) {
		t.Errorf("no second call, or another finish reason: %s", body)
	}
}

func TestStoredResponsesCanBeReadAndDeletedOnce(t *testing.T) {
	s := start(t, Options{})
	_, made, err := post(t, s.URL()+"/v1/responses", `{"model":"m"}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method string
		status int
		want   string
	}{
		{http.MethodGet, 200, made},
		{http.MethodPatch, 405, ""},
		{http.MethodDelete, 200, `{"deleted":true,"id":"resp_1","object":"response"}`},
		{http.MethodGet, 404, ""},
		{http.MethodDelete, 404, ""},
	} {
		status, body := send(t, tt.method, s.URL()+"/v1/responses/resp_1", "", nil)
		if status != tt.status || tt.want != "" && body != tt.want {
			t.Errorf("%s: %d %s, want %d %s", tt.method, status, body, tt.status, tt.want)
		}
	}
}

func TestAnswersHaveTheShapeOfTheirRoute(t *testing.T) {
	s := start(t, Options{Models: []string{"m"}})
	anthropic := http.Header{"Anthropic-Version": {"2023-06-01"}}
	s.Play(Match{Model: "broken"}, Step{Times: Forever, Status: 529, Content: "busy"})
	for _, tt := range []struct {
		name, path, body string
		header           http.Header
		status           int
		want             string
	}{
		{"count_tokens", "/v1/messages/count_tokens", `{"model":"m"}`, nil, 200, `{"input_tokens":10}`},
		{"embeddings as numbers", "/v1/embeddings", `{"model":"m","input":"a"}`, nil, 200, `"embedding":[0.25,-0.5,0.125]`},
		{"embeddings as base64", "/v1/embeddings", `{"model":"m","input":"a","encoding_format":"base64"}`, nil, 200, `"embedding":"AACAPgAAAL8AAAA+"`},
		{"OpenAI's models", "/v1/models", "", nil, 200, `"object":"list"`},
		{"Anthropic's models", "/v1/models", "", anthropic, 200, `"has_more":false`},
		{"one model", "/v1/models/m", "", anthropic, 200, `"display_name":"m"`},
		{"no such model", "/v1/models/n", "", anthropic, 404, `"type":"not_found_error"`},
		{"OpenAI's errors", "/v1/chat/completions", `{"model":"broken"}`, nil, 529, `{"error":{"message":"busy"`},
		{"Anthropic's errors", "/v1/messages", `{"model":"broken"}`, nil, 529, `{"error":{"message":"busy","type":"overloaded_error"},"type":"error"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			method := http.MethodGet
			if tt.body != "" {
				method = http.MethodPost
			}
			status, body := send(t, method, s.URL()+tt.path, tt.body, tt.header)
			if status != tt.status || !strings.Contains(body, tt.want) || !json.Valid([]byte(body)) {
				t.Errorf("%d %s, want %d with %s", status, body, tt.status, tt.want)
			}
		})
	}
}

func send(t *testing.T, method, url, body string, header http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
