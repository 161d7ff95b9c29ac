package upstream

import (
	"fmt"
	"strings"
)

// Default answers in Anthropic's dialect. Usage.Cached is what was read from the
// prompt cache; as Anthropic has it, input_tokens are the rest of Prompt.

func (m maker) messageHead(content string) string {
	return fmt.Sprintf(`{"id":"msg_%d","type":"message","role":"assistant","model":%s,"content":%s`, m.id, quote(m.model), content)
}

// messageUsage is the usage member; output is what was generated so far.
func (m maker) messageUsage(output int64) string {
	if m.noUsage {
		return ""
	}
	return fmt.Sprintf(`,"usage":{"input_tokens":%d,"cache_creation_input_tokens":0,"cache_read_input_tokens":%d,"output_tokens":%d}`,
		m.usage.Prompt-m.usage.Cached, m.usage.Cached, output)
}

func (m maker) message() string {
	return m.messageHead(`[{"type":"text","text":`+quote(m.content)+`}]`) + `,"stop_reason":"end_turn","stop_sequence":null` + m.messageUsage(m.usage.Completion) + `}`
}

func (m maker) tokenCount() string { return fmt.Sprintf(`{"input_tokens":%d}`, m.usage.Prompt) }

// messageStream gives a message_start, a ping, one block of text in two deltas,
// a message_delta with the usage and a message_stop; one chunk each.
func (m maker) messageStream(delayMS int) []Chunk {
	var chunks []Chunk
	event := func(name, rest string) {
		chunks = append(chunks, Chunk{Text: "event: " + name + "\ndata: {\"type\":\"" + name + "\"" + rest + "}\n\n", DelayMS: delayMS})
	}
	event("message_start", `,"message":`+m.messageHead("[]")+`,"stop_reason":null,"stop_sequence":null`+m.messageUsage(1)+`}`)
	event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	event("ping", "")
	half := m.half()
	for _, text := range []string{m.content[:half], m.content[half:]} {
		event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":`+quote(text)+`}`)
	}
	event("content_block_stop", `,"index":0`)
	event("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null}`+m.messageUsage(m.usage.Completion))
	event("message_stop", "")
	return chunks
}

// isMessages reports whether a path is one of Anthropic's API.
func isMessages(route string) bool { return strings.HasPrefix(route, "messages") }

// errorOf is the body of an error in the dialect of a route.
func errorOf(route string, status int, message string) string {
	if !isMessages(route) {
		return errorBody(status, message)
	}
	kind := map[int]string{
		401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
		429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error",
	}[status]
	switch {
	case kind != "":
	case status >= 500:
		kind = "api_error"
	default:
		kind = "invalid_request_error"
	}
	return fmt.Sprintf(`{"type":"error","error":{"type":%s,"message":%s},"request_id":"req_mock"}`, quote(kind), quote(message))
}
