package upstream

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
)

// answer is what goes out, whether it was scripted or made up.
type answer struct {
	status int
	header http.Header
	chunks []Chunk
	whole  bool // one body with a known length, not a stream
}

// asked is what the mock reads of a request's body.
type asked struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Input          json.RawMessage `json:"input"`
	EncodingFormat string          `json:"encoding_format"`
}

func (a asked) wantsUsage() bool { return a.StreamOptions != nil && a.StreamOptions.IncludeUsage }

// compose turns a step into bytes for this request.
func compose(step Step, route string, q asked, seq int64) answer {
	a := answer{status: step.Status, header: http.Header{}}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	switch {
	case len(step.Chunks) > 0:
		a.chunks = step.Chunks
		a.header.Set("Content-Type", "text/event-stream")
	case step.Body != "":
		a.whole = true
		a.chunks = []Chunk{{Text: step.Body}}
		a.header.Set("Content-Type", "application/json")
	case a.status >= 400:
		a.whole = true
		a.chunks = []Chunk{{Text: failure(route, a.status, step.Content)}}
		a.header.Set("Content-Type", "application/json")
	default:
		makeUp(&a, step, route, q, seq)
	}
	for k, v := range step.Header {
		a.header.Set(k, v)
	}
	return a
}

// makeUp fills in the default answer of a route.
func makeUp(a *answer, step Step, route string, q asked, seq int64) {
	m := makerOf(step, q, seq)
	a.header.Set("Content-Type", "application/json")
	a.header.Set("X-Request-Id", fmt.Sprintf("req-%d", seq))
	if anthropicRoute(route) {
		a.header.Set("Request-Id", fmt.Sprintf("req-%d", seq))
	}
	if q.Stream && route != "embeddings" && route != "count_tokens" {
		a.header.Set("Content-Type", "text/event-stream")
		a.chunks = m.streamOf(route, q.wantsUsage(), step.ChunkDelayMS)
		return
	}
	a.whole = true
	a.chunks = []Chunk{{Text: m.whole(route, q)}}
}

func (m maker) streamOf(route string, usage bool, delayMS int) []Chunk {
	switch route {
	case "messages":
		return m.messageStream(delayMS)
	case "responses":
		return m.responseStream(delayMS)
	}
	return m.stream(route, usage, delayMS)
}

func (m maker) whole(route string, q asked) string {
	switch route {
	case "completions":
		return m.completion()
	case "embeddings":
		return m.embeddings(q.Input, q.EncodingFormat == "base64")
	case "messages":
		return m.message()
	case "count_tokens":
		return m.countTokens()
	case "responses":
		return encode(m.response("completed", m.outputs()))
	}
	return m.chat()
}

func anthropicRoute(route string) bool { return route == "messages" || route == "count_tokens" }

// failure is the error body of a route.
func failure(route string, status int, message string) string {
	if message == "" {
		message = "scripted failure"
	}
	if anthropicRoute(route) {
		return anthropicError(status, message)
	}
	return errorBody(status, message)
}

// maker writes default bodies. The creation time is fixed so that equal
// requests get equal answers but for the id.
type maker struct {
	id                       int64
	model, content, thinking string
	tools                    []ToolCall
	usage                    Usage
	noUsage                  bool
}

const created = 1750000000

func makerOf(step Step, q asked, seq int64) maker {
	m := maker{
		id: seq, model: q.Model, content: step.Content, thinking: step.Thinking, tools: step.Tools,
		usage: Usage{Prompt: 10, Completion: 20}, noUsage: step.NoUsage,
	}
	if m.content == "" && len(m.tools) == 0 {
		m.content = "hello-world"
	}
	if step.Usage != nil {
		m.usage = *step.Usage
	}
	return m
}

func (m maker) chat() string {
	message := object{"role": "assistant", "content": m.content, "refusal": nil}
	if len(m.tools) > 0 {
		message["tool_calls"] = chatCalls(m.tools)
	}
	if m.content == "" {
		message["content"] = nil
	}
	if m.thinking != "" {
		message["reasoning_content"] = m.thinking
	}
	return fmt.Sprintf(`{"id":"chatcmpl-%d","object":"chat.completion","created":%d,"model":%s,"choices":[{"index":0,"message":%s,"logprobs":null,"finish_reason":%q}]%s}`,
		m.id, created, quote(m.model), encode(message), m.finishReason(), m.usageField())
}

func (m maker) finishReason() string {
	if len(m.tools) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func (m maker) completion() string {
	return fmt.Sprintf(`{"id":"cmpl-%d","object":"text_completion","created":%d,"model":%s,"choices":[{"index":0,"text":%s,"logprobs":null,"finish_reason":"stop"}]%s}`,
		m.id, created, quote(m.model), quote(m.content), m.usageField())
}

// vector is what every input is embedded as: exact in 32 bits.
var vector = []float32{0.25, -0.5, 0.125}

// embeddings gives one small vector per input string, as numbers or, as clients
// ask for by default, packed as base64.
func (m maker) embeddings(input json.RawMessage, packed bool) string {
	n := 1
	var list []json.RawMessage
	if json.Unmarshal(input, &list) == nil && len(list) > 0 {
		n = len(list)
	}
	embedding := encode(vector)
	if packed {
		var b []byte
		for _, f := range vector {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
		}
		embedding = encode(b) // bytes encode as base64
	}
	var data []string
	for i := range n {
		data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, embedding))
	}
	usage := ""
	if !m.noUsage {
		usage = fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"total_tokens":%d}`, m.usage.Prompt, m.usage.Prompt)
	}
	return fmt.Sprintf(`{"object":"list","data":[%s],"model":%s%s}`, strings.Join(data, ","), quote(m.model), usage)
}

// stream gives a role, the deltas, a finish reason, the usage if it was asked
// for, and the end mark; one chunk each.
func (m maker) stream(route string, usage bool, delayMS int) []Chunk {
	var chunks []Chunk
	event := func(data string) {
		chunks = append(chunks, Chunk{Text: "data: " + data + "\n\n", DelayMS: delayMS})
	}
	tail := ""
	if usage {
		tail = `,"usage":null`
	}
	kind, id := "chat.completion.chunk", "chatcmpl"
	if route == "completions" {
		kind, id = "text_completion", "cmpl"
	}
	head := fmt.Sprintf(`{"id":"%s-%d","object":"%s","created":%d,"model":%s,`, id, m.id, kind, created, quote(m.model))
	choice := func(delta, finish string) {
		event(head + `"choices":[{"index":0,` + delta + `,"finish_reason":` + finish + `}]` + tail + `}`)
	}
	if route == "completions" {
		a, b := halves(m.content)
		for _, text := range []string{a, b} {
			choice(`"text":`+quote(text), "null")
		}
		choice(`"text":""`, `"stop"`)
	} else {
		for _, delta := range m.chatDeltas() {
			choice(`"delta":`+encode(delta), "null")
		}
		choice(`"delta":{}`, quote(m.finishReason()))
	}
	if usage && !m.noUsage {
		event(head + `"choices":[]` + m.usageField() + `}`)
	}
	event("[DONE]")
	return chunks
}

// chatDeltas are the role, then thinking, text and calls in pieces.
func (m maker) chatDeltas() []object {
	list := []object{{"role": "assistant", "content": ""}}
	for _, part := range []struct{ field, text string }{{"reasoning_content", m.thinking}, {"content", m.content}} {
		if part.text == "" {
			continue
		}
		a, b := halves(part.text)
		list = append(list, object{part.field: a}, object{part.field: b})
	}
	return append(list, chatCallDeltas(m.tools)...)
}

func (m maker) usageField() string {
	if m.noUsage {
		return ""
	}
	u := m.usage
	return fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`,
		u.Prompt, u.Completion, u.Prompt+u.Completion, u.Cached)
}

func models(names []string) string {
	var list []string
	for _, n := range names {
		list = append(list, fmt.Sprintf(`{"id":%s,"object":"model","created":%d,"owned_by":"mock"}`, quote(n), created))
	}
	return `{"object":"list","data":[` + strings.Join(list, ",") + `]}`
}

func errorBody(status int, message string) string {
	return fmt.Sprintf(`{"error":{"message":%s,"type":"mock_error","param":null,"code":"%d"}}`, quote(message), status)
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // cannot be: a string always encodes
		return `""`
	}
	return string(b)
}
