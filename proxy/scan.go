package proxy

import (
	"errors"
	"fmt"
	"strings"
)

// metered are the fields by which a request is authorised, limited or
// accounted for. Readers differ on repeated names and on names in another
// case, so such a field must be there once, in exactly this spelling.
var metered = [...]string{
	"model", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens", "max_output_tokens", "user",
	"previous_response_id", "background", "fallbacks", "num_retries", "models",
}

const includeUsage = "include_usage"

// span is a place in a body.
type span struct{ at, end int }

func (s span) none() bool { return s.end == 0 }

// fields is what the gateway needs to know of a request's body.
type fields struct {
	model   string // "" if the body has none
	stream  bool
	asked   bool  // the client wants usage in its stream
	open    int   // position of the body's brace
	empty   bool  // the body has no members
	modelAt span  // value of model; none if absent
	optsAt  span  // value of stream_options
	usageAt span  // value of include_usage in it
	plain   bool  // the model's value is spelled without escapes
	most    int64 // largest of the declared caps of output tokens; -1: none is declared
	n       int64 // answers asked for, ≥ 1
	routing

	previous   string // the response that this one goes on from, "" for none
	background bool   // the answer is made after the request has ended
	form       *form  // the body is a form; nil: it is JSON
}

// scan reads the top level of a request's body in one pass. The error is an
// *Error, a 400 that names the field.
func scan(data []byte) (fields, error) {
	f := fields{most: -1, n: 1, routing: routing{retries: -1}}
	var seen [len(metered)]bool
	m := newMembers(data)
	if m.err != nil {
		return f, notObject(data)
	}
	f.open = m.open
	for m.next() {
		i, err := meteredIndex(m.key, m.escaped)
		if err != nil {
			return f, err
		}
		if i < 0 {
			continue
		}
		if seen[i] {
			return f, badRequest(metered[i], fmt.Sprintf("%q is there more than once.", metered[i]))
		}
		seen[i] = true
		if err := f.take(metered[i], &m); err != nil {
			return f, err
		}
	}
	switch {
	case errors.Is(m.err, errDeep):
		return f, badRequest("", fmt.Sprintf("The body of the request is nested more than %d levels deep.", maxDepth))
	case m.err != nil:
		return f, badRequest("", "The body of the request is not valid JSON.")
	}
	f.empty = m.count == 0
	return f, nil
}

func notObject(data []byte) *Error {
	i := skipSpace(data, 0)
	if i == len(data) {
		return badRequest("", "The body of the request is empty; send a JSON object.")
	}
	if end, err := skipValue(data, i); err == nil && skipSpace(data, end) == len(data) {
		return badRequest("", "The body of the request is not a JSON object.")
	}
	return badRequest("", "The body of the request is not valid JSON.")
}

// meteredIndex returns the index of a metered field, -1 for another one, and
// an error for a variant of one that some readers would take for it.
func meteredIndex(key []byte, escaped bool) (int, error) {
	for i, name := range metered {
		if string(key) == name {
			return i, nil
		}
	}
	for i, name := range metered {
		if sameName(key, escaped, name) {
			return i, badRequest(name, fmt.Sprintf("A field is a variant of %q; spell it exactly so.", name))
		}
	}
	return -1, nil
}

// sameName reports whether some reader could take key for name.
func sameName(key []byte, escaped bool, name string) bool {
	if escaped {
		s, ok := text(append(append([]byte{'"'}, key...), '"'))
		return ok && strings.EqualFold(s, name)
	}
	// A folded letter takes up to three bytes (the Kelvin sign).
	return len(key) >= len(name) && len(key) <= 3*len(name) && strings.EqualFold(string(key), name)
}

// take reads one metered field.
func (f *fields) take(name string, m *members) error {
	raw := m.value()
	null := raw[0] == 'n'
	switch name {
	case "model":
		f.modelAt = span{m.at, m.end}
		s, ok := text(raw)
		if !ok && !null {
			return badRequest(name, `"model" must be a string.`)
		}
		f.model, f.plain = s, !hasEscape(raw)
	case "stream":
		if raw[0] != 't' && raw[0] != 'f' && !null {
			return badRequest(name, `"stream" must be true or false.`)
		}
		f.stream = raw[0] == 't'
	case "stream_options":
		return f.takeOptions(m)
	case "previous_response_id":
		s, ok := text(raw)
		if !ok && !null {
			return badRequest(name, `"previous_response_id" must be a string.`)
		}
		f.previous = s
	case "background":
		if raw[0] != 't' && raw[0] != 'f' && !null {
			return badRequest(name, `"background" must be true or false.`)
		}
		f.background = raw[0] == 't'
	case "user":
		// Whatever it holds is the upstream's to judge.
	case "models":
		// Routers of models take the first of these that serves.
		if raw[0] == '[' {
			return badRequest(name, `"models" would let the upstream choose among models that the gateway did not check; name them in "fallbacks".`)
		}
	case "fallbacks":
		return f.takeFallbacks(raw)
	default:
		v, ok := count(raw)
		switch {
		case !ok && !null:
			return badRequest(name, fmt.Sprintf("%q must be a whole number, 0 or more.", name))
		case ok && name == "n":
			f.n = max(v, 1)
		case name == "num_retries":
			f.own = true
			if ok {
				f.retries = v
			}
		case ok:
			f.most = max(f.most, v)
		}
	}
	return nil
}

func (f *fields) takeOptions(m *members) error {
	f.optsAt = span{m.at, m.end}
	raw := m.value()
	if raw[0] == 'n' {
		return nil
	}
	if raw[0] != '{' {
		return badRequest("stream_options", `"stream_options" must be an object.`)
	}
	in := newMembers(raw)
	for in.next() {
		if string(in.key) != includeUsage {
			if sameName(in.key, in.escaped, includeUsage) {
				return badRequest("stream_options", `A field of "stream_options" is a variant of "include_usage"; spell it exactly so.`)
			}
			continue
		}
		v := in.value()
		if !f.usageAt.none() {
			return badRequest("stream_options", `"include_usage" is there more than once.`)
		}
		if v[0] != 't' && v[0] != 'f' && v[0] != 'n' {
			return badRequest("stream_options", `"stream_options.include_usage" must be true or false.`)
		}
		f.usageAt = span{m.at + in.at, m.at + in.end}
		f.asked = v[0] == 't'
	}
	return nil
}

// rewrite appends data to dst with the model's value and, if usage is set, with
// stream_options.include_usage true. Every other byte stays as it is. model ""
// keeps what is there.
func (f *fields) rewrite(dst, data []byte, model string, usage bool) []byte {
	if f.form != nil {
		return f.form.rewrite(dst, data, model)
	}
	head := f.open + 1 // where missing members go
	dst = append(dst, data[:head]...)
	inserted := len(dst)
	if model != "" && f.modelAt.none() {
		dst = appendText(append(dst, `"model":`...), model)
	}
	if usage && f.optsAt.none() {
		if len(dst) > inserted {
			dst = append(dst, ',')
		}
		dst = append(dst, `"stream_options":{"include_usage":true}`...)
	}
	if len(dst) > inserted && !f.empty {
		dst = append(dst, ',')
	}
	at := head
	put := func(s span, text []byte) {
		dst = append(append(dst, data[at:s.at]...), text...)
		at = s.end
	}
	setModel := func() {
		if model != "" && !f.modelAt.none() {
			put(f.modelAt, appendText(nil, model))
		}
	}
	if f.modelAt.at < f.optsAt.at {
		setModel()
	}
	if usage && !f.optsAt.none() {
		put(f.askFor(data))
	}
	if f.modelAt.at >= f.optsAt.at {
		setModel()
	}
	return append(dst, data[at:]...)
}

// askFor returns the replacement that makes stream_options ask for usage.
func (f *fields) askFor(data []byte) (span, []byte) {
	if !f.usageAt.none() {
		return f.usageAt, []byte("true")
	}
	if data[f.optsAt.at] != '{' {
		return f.optsAt, []byte(`{"include_usage":true}`)
	}
	inside := f.optsAt.at + 1
	if data[skipSpace(data, inside)] == '}' {
		return span{inside, inside}, []byte(`"include_usage":true`)
	}
	return span{inside, inside}, []byte(`"include_usage":true,`)
}
