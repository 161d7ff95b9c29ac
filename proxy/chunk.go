package proxy

import "bytes"

// chunk is what the gateway needs to know of one event of a stream.
type chunk struct {
	done     bool   // the event is [DONE]
	json     bool   // the event is one valid JSON object
	failed   bool   // it reports an error
	finish   bool   // it carries a finish_reason
	usage    []byte // value of "usage"; nil if absent
	usageAt  span   // the member with one comma beside it
	choices  []byte // value of "choices"; nil if absent
	nochoice bool   // "choices" is there and empty
	text     int64  // of a typed event: the tokens that its text may be
	id       string // of a typed event: the response it is about; "" for most
	sequence int64  // of a typed event
	start    bool   // the usage is that of the beginning
	delta    []byte // what a Messages event adds to the answer; nil if nothing
}

var doneMark = []byte("[DONE]")

// inspect reads the data of one event.
func inspect(data []byte) chunk {
	var c chunk
	if bytes.Equal(bytes.TrimSpace(data), doneMark) {
		c.done = true
		return c
	}
	m := newMembers(data)
	cut := -1 // the next member's comma is the one to cut
	for m.next() {
		if cut >= 0 {
			c.usageAt = span{cut, skipSpace(data, m.comma+1)}
			cut = -1
		}
		switch string(m.key) {
		case "usage":
			c.usage = m.value()
			c.usageAt = span{m.comma, m.end}
			if m.comma < 0 {
				c.usageAt.at, cut = m.keyAt, m.keyAt
			}
		case "choices":
			c.choices = m.value()
			c.nochoice = c.choices[0] == '[' && c.choices[skipSpace(c.choices, 1)] == ']'
			c.finish = hasFinish(c.choices)
		case "error":
			c.failed = m.value()[0] != 'n'
		}
	}
	c.json = m.err == nil
	return c
}

// hasFinish reports whether the choices hold a finish_reason that is a string.
// The name with its quotes cannot occur inside a JSON string, where quotes are
// escaped.
func hasFinish(choices []byte) bool {
	name := []byte(`"finish_reason"`)
	for {
		i := bytes.Index(choices, name)
		if i < 0 {
			return false
		}
		choices = choices[i+len(name):]
		at := skipSpace(choices, 0)
		if at < len(choices) && choices[at] == ':' {
			at = skipSpace(choices, at+1)
			if at < len(choices) && choices[at] == '"' {
				return true
			}
		}
	}
}

// choiceFrame is about what surrounds the text in a chunk's choices.
const choiceFrame = 72

// tokens estimates what a chunk without usage carries: at least one token
// where there is a choice.
func (c *chunk) tokens() int64 {
	if c.delta != nil {
		return max(estimate(int64(len(c.delta)-deltaFrame)), 1)
	}
	if c.choices == nil || c.nochoice {
		return c.text
	}
	return max(estimate(int64(len(c.choices)-choiceFrame)), 1)
}

// usageOnly reports whether the event is the one that exists only because the
// gateway asked for usage.
func (c *chunk) usageOnly() bool {
	return c.json && c.nochoice && len(c.usage) > 0 && c.usage[0] == '{'
}

// withoutUsage appends the event to dst without its member "usage". lines is
// the number of data lines that data came from.
func (c *chunk) withoutUsage(dst, raw, data []byte, lines int) []byte {
	if lines == 1 {
		// data is a part of raw, so both end their capacity at the same place.
		at := cap(raw) - cap(data)
		dst = append(dst, raw[:at+c.usageAt.at]...)
		return append(dst, raw[at+c.usageAt.end:]...)
	}
	for line := range splitLines(raw) {
		if !isData(line) {
			dst = append(append(dst, line...), '\n')
		}
	}
	left := append(append([]byte(nil), data[:c.usageAt.at]...), data[c.usageAt.end:]...)
	for line := range splitLines(left) {
		dst = append(append(append(dst, "data: "...), line...), '\n')
	}
	return append(dst, '\n')
}
