package proxy

import (
	"bytes"

	"sluice/limiter"
)

// usage is what an answer says about its own cost, merged from wherever it
// says so. A later figure is a running total of the same thing, so in OpenAI's
// dialect the last one of each field holds. Anthropic splits them over two kinds
// of events, and some that imitate it send zeros for what they said before: there
// the largest one holds.
//
// What counts is the same in both dialects: OpenAI's prompt_tokens include what
// was read from a cache, Anthropic's input_tokens neither that nor what was
// written to one, so input is the sum of the three.
type usage struct {
	input, output, cached, total int64
	reasoning                    int64 // a part of output
	seconds                      int64 // of sound, where there are no tokens
	created                      int64 // tokens written to the prompt cache; Anthropic
	known                        bool
	partial                      bool // figures of the beginning alone
	anthropic                    bool // whose dialect it is in
}

// newUsage returns the empty usage of an answer in a protocol.
func newUsage(p protocol) usage { return usage{anthropic: p == anthropicProtocol} }

// maxTokens bounds a figure of an upstream, so that sums cannot overflow.
const maxTokens = 1 << 40

// merge takes in one "usage" value. null and what is no object change nothing.
func (u *usage) merge(raw []byte) {
	m := newMembers(raw)
	for m.next() {
		switch string(m.key) {
		case "prompt_tokens", "input_tokens":
			u.set(&u.input, m.value())
		case "completion_tokens", "output_tokens":
			u.set(&u.output, m.value())
		case "cache_creation_input_tokens":
			if u.anthropic {
				u.set(&u.created, m.value())
			}
		case "cache_read_input_tokens":
			if u.anthropic {
				u.set(&u.cached, m.value())
			}
		case "total_tokens":
			u.set(&u.total, m.value())
		case "prompt_tokens_details", "input_tokens_details", "completion_tokens_details", "output_tokens_details":
			u.mergeDetails(m.value())
		case "seconds":
			u.mergeSeconds(m.value())
		}
	}
}

func (u *usage) mergeDetails(raw []byte) {
	m := newMembers(raw)
	for m.next() {
		switch string(m.key) {
		case "cached_tokens":
			u.set(&u.cached, m.value())
		case "reasoning_tokens":
			u.set(&u.reasoning, m.value())
		}
	}
}

func (u *usage) set(field *int64, raw []byte) {
	n, ok := count(raw)
	if !ok {
		return
	}
	n = min(n, maxTokens)
	if u.anthropic {
		n = max(n, *field)
	}
	*field, u.known = n, true
}

// tokens returns the figures as the limiter takes them.
func (u *usage) tokens() limiter.Usage {
	in := u.input
	if u.anthropic {
		in += u.created + u.cached
	}
	if in == 0 && u.output == 0 {
		in = u.total
	}
	return limiter.Usage{Input: in, Output: u.output, Cached: min(u.cached, in)}
}

// bytesPerToken is the rule of thumb behind every estimate.
const bytesPerToken = 4

// estimate returns the tokens of n bytes of text, at least 1 for some text.
func estimate(n int64) int64 { return (max(n, 0) + bytesPerToken - 1) / bytesPerToken }

// usageFinder reads the top-level "usage" of a JSON body that passes by in
// pieces of any size. It keeps none of it but that value, so an answer may be
// as large as it likes.
type usageFinder struct {
	usage usage

	depth   int
	started bool // the first byte of the body is behind
	off     bool // not an object: there is nothing to find
	meta    bool // "meta" may hold what usage does
	ids     bool // "id" is wanted too
	id      string
	str     bool // inside a string
	esc     bool // the next byte of the string is escaped
	key     bool // at depth 1: the next string is a key
	inKey   bool // inside that string
	name    []byte
	taking  bool // the value of "usage" is passing
	value   []byte
}

// maxUsage bounds the value of "usage"; real ones have a few hundred bytes.
const maxUsage = 64 << 10

// Write looks at the next piece of the body. It always succeeds.
func (f *usageFinder) Write(p []byte) (int, error) {
	if f.off {
		return len(p), nil
	}
	from := 0 // where the part of value in p begins
	for i := 0; i < len(p); i++ {
		c := p[i]
		if f.str {
			i = f.inString(p, i)
			continue
		}
		if c == ' ' || c == '\n' || c == '\r' || c == '\t' {
			continue
		}
		if !f.started {
			f.started = true
			if c != '{' {
				f.off = true
				return len(p), nil
			}
		}
		switch c {
		case '"':
			f.str = true
			if f.depth == 1 && f.key {
				f.inKey, f.name = true, f.name[:0]
			}
		case '{', '[':
			f.depth++
			f.key = f.depth == 1
		case '}', ']':
			f.depth--
			if f.depth == 0 {
				f.take(p[from:i])
				f.off = true
				return len(p), nil
			}
		case ',':
			if f.depth == 1 {
				f.take(p[from:i])
				f.key = true
			}
		case ':':
			if f.depth == 1 {
				f.key = false
				f.taking = f.wanted()
				f.value = f.value[:0]
				from = i + 1
			}
		}
	}
	f.keep(p[min(from, len(p)):])
	return len(p), nil
}

// inString moves through the string that i is inside of and returns the
// position of its last byte in p.
func (f *usageFinder) inString(p []byte, i int) int {
	from, quote := i, -1 // the next quote; -1 if it has to be looked for
	for ; i < len(p); i++ {
		if f.esc {
			f.esc = false
			continue
		}
		// The two bytes that matter are rare, since texts are long. No byte is
		// looked at twice for either.
		if quote < i {
			if quote = bytes.IndexByte(p[i:], '"'); quote < 0 {
				quote = len(p) - i
			}
			quote += i
		}
		if escape := bytes.IndexByte(p[i:quote], '\\'); escape >= 0 {
			i += escape
			f.esc = true
			continue
		}
		if i = quote; i < len(p) {
			f.str = false
		}
		break
	}
	if f.inKey {
		room := max(maxName-len(f.name), 0)
		f.name = append(f.name, p[from:min(i, from+room)]...)
		f.inKey = f.str
	}
	return i
}

// maxName is as much of a key as is looked at; "usage" is shorter.
const maxName = 16

// keep adds a part of the value that is passing.
func (f *usageFinder) keep(part []byte) {
	if !f.taking {
		return
	}
	if len(f.value)+len(part) > maxUsage {
		f.taking = false
		return
	}
	f.value = append(f.value, part...)
}

// take ends the value that is passing.
func (f *usageFinder) take(last []byte) {
	f.keep(last)
	if f.taking {
		switch string(f.name) {
		case "id":
			f.id, _ = text(bytes.TrimSpace(f.value))
		case "meta":
			f.usage.mergeMeta(f.value)
		default:
			f.usage.merge(f.value)
		}
	}
	f.taking = false
}

// wanted reports whether the value of the key that has passed is to be kept.
func (f *usageFinder) wanted() bool {
	switch string(f.name) {
	case "usage":
		return true
	case "meta":
		return f.meta
	case "id":
		return f.ids
	}
	return false
}
