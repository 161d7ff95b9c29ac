package translate

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// ChatAnswer translates a whole Messages answer into a chat.completion. created
// is in seconds of Unix time; model is shown to the client. Errors wrap
// ErrAnswer. Blocks that a chat completion has no room for, such as those of
// tools that ran at the upstream, are left out.
func ChatAnswer(body []byte, model string, created int64) ([]byte, error) {
	if !json.Valid(body) {
		return nil, fmt.Errorf("%w: not valid JSON", ErrAnswer)
	}
	w := walk(body) // without the white space around it
	var kind, id, content, stop, cost []byte
	for w.obj && w.next() {
		switch string(w.key) {
		case "type":
			kind = w.val
		case "id":
			id = w.val
		case "content":
			content = w.val
		case "stop_reason":
			stop = w.val
		case "usage":
			cost = w.val
		}
	}
	if string(inner(kind)) != "message" || !isArray(content) {
		return nil, fmt.Errorf("%w: not a message", ErrAnswer)
	}
	var m answerMessage
	for b := walk(content); b.next(); {
		if err := m.block(b.val); err != nil {
			return nil, err
		}
	}
	out := make([]byte, 0, len(body)+512)
	out = append(out, `{"id":"chatcmpl-`...)
	out = append(append(out, inner(id)...), `","object":"chat.completion","created":`...)
	out = append(strconv.AppendInt(out, created, 10), `,"model":`...)
	out = append(quote(out, []byte(model)), `,"choices":[{"index":0,"message":`...)
	out = append(m.append(out), `,"logprobs":null,"finish_reason":"`...)
	out = append(append(out, finishReason(stop)...), `"}]`...)
	var u chatUsage
	if u.merge(cost); u.known {
		out = u.append(append(out, `,"usage":`...))
	}
	return append(out, '}'), nil
}

// answerMessage is the message of an answer: what is between the quotes of its
// texts, and its calls and thinking as blocks.
type answerMessage struct {
	text, reasoning, thinking, calls []byte
	spoke                            bool // there is a block of text, be it empty
}

func (m *answerMessage) block(raw []byte) error {
	if !isObject(raw) {
		return fmt.Errorf("%w: a block that is not an object", ErrAnswer)
	}
	b := readBlock(raw)
	switch b.kind {
	case blockText:
		m.text, m.spoke = append(m.text, inner(b.text)...), true
	case blockThinking:
		m.reasoning = append(m.reasoning, inner(b.text)...)
		m.thinking = compact(comma(m.thinking), raw)
	case blockRedacted:
		m.thinking = compact(comma(m.thinking), raw)
	case blockTool:
		if !isString(b.id) || !isString(b.name) {
			return fmt.Errorf("%w: a call without id or name", ErrAnswer)
		}
		m.calls = append(comma(m.calls), `{"id":`...)
		m.calls = append(append(m.calls, b.id...), `,"type":"function","function":{"name":`...)
		m.calls = append(append(m.calls, b.name...), `,"arguments":`...)
		m.calls = append(quote(m.calls, inputOf(b.input)), '}', '}')
	}
	return nil
}

// inputOf returns the input of a call as the text of its arguments.
func inputOf(input []byte) []byte {
	if !isObject(input) {
		return []byte("{}")
	}
	return compact(nil, input)
}

func (m *answerMessage) append(dst []byte) []byte {
	dst = append(dst, `{"role":"assistant","content":`...)
	if len(m.text) > 0 || m.spoke && m.calls == nil {
		dst = append(append(append(dst, '"'), m.text...), '"')
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"refusal":null`...)
	if m.reasoning != nil {
		dst = append(append(append(dst, `,"reasoning_content":"`...), m.reasoning...), '"')
	}
	if m.thinking != nil {
		dst = append(append(append(dst, `,"thinking_blocks":[`...), m.thinking...), ']')
	}
	if m.calls != nil {
		dst = append(append(append(dst, `,"tool_calls":[`...), m.calls...), ']')
	}
	return append(dst, '}')
}

// finishReason translates a stop_reason; one that is not known is a "stop".
func finishReason(stop []byte) string {
	switch string(inner(stop)) {
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "tool_use":
		return "tool_calls"
	case "refusal":
		return "content_filter"
	}
	return "stop"
}

// blockKind is what a content block is to a chat completion.
type blockKind int

const (
	blockOther blockKind = iota
	blockText
	blockThinking
	blockRedacted
	blockTool
)

// answerBlock is a content block, whole or as a stream begins it.
type answerBlock struct {
	kind                  blockKind
	text, id, name, input []byte
}

func readBlock(raw []byte) answerBlock {
	var b answerBlock
	var kind, thinking, text []byte
	for w := walk(raw); w.next(); {
		switch string(w.key) {
		case "type":
			kind = w.val
		case "text":
			text = w.val
		case "thinking":
			thinking = w.val
		case "id":
			b.id = w.val
		case "name":
			b.name = w.val
		case "input":
			b.input = w.val
		}
	}
	switch string(inner(kind)) {
	case "text":
		b.kind, b.text = blockText, text
	case "thinking":
		b.kind, b.text = blockThinking, thinking
	case "redacted_thinking":
		b.kind = blockRedacted
	case "tool_use":
		b.kind = blockTool
	}
	return b
}
