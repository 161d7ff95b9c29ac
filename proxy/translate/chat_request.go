package translate

import (
	"encoding/json"
	"strconv"
)

// ChatRequest translates the body of a chat completion request into that of a
// Messages request for model. An error is an *Error: it names what has no
// counterpart, see the table in the package comment. Values that have one are
// copied as they came, byte for byte.
func ChatRequest(body []byte, model string, o Options) ([]byte, error) {
	r := chatRequest{model: model, cap: o.MaxTokens}
	if r.cap <= 0 {
		r.cap = defaultMaxTokens
	}
	if err := r.sort(body); err != nil {
		return nil, err
	}
	r.out = append(make([]byte, 0, len(body)+512), `{"model":`...)
	r.out = quote(r.out, []byte(model))
	for _, step := range []func() error{
		r.limits, r.conversation, r.tools, r.toolChoice, r.sampling, r.stops,
		r.reasoning, r.output, r.identity, r.tier, r.stream,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	for _, m := range r.verbatim {
		r.member(m.name, m.value)
	}
	return append(r.out, '}'), nil
}

// chatRequest is one translation under way.
type chatRequest struct {
	model string
	out   []byte

	in       map[string][]byte // what is translated; null is absent
	verbatim []chatMember      // what goes up as it is

	cap      int64 // max_tokens
	hasTools bool
	// The last assistant message calls tools and has no thinking in front:
	// with a thinking budget the upstream would refuse that.
	bareCalls    bool
	outputConfig []byte // members of output_config
}

type chatMember struct {
	name  string
	value []byte
}

func (r *chatRequest) member(name string, value []byte) {
	r.out = comma(r.out)
	r.out = append(r.out, '"')
	r.out = append(r.out, name...)
	r.out = append(r.out, '"', ':')
	r.out = append(r.out, value...)
}

// sort tells apart what is translated, passed on, dropped and refused.
func (r *chatRequest) sort(body []byte) error {
	if !json.Valid(body) {
		return fail("", "The body is not valid JSON, or is nested too deeply.")
	}
	w := walk(body)
	if !w.obj {
		return fail("", "The body must be a JSON object.")
	}
	r.in = make(map[string][]byte, 16)
	seen := make(map[string]bool, 16)
	for w.next() {
		name := string(w.key)
		if seen[name] {
			return fail(name, "This field is given twice.")
		}
		seen[name] = true
		field, known := chatFields[name]
		switch {
		case !known:
			return fail(name, "The Anthropic model that serves this request knows no such field.")
		case isNull(w.val) || field.use == dropped:
		case field.use == translated:
			r.in[name] = w.val
		case field.use == passed:
			r.verbatim = append(r.verbatim, chatMember{name, w.val})
		case !field.idle(w.val):
			return fail(name, field.why)
		}
	}
	return nil
}

// limits writes the cap on the answer.
func (r *chatRequest) limits() error {
	for _, name := range []string{"max_completion_tokens", "max_tokens"} {
		raw := r.in[name]
		if raw == nil {
			continue
		}
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || n < 1 {
			return fail(name, "This must be a whole number of at least 1.")
		}
		r.cap = n
		break
	}
	r.member("max_tokens", strconv.AppendInt(nil, r.cap, 10))
	return nil
}

// sampling writes temperature and top_p. 1 is what both protocols take for
// granted, and newer models refuse to hear it.
func (r *chatRequest) sampling() error {
	for _, name := range []string{"temperature", "top_p"} {
		raw := r.in[name]
		if raw == nil {
			continue
		}
		f, ok := number(raw)
		switch {
		case !ok:
			return fail(name, "This must be a number.")
		case f < 0 || f > 1:
			return fail(name, "The Anthropic model that serves this request takes 0 to 1.")
		case f != 1:
			r.member(name, raw)
		}
	}
	return nil
}

// stops writes stop_sequences.
func (r *chatRequest) stops() error {
	raw := r.in["stop"]
	if raw == nil {
		return nil
	}
	var list []byte
	add := func(s []byte) error {
		switch {
		case !isString(s):
			return fail("", "A stop sequence must be a string.")
		case len(inner(s)) == 0:
			return nil
		case isBlank(s):
			return fail("", "The Anthropic model that serves this request takes no stop sequence of white space alone.")
		}
		list = append(comma(list), s...)
		return nil
	}
	if !isArray(raw) {
		if err := add(raw); err != nil {
			return within(err, "stop")
		}
	}
	i := 0
	for w := walk(raw); w.next(); i++ {
		if err := add(w.val); err != nil {
			return item(err, "stop", i)
		}
	}
	if list != nil {
		r.member("stop_sequences", bracketed('[', list))
	}
	return nil
}

func bracketed(open byte, list []byte) []byte {
	return append(append([]byte{open}, list...), open+2) // ']' is '['+2, '}' is '{'+2
}

// output writes output_config: the format of the answer, and the effort that
// reasoning has put there.
func (r *chatRequest) output() error {
	if err := r.format(); err != nil {
		return err
	}
	if r.outputConfig == nil {
		return nil
	}
	for _, m := range r.verbatim {
		if m.name == "output_config" {
			return fail(m.name, "Give output_config, or response_format and reasoning_effort, not both.")
		}
	}
	r.member("output_config", bracketed('{', r.outputConfig))
	return nil
}

func (r *chatRequest) format() error {
	raw := r.in["response_format"]
	if raw == nil {
		return nil
	}
	var kind, spec, schema []byte
	if err := read(raw, bind{"type", &kind}, bind{"json_schema", &spec}); err != nil {
		return within(err, "response_format")
	}
	switch string(inner(kind)) {
	case "text":
		return nil
	case "json_schema":
	case "json_object":
		return fail("response_format", "The Anthropic model that serves this request has no free JSON mode. Send a json_schema.")
	default:
		return fail("response_format.type", "This must be text or json_schema.")
	}
	if err := read(spec, bind{"schema", &schema}); err != nil {
		return within(err, "response_format.json_schema")
	}
	if !isObject(schema) {
		return fail("response_format.json_schema.schema", "This must be an object.")
	}
	r.outputConfig = append(comma(r.outputConfig), `"format":{"type":"json_schema","schema":`...)
	r.outputConfig = append(append(r.outputConfig, schema...), '}')
	return nil
}

// identity writes who the end user is.
func (r *chatRequest) identity() error {
	for _, name := range []string{"user", "safety_identifier"} {
		raw := r.in[name]
		if raw == nil {
			continue
		}
		if !isString(raw) {
			return fail(name, "This must be a string.")
		}
		r.member("metadata", append(append([]byte(`{"user_id":`), raw...), '}'))
		break
	}
	return nil
}

func (r *chatRequest) tier() error {
	raw := r.in["service_tier"]
	if raw == nil {
		return nil
	}
	switch string(inner(raw)) {
	case "auto":
		r.member("service_tier", []byte(`"auto"`))
	case "default", "standard_only":
		r.member("service_tier", []byte(`"standard_only"`))
	default:
		return fail("service_tier", "The Anthropic model that serves this request has the tiers auto and default.")
	}
	return nil
}

func (r *chatRequest) stream() error {
	switch raw := r.in["stream"]; string(raw) {
	case "":
	case "true", "false":
		r.member("stream", raw)
	default:
		return fail("stream", "This must be true or false.")
	}
	return nil
}
