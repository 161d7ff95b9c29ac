package proxy

import (
	"bytes"

	"sluice/fsm"
	"sluice/limiter"
)

// What a request will use is estimated only where tokens are reserved
// (limits.token_accounting = "reserve"): its input from the text of its body,
// its output from what it allows and from what answers were like.

// defaultOutput is what an answer is taken to be long at most, in tokens, while
// nothing is known about its key and model.
const defaultOutput = 1024

// mediaTokens bounds what one image, sound or document that is part of the body
// is taken for: its bytes say little about its tokens.
const mediaTokens = 1600

// objectTokens is what a message costs besides its text.
const objectTokens = 4

// reserves reports whether tokens are reserved under the exchange's view.
func (x *exchange) reserves() bool {
	return x.view.Config().Limits.TokenAccounting == fsm.AccountReserved
}

// oversize words a refusal for ever by what the request declared: who sent no
// max_tokens cannot lower it.
func (x *exchange) oversize(r *limiter.Refusal) string {
	text := r.Error()
	switch {
	case x.endpoint.product() != texts:
		return text + " Shorten the input, or have the limit raised."
	case x.fields.most >= 0:
		return text + " Lower max_tokens or shorten the input, or have the limit raised."
	}
	return text + " Set max_tokens, of which none was sent, or shorten the input, or have the limit raised."
}

func (x *exchange) habit() habit { return habit{x.id.keyID(), x.model.Group} }

// outputTokens returns the smallest of what the request allows, what answers to
// its key from its model were long, and what any is taken for.
func (x *exchange) outputTokens(f *fields) int64 {
	switch x.endpoint.product() {
	case figures:
		return 0
	case media:
		return min(mediaTokens*f.n, maxTokens)
	}
	n := min(f.n, maxTokens)
	out := min(defaultOutput*n, maxTokens)
	if usual, known := x.p.learned.p95(x.habit()); known {
		out = usual
	}
	if f.most >= 0 {
		out = min(out, min(f.most, maxTokens/n)*n)
	}
	return out
}

// inputTokens estimates the tokens of a body that is a valid JSON object: a
// quarter of the bytes of its text, one for each number (embeddings may be asked
// for by tokens), something for each object, and bounded amounts for media.
func inputTokens(data []byte) int64 {
	var text, other int64
	var key []byte // of the member that comes next, nil for an element of an array
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			end := stringEnd(data, i+1)
			s := data[i+1 : end]
			i = end
			if next := skipSpace(data, end+1); next < len(data) && data[next] == ':' {
				key = s
				continue
			}
			if !isText(key) && isEncoded(s) {
				other += min(estimate(int64(len(s))), mediaTokens)
			} else {
				text += int64(len(s))
			}
			key = nil
		case c == '{':
			other += objectTokens
		case c == '-' || c >= '0' && c <= '9':
			other++
			for i+1 < len(data) && numeric(data[i+1]) {
				i++
			}
		}
	}
	return max(estimate(text)+other, 1)
}

// isText reports whether a member of this name holds what a model reads as text.
func isText(key []byte) bool {
	switch string(key) {
	case "text", "content", "prompt", "instructions", "arguments":
		return true
	}
	return false
}

// shortEncoded is the length below which it makes no difference whether a string
// is text or not.
const shortEncoded = 4 * mediaTokens

// isEncoded reports whether a string is bytes written as text, base64 or a data
// URL, whatever the member is called: text of that length has spaces, or letters
// that base64 has not.
func isEncoded(s []byte) bool {
	if len(s) < shortEncoded {
		return false
	}
	if bytes.HasPrefix(s, []byte("data:")) {
		return bytes.IndexByte(s, ' ') < 0
	}
	for _, c := range s {
		if !inBase64[c] {
			return false
		}
	}
	return true
}

// inBase64 are the characters of base64, of its variant for URLs, and what JSON
// escapes a slash or a line's end with.
var inBase64 = func() (in [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_\\") {
		in[c] = true
	}
	return in
}()

func numeric(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}

// stringEnd returns the position of the quote that ends the string which goes on at i.
func stringEnd(data []byte, i int) int {
	for ; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(data)
}
