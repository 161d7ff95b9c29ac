package proxy

import (
	"bytes"
	"strconv"
	"strings"
)

// Streams of typed events are those of responses, and of images and audio: each
// event names its type, usage comes with the last one and is never asked for.

// typedEnds are the types that end a stream, or one of the things it makes.
// last: nothing can be missing after it.
var typedEnds = map[string]struct{ last, failed bool }{
	"response.completed":         {last: true},
	"response.incomplete":        {last: true},
	"response.cancelled":         {last: true},
	"response.failed":            {last: true, failed: true},
	"error":                      {last: true, failed: true},
	"transcript.text.done":       {last: true},
	"speech.audio.done":          {last: true},
	"image_generation.completed": {}, // there may be several
	"image_edit.completed":       {},
}

// inspectTyped reads the data of one typed event.
func inspectTyped(data []byte) chunk {
	var c chunk
	if bytes.Equal(bytes.TrimSpace(data), doneMark) {
		c.done = true
		return c
	}
	var kind string
	var whole, delta []byte
	m := newMembers(data)
	for m.next() {
		switch string(m.key) {
		case "type":
			kind, _ = text(m.value())
		case "usage":
			c.usage = m.value()
		case "response":
			whole = m.value()
		case "delta":
			delta = m.value()
		case "sequence_number":
			c.sequence, _ = count(m.value())
		case "error":
			c.failed = m.value()[0] != 'n'
		}
	}
	c.json = m.err == nil
	if !c.json {
		return c
	}
	end, ends := typedEnds[kind]
	c.finish, c.done, c.failed = ends, end.last, c.failed || end.failed
	if len(delta) > 2 && delta[0] == '"' {
		c.text = max(estimate(int64(len(delta)-2)), 1)
	}
	if ends || kind == "response.created" || kind == "response.queued" {
		c.readResponse(whole)
	}
	return c
}

// readResponse reads the response that some events carry.
func (c *chunk) readResponse(raw []byte) {
	m := newMembers(raw)
	for m.next() {
		switch string(m.key) {
		case "id":
			c.id, _ = text(m.value())
		case "usage":
			c.usage = m.value()
		}
	}
}

// typedError is the event that ends a stream of typed events which the gateway
// cannot go on with. Some clients read the members beside the type, others an
// error inside.
func typedError(e *Error, sequence int64) []byte {
	var b []byte
	b = append(b, "event: error\ndata: {\"type\":\"error\",\"code\":\""...)
	b = strconv.AppendInt(b, int64(e.Status), 10)
	b = appendText(append(b, `","message":`...), e.Message)
	b = append(b, `,"param":null,"sequence_number":`...)
	b = strconv.AppendInt(b, sequence, 10)
	inner := strings.TrimPrefix(string(e.encode()), "{") // "error":{…}}
	return append(append(append(b, ','), inner...), "\n\n"...)
}
