package translate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// ChatStream translates the events of one Messages stream into
// chat.completion.chunk events. It belongs to one goroutine. Memory is bounded
// by maxBlocks, maxInputs and by what is kept of thinking, see maxThinking.
//
// The order of what comes out is always legal: a chunk with the role, deltas,
// one chunk with the finish_reason, the usage if it was asked for, [DONE]. An
// error of the upstream ends it instead, and nothing follows.
type ChatStream struct {
	model   []byte // quoted
	created int64
	usage   bool

	head, tail []byte // what stands around each delta; nil until the first event
	blocks     []openBlock
	calls      int // tool calls so far
	inputs     int // bytes of the inputs that open blocks keep
	stop       []byte
	cost       chatUsage
	stopped    bool // message_stop is behind
	failed     bool // an error was told
}

// openBlock is a content block that has begun and not ended.
type openBlock struct {
	index int64
	kind  blockKind

	call  int    // of a tool: its place among the calls
	said  bool   // of a tool: arguments were passed on
	input []byte // of a tool: the input that it began with

	thinking, signature []byte // of thinking: what is between the quotes
	long                bool   // of thinking: more of it than is kept
}

const (
	// maxBlocks bounds the blocks that may be open at once; real streams have one.
	maxBlocks = 256
	// maxThinking bounds the bytes of one block of thinking that are kept in
	// order to hand it out whole, with its signature, when it ends. Of a longer
	// one the client sees reasoning_content alone.
	maxThinking = 1 << 20
	// maxInputs bounds the bytes of the inputs that open blocks of tools began
	// with; real ones begin with {}.
	maxInputs = 16 << 20
)

// NewChatStream returns the translator of one stream. created is in seconds of
// Unix time, model is shown to the client, and usage says that the client asked
// for a chunk of usage.
func NewChatStream(model string, created int64, usage bool) *ChatStream {
	return &ChatStream{model: quote(nil, []byte(model)), created: created, usage: usage}
}

// Event takes one event, its name, which may be "", and its data, and appends
// whole events to dst, or nothing. data may be reused afterwards. Errors wrap
// ErrAnswer; the stream cannot go on then, and dst holds what was good.
func (s *ChatStream) Event(dst []byte, name string, data []byte) ([]byte, error) {
	data = bytes.TrimSpace(data)
	if s.stopped || s.failed || len(data) == 0 || string(data) == "[DONE]" {
		return dst, nil
	}
	if !isObject(data) || !json.Valid(data) {
		return dst, fmt.Errorf("%w: an event that is not a JSON object", ErrAnswer)
	}
	e := readEvent(data)
	if k := inner(e.kind); k != nil {
		name = string(k)
	}
	if len(e.failure) > 0 && !isNull(e.failure) {
		name = "error" // servers that imitate leave its type out
	}
	switch name {
	case "message_start":
		return s.start(dst, e.message), nil
	case "content_block_start":
		return s.blockStart(s.start(dst, nil), &e)
	case "content_block_delta":
		return s.blockDelta(s.start(dst, nil), &e)
	case "content_block_stop":
		return s.blockStop(dst, e.number()), nil
	case "message_delta":
		s.messageDelta(&e)
	case "message_stop":
		return s.messageStop(s.start(dst, nil)), nil
	case "error":
		return s.fail(dst, data), nil
	}
	return dst, nil
}

// End appends what is due when the upstream's stream has ended: [DONE] if it
// ended with a message_stop. ok is false if it was cut: the caller then tells
// the client so. After an error of the upstream's own, which the client has
// been told, nothing is due and ok is true.
func (s *ChatStream) End(dst []byte) (out []byte, ok bool) {
	if s.stopped {
		return append(dst, "data: [DONE]\n\n"...), true
	}
	return dst, s.failed
}

// streamEvent is the members of an event, of whatever type it is.
type streamEvent struct {
	kind, message, index, block, delta, cost, failure []byte
}

func readEvent(data []byte) (e streamEvent) {
	for w := walk(data); w.next(); {
		switch string(w.key) {
		case "type":
			e.kind = w.val
		case "message":
			e.message = w.val
		case "index":
			e.index = w.val
		case "content_block":
			e.block = w.val
		case "delta":
			e.delta = w.val
		case "usage":
			e.cost = w.val
		case "error":
			e.failure = w.val
		}
	}
	return e
}

// number returns the index of the block that the event is about, -1 for none.
func (e *streamEvent) number() int64 {
	n, err := strconv.ParseInt(string(e.index), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// start appends the first chunk, once. message may be nil.
func (s *ChatStream) start(dst, message []byte) []byte {
	var id []byte
	for w := walk(message); w.obj && w.next(); {
		switch string(w.key) {
		case "id":
			id = inner(w.val)
		case "usage":
			s.cost.merge(w.val)
		}
	}
	if s.head != nil {
		return dst
	}
	h := append([]byte(`data: {"id":"chatcmpl-`), id...)
	h = append(h, `","object":"chat.completion.chunk","created":`...)
	h = append(strconv.AppendInt(h, s.created, 10), `,"model":`...)
	s.head = append(append(h, s.model...), `,"choices":[`...)
	s.tail = []byte("]}\n\n")
	if s.usage { // as OpenAI has it: null in all chunks but the last
		s.tail = []byte(`],"usage":null}` + "\n\n")
	}
	return s.delta(dst, `"role":"assistant","content":"`, nil, `"`)
}

// delta appends a chunk whose delta has the members before+value+after.
func (s *ChatStream) delta(dst []byte, before string, value []byte, after string) []byte {
	dst = append(append(dst, s.head...), `{"index":0,"delta":{`...)
	dst = append(append(append(dst, before...), value...), after...)
	dst = append(dst, `},"logprobs":null,"finish_reason":null}`...)
	return append(dst, s.tail...)
}

func (s *ChatStream) messageDelta(e *streamEvent) {
	for w := walk(e.delta); w.obj && w.next(); {
		if string(w.key) == "stop_reason" && isString(w.val) {
			s.stop = append(s.stop[:0], w.val...)
		}
	}
	s.cost.merge(e.cost)
}

// messageStop appends what closes an answer. The finish_reason has waited for
// this: before it, the answer could still be cut.
func (s *ChatStream) messageStop(dst []byte) []byte {
	for len(s.blocks) > 0 {
		dst = s.blockStop(dst, s.blocks[0].index)
	}
	s.stopped = true
	dst = append(append(dst, s.head...), `{"index":0,"delta":{},"logprobs":null,"finish_reason":"`...)
	dst = append(append(dst, finishReason(s.stop)...), '"', '}')
	dst = append(dst, s.tail...)
	if s.usage && s.cost.known {
		dst = append(append(dst, s.head...), `],"usage":`...)
		dst = append(s.cost.append(dst), "}\n\n"...)
	}
	return dst
}

// fail appends an error of the upstream, which ends the stream.
func (s *ChatStream) fail(dst, data []byte) []byte {
	s.failed = true
	kind, message := readError(data)
	if kind == nil {
		kind = []byte(`"api_error"`)
	}
	if message == nil {
		message = []byte(`"The upstream ended the stream with an error."`)
	}
	if statusOf(kind) == 401 { // not the client's credential
		kind, message = []byte(`"api_error"`), quote(nil, []byte(refusedOurs))
	}
	dst = appendError(append(dst, "data: "...), kind, message, statusOf(kind))
	return append(dst, '\n', '\n')
}
