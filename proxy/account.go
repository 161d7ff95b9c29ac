package proxy

import (
	"math"
	"net/http"
	"strconv"
	"strings"
)

// What a request used is what its answer says. This file is about answers that
// say nothing: estimates of what went up and of what came down.

// smallBody is the largest body whose input is estimated by its length alone.
const smallBody = 16 << 10 // bytes

// soundTokens is what a second of sound is taken for.
const soundTokens = 10

// expect notes what is known of a request's cost before it goes up. size is
// its body's, in bytes.
func (x *exchange) expect(f *fields, size int64) {
	x.answers = min(f.n, maxTokens)
	x.input = 0
	if f.form != nil {
		x.input = f.form.tokens(size)
	}
	if x.endpoint == responses && f.background {
		x.later = x.outputTokens(f)
	}
}

// inputTokens estimates the input of the request that f was read from.
func (f *fields) inputTokens(body []byte) int64 {
	if f.form != nil {
		return f.form.tokens(int64(len(body)))
	}
	return inputTokens(body)
}

// inputEstimate returns what went up, in tokens. Images and documents in a body
// say little by their length, so a large one is looked at.
func (x *exchange) inputEstimate() int64 {
	if x.usage.seconds > 0 {
		return min(x.usage.seconds, maxTokens) * soundTokens
	}
	if x.input > 0 {
		return x.input
	}
	x.input = estimate(x.bodySize)
	if x.payload != nil && x.bodySize > smallBody {
		x.input = min(x.input, inputTokens(x.payload.bytes()))
	}
	return x.input
}

// made returns what an answer of so many bytes is taken for, in tokens.
func (x *exchange) made(size int64) int64 {
	switch x.endpoint.product() {
	case texts:
		return max(estimate(size), x.later)
	case media:
		return min(estimate(size), x.answers*mediaTokens)
	}
	return 0
}

// release gives back what is held of the request's body. If its cost has to be
// estimated, that is done before.
func (x *exchange) release() {
	_, _ = x.cost()
	x.forget()
	x.payload.release()
	x.payload = nil
}

// mergeSeconds takes in a length of sound, which may be a fraction.
func (u *usage) mergeSeconds(raw []byte) {
	if s, err := strconv.ParseFloat(string(raw), 64); err == nil && s > 0 {
		u.seconds = int64(math.Ceil(min(s, maxTokens)))
	}
}

// mergeMeta takes in a "meta" value, where Cohere's dialect has its figures:
// what was read before what is billed for it.
func (u *usage) mergeMeta(raw []byte) {
	var tokens, billed []byte
	m := newMembers(raw)
	for m.next() {
		switch string(m.key) {
		case "tokens":
			tokens = m.value()
		case "billed_units":
			billed = m.value()
		}
	}
	if u.known {
		return
	}
	if u.merge(tokens); !u.known {
		u.merge(billed)
	}
}

// isBinary reports whether an answer is one in which no usage can be found.
func isBinary(res *http.Response) bool {
	kind, _, _ := strings.Cut(mediaType(res), "/")
	return kind == "audio" || kind == "image" || kind == "video"
}
