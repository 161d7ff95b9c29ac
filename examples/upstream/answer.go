package upstream

import (
	"encoding/json"
	"fmt"
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
	Input json.RawMessage `json:"input"`
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
		a.chunks = []Chunk{{Text: errorOf(route, a.status, "scripted failure")}}
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
	content := step.Content
	if content == "" {
		content = "hello-world"
	}
	usage := Usage{Prompt: 10, Completion: 20}
	if step.Usage != nil {
		usage = *step.Usage
	}
	m := maker{id: seq, model: q.Model, content: content, usage: usage, noUsage: step.NoUsage}
	a.header.Set("Content-Type", "application/json")
	a.header.Set("X-Request-Id", fmt.Sprintf("req-%d", seq))
	if isMessages(route) {
		a.header.Set("Request-Id", fmt.Sprintf("req-%d", seq))
	}
	if q.Stream && route != "embeddings" && route != "messages/count_tokens" {
		a.header.Set("Content-Type", "text/event-stream")
		a.chunks = m.stream(route, q.wantsUsage(), step.ChunkDelayMS)
		return
	}
	a.whole = true
	switch route {
	case "completions":
		a.chunks = []Chunk{{Text: m.completion()}}
	case "embeddings":
		a.chunks = []Chunk{{Text: m.embeddings(q.Input)}}
	case "messages":
		a.chunks = []Chunk{{Text: m.message()}}
	case "messages/count_tokens":
		a.chunks = []Chunk{{Text: m.tokenCount()}}
	default:
		a.chunks = []Chunk{{Text: m.chat()}}
	}
}

// maker writes default bodies. The creation time is fixed so that equal
// requests get equal answers but for the id.
type maker struct {
	id             int64
	model, content string
	usage          Usage
	noUsage        bool
}

const created = 1750000000

func (m maker) chat() string {
	return fmt.Sprintf(`{"id":"chatcmpl-%d","object":"chat.completion","created":%d,"model":%s,"choices":[{"index":0,"message":{"role":"assistant","content":%s,"refusal":null},"logprobs":null,"finish_reason":"stop"}]%s}`,
		m.id, created, quote(m.model), quote(m.content), m.usageField())
}

func (m maker) completion() string {
	return fmt.Sprintf(`{"id":"cmpl-%d","object":"text_completion","created":%d,"model":%s,"choices":[{"index":0,"text":%s,"logprobs":null,"finish_reason":"stop"}]%s}`,
		m.id, created, quote(m.model), quote(m.content), m.usageField())
}

// embeddings gives one small vector per input string.
func (m maker) embeddings(input json.RawMessage) string {
	n := 1
	var list []json.RawMessage
	if json.Unmarshal(input, &list) == nil && len(list) > 0 {
		n = len(list)
	}
	var data []string
	for i := range n {
		data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[0.25,-0.5,0.125]}`, i))
	}
	usage := ""
	if !m.noUsage {
		usage = fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"total_tokens":%d}`, m.usage.Prompt, m.usage.Prompt)
	}
	return fmt.Sprintf(`{"object":"list","data":[%s],"model":%s%s}`, strings.Join(data, ","), quote(m.model), usage)
}

// stream gives a role, two deltas, a finish reason, the usage if it was asked
// for, and the end mark; one chunk each.
func (m maker) stream(route string, usage bool, delayMS int) []Chunk {
	if route == "messages" {
		return m.messageStream(delayMS)
	}
	half := m.half()
	var chunks []Chunk
	event := func(data string) {
		chunks = append(chunks, Chunk{Text: "data: " + data + "\n\n", DelayMS: delayMS})
	}
	tail := ""
	if usage {
		tail = `,"usage":null`
	}
	object, id := "chat.completion.chunk", "chatcmpl"
	delta := func(text string) string { return `"delta":{"content":` + quote(text) + `}` }
	if route == "completions" {
		object, id = "text_completion", "cmpl"
		delta = func(text string) string { return `"text":` + quote(text) }
	}
	head := fmt.Sprintf(`{"id":"%s-%d","object":"%s","created":%d,"model":%s,`, id, m.id, object, created, quote(m.model))
	if route != "completions" {
		event(head + `"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]` + tail + `}`)
	}
	for _, text := range []string{m.content[:half], m.content[half:]} {
		event(head + `"choices":[{"index":0,` + delta(text) + `,"finish_reason":null}]` + tail + `}`)
	}
	last := `"delta":{}`
	if route == "completions" {
		last = `"text":""`
	}
	event(head + `"choices":[{"index":0,` + last + `,"finish_reason":"stop"}]` + tail + `}`)
	if usage && !m.noUsage {
		event(head + `"choices":[]` + m.usageField() + `}`)
	}
	event("[DONE]")
	return chunks
}

// half is where the content is cut in two: never inside a character, as JSON
// strings must stay valid.
func (m maker) half() int {
	half := len(m.content) / 2
	for half > 0 && half < len(m.content) && m.content[half]&0xC0 == 0x80 {
		half--
	}
	return half
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
