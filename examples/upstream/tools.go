package upstream

import (
	"encoding/json"
	"slices"
)

// ToolCall is a call that a default answer makes, in the dialect of its route.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitempty"` // JSON as the model wrote it; "" is a call without any
}

// pieceSize is how many bytes of arguments a stream sends at a time: few enough
// to cut an escape such as \u00e9 in two.
const pieceSize = 5

// pieces are the deltas of the arguments. They are cut anywhere but inside a
// UTF-8 character, which no JSON string could carry.
func (t ToolCall) pieces() []string {
	var list []string
	for part := range slices.Chunk([]rune(t.Arguments), pieceSize) {
		list = append(list, string(part))
	}
	return list
}

// input is the arguments as an object, which some dialects have instead of a string.
func (t ToolCall) input() string {
	if t.Arguments == "" {
		return "{}"
	}
	return t.Arguments
}

// chatCalls are the calls of a whole chat answer.
func chatCalls(tools []ToolCall) []object {
	var list []object
	for _, t := range tools {
		list = append(list, object{"id": t.ID, "type": "function", "function": object{"name": t.Name, "arguments": t.Arguments}})
	}
	return list
}

// chatCallDeltas are the calls as a chat stream has them: the first delta of a
// call has id and name, the others nothing but a piece of the arguments. The
// pieces of parallel calls alternate.
func chatCallDeltas(tools []ToolCall) []object {
	var list []object
	delta := func(o object) { list = append(list, object{"tool_calls": []object{o}}) }
	var rest [][]string
	for i, t := range tools {
		delta(object{"index": i, "id": t.ID, "type": "function", "function": object{"name": t.Name, "arguments": ""}})
		rest = append(rest, t.pieces())
	}
	for round, more := 0, true; more; round++ {
		more = false
		for i, pieces := range rest {
			if round < len(pieces) {
				delta(object{"index": i, "function": object{"arguments": pieces[round]}})
				more = true
			}
		}
	}
	return list
}

// eventStream collects events that carry their type as their name, as
// Anthropic's Messages and OpenAI's Responses do; each is a chunk.
type eventStream struct {
	delayMS int
	chunks  []Chunk
}

func (s *eventStream) event(o object) {
	s.chunks = append(s.chunks, Chunk{Text: "event: " + o["type"].(string) + "\ndata: " + encode(o) + "\n\n", DelayMS: s.delayMS})
}

// raw is JSON that encodes as it is.
func raw(s string) json.RawMessage { return json.RawMessage(s) }

// encode returns o as JSON; "null" if a script's JSON is none.
func encode(o any) string {
	b, err := json.Marshal(o)
	if err != nil { // arguments of a call that are no JSON
		return "null"
	}
	return string(b)
}

// halves cuts a text in two, never inside a character.
func halves(s string) (a, b string) {
	half := len(s) / 2
	for half > 0 && half < len(s) && s[half]&0xC0 == 0x80 {
		half--
	}
	return s[:half], s[half:]
}
