package proxy

// deltaFrame is about what surrounds the text in a Messages delta.
const deltaFrame = 32

// inspectMessages reads the data of one event of Anthropic's: what the event is
// says "type" in the data, as clients have it.
func inspectMessages(data []byte) chunk {
	var c chunk
	var kind, delta, began []byte
	m := newMembers(data)
	for m.next() {
		switch string(m.key) {
		case "type":
			kind = m.value()
		case "usage":
			c.usage = m.value()
		case "delta":
			delta = m.value()
		case "message":
			began = m.value()
		case "error":
			c.failed = m.value()[0] != 'n'
		}
	}
	if c.json = m.err == nil; !c.json {
		return chunk{}
	}
	switch string(kind) {
	case `"message_start"`:
		c.start = true
		if usage := member(began, "usage"); usage != nil {
			c.usage = usage
		}
	case `"content_block_delta"`:
		c.delta = delta
	case `"message_stop"`:
		c.done = true
	case `"error"`:
		c.failed = true
	}
	return c
}

// member returns the value of a member of a JSON object, nil if it has none.
func member(raw []byte, name string) []byte {
	var v []byte
	for m := newMembers(raw); m.next(); {
		if string(m.key) == name {
			v = m.value()
		}
	}
	return v
}
