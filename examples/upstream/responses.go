package upstream

import (
	"fmt"
	"net/http"
	"path"
	"sync"
)

// response is the whole answer of OpenAI's Responses API, in one of its states.
func (m maker) response(status string, output []object) object {
	o := object{
		"id": fmt.Sprintf("resp_%d", m.id), "object": "response", "created_at": created, "status": status,
		"model": m.model, "output": output, "error": nil, "incomplete_details": nil, "instructions": nil,
		"metadata": object{}, "parallel_tool_calls": true, "temperature": 1, "top_p": 1, "tool_choice": "auto",
		"tools": []object{}, "usage": nil,
	}
	if status == "completed" && !m.noUsage {
		u := m.usage
		o["usage"] = object{
			"input_tokens": u.Prompt, "input_tokens_details": object{"cached_tokens": u.Cached},
			"output_tokens": u.Completion, "output_tokens_details": object{"reasoning_tokens": 0},
			"total_tokens": u.Prompt + u.Completion,
		}
	}
	return o
}

// outputs are the finished items of the answer: its text, then its calls.
func (m maker) outputs() []object {
	list := []object{}
	if m.content != "" {
		list = append(list, m.textItem("completed", []object{outputText(m.content)}))
	}
	for i, t := range m.tools {
		list = append(list, m.callItem(i, t, "completed", t.Arguments))
	}
	return list
}

func (m maker) textItem(status string, content []object) object {
	return object{"id": fmt.Sprintf("msg_%d", m.id), "type": "message", "role": "assistant", "status": status, "content": content}
}

func (m maker) callItem(i int, t ToolCall, status, arguments string) object {
	return object{"id": fmt.Sprintf("fc_%d_%d", m.id, i), "type": "function_call", "status": status, "call_id": t.ID, "name": t.Name, "arguments": arguments}
}

func outputText(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []object{}, "logprobs": []object{}}
}

// responseStream gives the events of the answer in their legal order. There is
// no [DONE]: response.completed ends it.
func (m maker) responseStream(delayMS int) []Chunk {
	s := &eventStream{delayMS: delayMS}
	n := 0
	event := func(o object) {
		o["sequence_number"] = n
		n++
		s.event(o)
	}
	event(object{"type": "response.created", "response": m.response("in_progress", []object{})})
	event(object{"type": "response.in_progress", "response": m.response("in_progress", []object{})})
	index := 0
	item := func(begun, done object, between ...object) {
		event(object{"type": "response.output_item.added", "output_index": index, "item": begun})
		for _, o := range between {
			o["output_index"], o["item_id"] = index, done["id"]
			event(o)
		}
		event(object{"type": "response.output_item.done", "output_index": index, "item": done})
		index++
	}
	if m.content != "" {
		a, b := halves(m.content)
		item(m.textItem("in_progress", []object{}), m.textItem("completed", []object{outputText(m.content)}),
			object{"type": "response.content_part.added", "content_index": 0, "part": outputText("")},
			object{"type": "response.output_text.delta", "content_index": 0, "delta": a, "logprobs": []object{}},
			object{"type": "response.output_text.delta", "content_index": 0, "delta": b, "logprobs": []object{}},
			object{"type": "response.output_text.done", "content_index": 0, "text": m.content, "logprobs": []object{}},
			object{"type": "response.content_part.done", "content_index": 0, "part": outputText(m.content)})
	}
	for i, t := range m.tools {
		var between []object
		for _, piece := range t.pieces() {
			between = append(between, object{"type": "response.function_call_arguments.delta", "delta": piece})
		}
		between = append(between, object{"type": "response.function_call_arguments.done", "name": t.Name, "arguments": t.Arguments})
		item(m.callItem(i, t, "in_progress", ""), m.callItem(i, t, "completed", t.Arguments), between...)
	}
	event(object{"type": "response.completed", "response": m.response("completed", m.outputs())})
	return s.chunks
}

// stored holds finished responses, for GET and DELETE. Safe for any number of goroutines.
type stored struct {
	mu     sync.Mutex
	bodies map[string]string
}

// finished returns the response that a request is answered with, streamed or not.
func finished(step Step, q asked, seq int64) (id, body string) {
	m := makerOf(step, q, seq)
	o := m.response("completed", m.outputs())
	return o["id"].(string), encode(o)
}

func (s *stored) keep(id, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bodies == nil {
		s.bodies = make(map[string]string)
	}
	s.bodies[id] = body
}

func (s *stored) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = nil
}

// answer is what GET and DELETE of a response get.
func (s *stored) answer(method, urlPath string) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := path.Base(urlPath)
	body, ok := s.bodies[id]
	switch {
	case !ok:
		return Step{Status: http.StatusNotFound, Body: errorBody(http.StatusNotFound, "Response with id '"+id+"' not found.")}
	case method == http.MethodGet:
		return Step{Body: body}
	case method == http.MethodDelete:
		delete(s.bodies, id)
		return Step{Body: encode(object{"id": id, "object": "response", "deleted": true})}
	}
	return Step{Status: http.StatusMethodNotAllowed}
}
