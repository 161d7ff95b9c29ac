package proxy

import (
	"strconv"
	"strings"
)

// The mock's answers in Anthropic's protocol, with the same usage.

const (
	mockMessageUsage = `{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":`
	mockOutput       = `20}`
)

// mockMessage is a whole message.
func mockMessage(b []byte, c *call) []byte {
	b = mockMessageHead(b, c.model)
	b = appendText(append(b, `[{"type":"text","text":`...), c.target.MockResponse)
	return append(b, `}],"stop_reason":"end_turn","stop_sequence":null,"usage":`+mockMessageUsage+mockOutput+`}`...)
}

// mockMessageHead is a message up to the value of its content.
func mockMessageHead(b []byte, model string) []byte {
	b = append(b, `{"id":"msg_`+mockID+`","type":"message","role":"assistant","model":`...)
	return append(appendText(b, model), `,"content":`...)
}

// mockMessageEvents is a stream of one text block, a word in each delta.
func mockMessageEvents(c *call) [][]byte {
	var events [][]byte
	event := func(name, rest string) {
		events = append(events, []byte("event: "+name+"\ndata: {\"type\":"+strconv.Quote(name)+rest+"}\n\n"))
	}
	event("message_start", `,"message":`+string(mockMessageHead(nil, c.model))+`[],"stop_reason":null,"stop_sequence":null,"usage":`+mockMessageUsage+`1}}`)
	event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	event("ping", "")
	for _, word := range strings.SplitAfter(c.target.MockResponse, " ") {
		event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":`+string(appendText(nil, word))+`}`)
	}
	event("content_block_stop", `,"index":0`)
	event("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":`+mockMessageUsage+mockOutput)
	event("message_stop", "")
	return events
}
