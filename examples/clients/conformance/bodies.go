package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"sluice/examples/upstream"
)

// Streams that are written out here are those that no dialect of the mock
// provider has by itself.

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // cannot be: a string always encodes
		return `""`
	}
	return string(b)
}

// chatChunk is one event of a chat stream; rest follows the choices.
func chatChunk(delta, finish, rest string) string {
	return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1750000000,"model":"m","choices":[{"index":0,"delta":` +
		delta + `,"finish_reason":` + finish + `}]` + rest + "}\n\n"
}

// chatText is an event that says s.
func chatText(s string) string { return chatChunk(`{"content":`+quote(s)+`}`, "null", "") }

// chatUsage is the event that reports the tokens.
func chatUsage(input, output int) string {
	return fmt.Sprintf(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1750000000,"model":"m","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`+"\n\n",
		input, output, input+output)
}

const done = "data: [DONE]\n\n"

// chatStream says s for 7 + 5 tokens.
func chatStream(s string) string {
	return chatChunk(`{"role":"assistant","content":""}`, "null", "") + chatText(s) + chatChunk("{}", `"stop"`, "") + chatUsage(7, 5) + done
}

// named is an event of Anthropic's protocol.
func named(kind, rest string) string {
	return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + rest + "}\n\n"
}

func messageStart(usage string) string {
	return named("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":`+usage+`}`) +
		named("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
}

func messageText(s string) string {
	return named("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":`+quote(s)+`}`)
}

func messageDelta(usage string) string {
	return named("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":`+usage)
}

var blockStop, messageStop = named("content_block_stop", `,"index":0`), named("message_stop", "")

// messageStream says s for 7 + 5 tokens.
func messageStream(s string) string {
	return messageStart(`{"input_tokens":7,"output_tokens":1}`) + messageText(s) + blockStop + messageDelta(`{"output_tokens":5}`) + messageStop
}

// chunks flushes each part on its own, after a pause.
func chunks(pauseMS int, parts ...string) []upstream.Chunk {
	var list []upstream.Chunk
	for _, p := range parts {
		list = append(list, upstream.Chunk{Text: p, DelayMS: pauseMS})
	}
	return list
}

// repeat returns n copies of s, each for itself.
func repeat(s string, n int) []string { return strings.Split(strings.Repeat(s+"\x00", n), "\x00")[:n] }

// usageField is a usage inside a chunk that has choices.
func usageField(input, output int) string {
	return fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, input, output, input+output)
}
