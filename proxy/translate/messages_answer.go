package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"strconv"
	"strings"
)

// errNotChat is returned for an answer that is no chat completion at all.
var errNotChat = errors.New("the upstream's answer is not a chat completion")

// MessagesAnswer translates a whole chat completion into a Messages answer, in
// which the model is called model. The error means that body is not a chat
// completion; what the model wrote into one never is an error.
//
// Reasoning that the upstream shows becomes a thinking block. Its signature is
// empty, as there is none: MessagesRequest leaves such blocks out of later
// turns, while Anthropic itself would refuse them.
func MessagesAnswer(body []byte, model string) ([]byte, error) {
	if !msgValid(body) {
		return nil, errNotChat
	}
	body = msgTrim(body)
	var choice []byte
	for c := range msgElements(msgMember(body, "choices")) {
		choice = c
		break
	}
	message := msgMember(choice, "message")
	if message == nil || message[0] != '{' {
		return nil, errNotChat
	}
	id := msgAnswerID(body)
	dst := msgAppendText(append(make([]byte, 0, len(body)+256), `{"id":`...), id)
	dst = msgAppendText(append(dst, `,"type":"message","role":"assistant","model":`...), model)
	dst = append(dst, `,"content":[`...)

	var end msgStop
	end.note(choice)
	said := msgReadSpeech(message)
	if msgFilled(said.thought) {
		dst = append(append(dst, `{"type":"thinking","thinking":`...), said.thought...)
		dst = append(dst, `,"signature":""},`...)
	}
	var texts [][]byte
	for text := range said.texts() {
		texts = append(texts, text)
	}
	if msgFilled(said.refusal) {
		end.refused = true
		texts = append(texts, said.refusal)
	}
	if texts != nil {
		dst = msgAppendJoined(append(dst, `{"type":"text","text":`...), "", texts)
		dst = append(dst, `},`...)
	}
	for call := range msgElements(said.calls) {
		dst = msgAppendToolUse(dst, msgMember(call, "id"), msgMember(call, "function"), id, end.tools)
		end.tools++
	}
	if said.function != nil && end.tools == 0 {
		dst = msgAppendToolUse(dst, nil, said.function, id, end.tools)
		end.tools++
	}
	dst = end.appendTo(append(msgCloseList(dst), `],`...))
	var usage msgUsage
	usage.note(msgMember(body, "usage"))
	return append(usage.appendTo(append(dst, `,"usage":`...)), '}'), nil
}

// msgAnswerID makes the id of a message from that of the chat completion, or
// from all of it if it has none.
func msgAnswerID(body []byte) string {
	id := strings.TrimPrefix(string(msgText(msgMember(body, "id"))), "chatcmpl-")
	fit := len(id) > 0 && len(id) <= 128
	for i := range len(id) {
		c := id[i]
		fit = fit && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	}
	if !fit {
		sum := sha256.Sum256(body)
		id = hex.EncodeToString(sum[:12])
	}
	return "msg_" + id
}

// msgSpeech is what a message, or a delta of one, says.
type msgSpeech struct {
	thought, content, refusal, calls, function []byte
}

// msgReadSpeech reads the members of a message or delta. Servers name thoughts in
// two ways; some use both at once for the same text.
func msgReadSpeech(raw []byte) (s msgSpeech) {
	var other []byte
	msgPick(raw, msgTake("reasoning_content", &s.thought), msgTake("reasoning", &other), msgTake("content", &s.content),
		msgTake("refusal", &s.refusal), msgTake("tool_calls", &s.calls), msgTake("function_call", &s.function))
	if !msgFilled(s.thought) {
		s.thought = other
	}
	return s
}

// texts yields the pieces of text, none of them empty, of the content: a
// string, or with some servers an array of parts.
func (s *msgSpeech) texts() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if msgFilled(s.content) {
			yield(s.content)
			return
		}
		for part := range msgElements(s.content) {
			if text := msgMember(part, "text"); msgFilled(text) && !yield(text) {
				return
			}
		}
	}
}

// msgAppendToolUse appends a tool_use block, with a comma behind it.
func msgAppendToolUse(dst, id, function []byte, message string, n int) []byte {
	dst = append(dst, `{"type":"tool_use","id":`...)
	dst = msgAppendCallID(dst, id, message, n)
	dst = append(append(dst, `,"name":`...), msgName(function)...)
	return append(msgAppendInput(append(dst, `,"input":`...), msgMember(function, "arguments")), `},`...)
}

// msgAppendCallID appends the id of a tool call, one of our own if the
// upstream gave none.
func msgAppendCallID(dst, id []byte, message string, n int) []byte {
	if msgFilled(id) {
		return append(dst, id...)
	}
	return msgAppendText(dst, "toolu_"+strings.TrimPrefix(message, "msg_")+"_"+strconv.Itoa(n))
}

func msgName(function []byte) []byte {
	if name := msgMember(function, "name"); msgIsString(name) {
		return name
	}
	return []byte(`""`)
}

// msgAppendInput appends the arguments of a call as an object. What the model
// wrote need not be one: then the client gets it as text under a name of its
// own, fails the call by its own check of the input, and the model can try
// again. An answer is not lost for it.
func msgAppendInput(dst, arguments []byte) []byte {
	text := arguments // some servers send the object itself
	if msgIsString(arguments) {
		text = msgTrim(msgText(arguments))
	}
	switch {
	case len(text) == 0 || string(text) == "null":
		return append(dst, `{}`...)
	case text[0] == '{' && msgValid(text):
		return msgAppendCompact(dst, text)
	}
	dst = append(dst, `{"invalid_json":`...)
	if msgIsString(arguments) {
		dst = append(dst, arguments...)
	} else {
		dst = msgAppendText(dst, arguments)
	}
	return append(dst, '}')
}
