package translate

import "strconv"

// chatUsage is what an answer says about its cost. The figures of a stream are
// running totals, and some are said once only, so the largest of each holds.
type chatUsage struct {
	known                                   bool
	input, created, cached, output, thought int64 // tokens
	hasThought                              bool
}

// maxFigure bounds a figure of an upstream, in tokens, so that sums cannot overflow.
const maxFigure = 1 << 40

// merge takes in one "usage" object; anything else changes nothing.
func (u *chatUsage) merge(raw []byte) {
	for w := walk(raw); w.obj && w.next(); {
		switch string(w.key) {
		case "input_tokens":
			u.set(&u.input, w.val)
		case "cache_creation_input_tokens":
			u.set(&u.created, w.val)
		case "cache_read_input_tokens":
			u.set(&u.cached, w.val)
		case "output_tokens":
			u.set(&u.output, w.val)
		case "output_tokens_details":
			for d := walk(w.val); d.obj && d.next(); {
				if string(d.key) == "thinking_tokens" {
					u.hasThought = u.set(&u.thought, d.val) || u.hasThought
				}
			}
		}
	}
}

func (u *chatUsage) set(to *int64, raw []byte) bool {
	f, ok := number(raw)
	if !ok || f < 0 {
		return false
	}
	*to, u.known = max(*to, int64(min(f, maxFigure))), true
	return true
}

// append appends the usage as a chat completion tells it: the tokens of the
// prompt include those that were read from the cache or written to it.
func (u *chatUsage) append(dst []byte) []byte {
	prompt := u.input + u.created + u.cached
	dst = strconv.AppendInt(append(dst, `{"prompt_tokens":`...), prompt, 10)
	dst = strconv.AppendInt(append(dst, `,"completion_tokens":`...), u.output, 10)
	dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), prompt+u.output, 10)
	dst = strconv.AppendInt(append(dst, `,"prompt_tokens_details":{"cached_tokens":`...), u.cached, 10)
	if u.created > 0 {
		dst = strconv.AppendInt(append(dst, `,"cache_creation_tokens":`...), u.created, 10)
	}
	dst = append(dst, '}')
	if u.hasThought {
		dst = strconv.AppendInt(append(dst, `,"completion_tokens_details":{"reasoning_tokens":`...), u.thought, 10)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}
