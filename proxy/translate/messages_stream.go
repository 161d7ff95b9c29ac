package translate

import (
	"bytes"
	"errors"
	"strconv"
)

// errNotChunk is returned for an event that is no chunk of a chat completion.
var errNotChunk = errors.New("the upstream's event is not a chunk of a chat completion")

// errHeldBack is returned when an upstream mixes its blocks so much, or makes so
// many calls, that more would have to be kept than is sane.
var errHeldBack = errors.New("the upstream makes more tool calls, or interleaves them more, than can be put in order")

// MessagesStream translates the chunks of a chat completion into the events of
// a Messages stream, one after the other, without a clock or a goroutine. It
// belongs to one request and to one goroutine at a time.
//
// The order is always legal: message_start; blocks with consecutive indices, of
// which one is open at a time; message_delta with the usage; message_stop. The
// last two wait for the upstream's end, as usage comes after the finish_reason.
// After an error there is no message_stop.
type MessagesStream struct {
	model, id string

	started bool
	over    bool // message_stop or an error event is out, or Event failed
	failed  bool
	stop    msgStop
	usage   msgUsage
	blocks  msgBlocks
}

// NewMessagesStream starts a stream in which the message has this id ("msg_…")
// and its model is called model.
func NewMessagesStream(model string, id string) *MessagesStream {
	return &MessagesStream{model: model, id: id, blocks: msgBlocks{message: id}}
}

// Event takes the data of one upstream event, "[DONE]" included, and appends
// to dst whole events of the Messages stream: none, one or several. After an
// error the upstream cannot be understood any more: every further Event
// appends nothing, and End says that the stream was cut. data is not kept.
func (s *MessagesStream) Event(dst []byte, data []byte) ([]byte, error) {
	data = msgTrim(data)
	if s.over || len(data) == 0 {
		return dst, nil
	}
	if string(data) == "[DONE]" {
		return s.finish(dst), nil
	}
	if !msgValid(data) || data[0] != '{' {
		s.over, s.failed = true, true
		return dst, errNotChunk
	}
	var failure, usage, choices []byte
	msgPick(data, msgTake("error", &failure), msgTake("usage", &usage), msgTake("choices", &choices))
	if failure != nil {
		s.over = true // and not failed: the client is told
		return msgAppendFailure(dst, data, failure), nil
	}
	s.usage.note(usage)
	dst = s.start(dst)
	choice, delta := msgFirstChoice(choices)
	if choice == nil {
		if s.stop.reason != "" && usage != nil {
			return s.finish(dst), nil // the last chunk there is
		}
		return dst, nil
	}
	s.stop.note(choice)
	dst = s.delta(dst, delta)
	if max(s.blocks.held, s.blocks.known) > msgMostHeld {
		s.over, s.failed = true, true
		return dst, errHeldBack
	}
	return dst, nil
}

// End appends what is due when the upstream's stream has ended. ok is false if
// it was cut: neither [DONE] nor a finish_reason was seen, or Event failed.
// Then the client has not been told yet: the caller appends an error event.
// After an error of the upstream's that was passed on, ok is true.
func (s *MessagesStream) End(dst []byte) (out []byte, ok bool) {
	switch {
	case s.over:
		return dst, !s.failed
	case s.stop.reason == "":
		s.over, s.failed = true, true
		return dst, false
	}
	return s.finish(dst), true
}

// msgFirstChoice returns the choice to translate and its delta, nil for a chunk
// without one. Only one is ever asked for.
func msgFirstChoice(choices []byte) (choice, delta []byte) {
	for choice := range msgElements(choices) {
		var index, delta []byte
		msgPick(choice, msgTake("index", &index), msgTake("delta", &delta))
		if msgCount(index) == 0 {
			return choice, delta
		}
	}
	return nil, nil
}

// start appends message_start, once.
func (s *MessagesStream) start(dst []byte) []byte {
	if s.started {
		return dst
	}
	s.started = true
	dst = msgOpenEvent(dst, "message_start")
	dst = msgAppendText(append(dst, `,"message":{"id":`...), s.id)
	dst = msgAppendText(append(dst, `,"type":"message","role":"assistant","model":`...), s.model)
	dst = append(dst, `,"content":[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	return msgCloseEvent(append(s.usage.appendTo(dst), '}'))
}

func (s *MessagesStream) delta(dst, delta []byte) []byte {
	said := msgReadSpeech(delta)
	if msgFilled(said.thought) {
		dst = s.blocks.say(dst, msgThinkingBlock, said.thought)
	}
	for text := range said.texts() {
		dst = s.blocks.say(dst, msgTextBlock, text)
	}
	if msgFilled(said.refusal) {
		s.stop.refused = true
		dst = s.blocks.say(dst, msgTextBlock, said.refusal)
	}
	for call := range msgElements(said.calls) {
		var index, id, function []byte
		msgPick(call, msgTake("index", &index), msgTake("id", &id), msgTake("function", &function))
		dst = s.blocks.call(dst, index, id, function)
	}
	if said.function != nil {
		dst = s.blocks.call(dst, []byte("0"), nil, said.function)
	}
	return dst
}

// finish appends everything that is still due.
func (s *MessagesStream) finish(dst []byte) []byte {
	s.over = true
	dst = s.blocks.finish(s.start(dst))
	s.stop.tools = s.blocks.tools
	dst = msgOpenEvent(dst, "message_delta")
	dst = s.stop.appendTo(append(dst, `,"delta":{`...))
	dst = msgCloseEvent(s.usage.appendTo(append(dst, `},"usage":`...)))
	return msgCloseEvent(msgOpenEvent(dst, "message_stop"))
}

// msgAppendFailure appends the upstream's error as an event. Inside a stream there
// is no status but, with some servers, the one that code tells.
func msgAppendFailure(dst, data, failure []byte) []byte {
	code := msgMember(failure, "code")
	status, err := strconv.Atoi(string(bytes.Trim(code, `"`)))
	if err != nil || status < 400 || status > 599 {
		status = 500
	}
	_, body := MessagesError(status, data)
	return append(append(append(dst, "event: error\ndata: "...), body...), "\n\n"...)
}

// msgOpenEvent appends an event up to the type in its data.
func msgOpenEvent(dst []byte, name string) []byte {
	dst = append(append(dst, "event: "...), name...)
	return append(append(append(dst, "\ndata: {\"type\":\""...), name...), '"')
}

func msgCloseEvent(dst []byte) []byte { return append(dst, "}\n\n"...) }
