package upstream

import (
	"fmt"
	"net/http"
)

// object is a JSON object that is put together by hand; it encodes with its
// fields in alphabetical order.
type object = map[string]any

// message is the whole answer of Anthropic's Messages API.
func (m maker) message() string {
	content := []object{}
	if m.thinking != "" {
		content = append(content, object{"type": "thinking", "thinking": m.thinking, "signature": signature})
	}
	if m.content != "" {
		content = append(content, object{"type": "text", "text": m.content})
	}
	for _, t := range m.tools {
		content = append(content, object{"type": "tool_use", "id": t.ID, "name": t.Name, "input": raw(t.input())})
	}
	o := m.messageHead()
	o["content"], o["stop_reason"] = content, m.stopReason()
	if m.noUsage {
		delete(o, "usage")
	}
	return encode(o)
}

// signature stands for what a provider signs a thinking block with; clients
// must hand it back as it is.
const signature = "c2lnbmVkLWJ5LXRoZS1tb2Nr+/=="

func (m maker) messageHead() object {
	return object{
		"id": fmt.Sprintf("msg_%d", m.id), "type": "message", "role": "assistant", "model": m.model,
		"content": []object{}, "stop_reason": nil, "stop_sequence": nil, "usage": m.messageUsage(m.usage.Completion),
	}
}

// messageUsage counts cached input apart from the rest, as Anthropic does.
func (m maker) messageUsage(output int64) object {
	return object{
		"input_tokens": m.usage.Prompt - m.usage.Cached, "cache_read_input_tokens": m.usage.Cached,
		"cache_creation_input_tokens": 0, "output_tokens": output,
	}
}

func (m maker) stopReason() string {
	if len(m.tools) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

// messageStream gives message_start, the blocks with their deltas and a ping
// after the first start, message_delta with the usage, and message_stop.
func (m maker) messageStream(delayMS int) []Chunk {
	s := &eventStream{delayMS: delayMS}
	head := m.messageHead()
	head["usage"] = m.messageUsage(1)
	delta := object{"type": "message_delta", "delta": object{"stop_reason": m.stopReason(), "stop_sequence": nil}, "usage": object{"output_tokens": m.usage.Completion}}
	if m.noUsage {
		delete(head, "usage")
		delete(delta, "usage")
	}
	s.event(object{"type": "message_start", "message": head})
	s.event(object{"type": "ping"})
	index := 0
	block := func(start object, deltas ...object) {
		s.event(object{"type": "content_block_start", "index": index, "content_block": start})
		for _, d := range deltas {
			s.event(object{"type": "content_block_delta", "index": index, "delta": d})
		}
		s.event(object{"type": "content_block_stop", "index": index})
		index++
	}
	if m.thinking != "" {
		a, b := halves(m.thinking)
		block(object{"type": "thinking", "thinking": "", "signature": ""},
			object{"type": "thinking_delta", "thinking": a}, object{"type": "thinking_delta", "thinking": b},
			object{"type": "signature_delta", "signature": signature})
	}
	if m.content != "" {
		a, b := halves(m.content)
		block(object{"type": "text", "text": ""}, object{"type": "text_delta", "text": a}, object{"type": "text_delta", "text": b})
	}
	for _, t := range m.tools {
		deltas := []object{{"type": "input_json_delta", "partial_json": ""}}
		for _, piece := range t.pieces() {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": piece})
		}
		block(object{"type": "tool_use", "id": t.ID, "name": t.Name, "input": object{}}, deltas...)
	}
	s.event(delta)
	s.event(object{"type": "message_stop"})
	return s.chunks
}

func (m maker) countTokens() string { return encode(object{"input_tokens": m.usage.Prompt}) }

// anthropicTypes are the names that Anthropic's errors have by their status.
var anthropicTypes = map[int]string{
	http.StatusBadRequest:            "invalid_request_error",
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusGatewayTimeout:        "timeout_error",
	529:                              "overloaded_error",
}

func anthropicError(status int, message string) string {
	kind := anthropicTypes[status]
	if kind == "" {
		kind = "api_error"
	}
	return encode(object{"type": "error", "error": object{"type": kind, "message": message}})
}

func anthropicModels(names []string) string {
	list := []object{}
	for _, n := range names {
		list = append(list, anthropicModel(n))
	}
	o := object{"data": list, "has_more": false, "first_id": nil, "last_id": nil}
	if len(names) > 0 {
		o["first_id"], o["last_id"] = names[0], names[len(names)-1]
	}
	return encode(o)
}

func anthropicModel(name string) object {
	return object{"id": name, "type": "model", "display_name": name, "created_at": "2025-06-15T00:00:00Z"}
}
