package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// appendLimit appends max_tokens under the name that the model's servers know.
//
// No name is right everywhere: OpenAI's reasoning models refuse max_tokens, and
// Ollama and older servers do not know max_completion_tokens and would then
// answer without a limit. Both at once is an error at OpenAI. So the model's
// name decides; the old name is the default, because where it is wrong the
// upstream says so, and where the new one is wrong nobody would.
func (r *msgRequest) appendLimit(dst []byte, model string) ([]byte, error) {
	if r.maxTokens == nil {
		return nil, msgErrorf("max_tokens", "is required")
	}
	if n, err := strconv.ParseInt(string(r.maxTokens), 10, 64); err != nil || n < 1 {
		return nil, msgErrorf("max_tokens", "must be a whole number, 1 or more")
	}
	name := `,"max_tokens":`
	if msgReasons(msgFamily(model)) {
		name = `,"max_completion_tokens":`
	}
	return append(append(dst, name...), r.maxTokens...), nil
}

// msgFamily returns the model's own name in lower case: without the provider in
// front of it ("openai/o3") and without the mark of a fine-tuned one.
func msgFamily(model string) string {
	model = strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	return strings.TrimPrefix(model, "ft:")
}

// msgReasons reports whether family is one of OpenAI's reasoning models: o1 and
// its successors, GPT-5 and later. gpt-35 is how Azure spells 3.5.
func msgReasons(family string) bool {
	if len(family) > 1 && family[0] == 'o' && family[1] >= '1' && family[1] <= '9' {
		return true
	}
	rest, ok := strings.CutPrefix(family, "gpt-")
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(rest[:end])
	return ok && err == nil && n >= 5 && n < 35
}

// msgTakesEffort reports whether the model of that name is known to take
// reasoning_effort. Others, such as gpt-4o, refuse the whole request for it.
func msgTakesEffort(family string) bool {
	switch {
	case strings.Contains(family, "-chat"):
		return false
	case msgReasons(family):
		return true
	}
	for _, prefix := range []string{"gpt-oss", "gemini-2.5", "gemini-3"} {
		if strings.HasPrefix(family, prefix) {
			return true
		}
	}
	return false
}

// appendSampling copies what both dialects have. top_k is none of OpenAI's, and
// it takes only four stop sequences; vLLM and most others take top_k and any
// number of stops. The upstream knows which it is: it says no by name.
func (r *msgRequest) appendSampling(dst []byte) ([]byte, error) {
	for _, f := range []struct {
		name string
		raw  []byte
	}{{"temperature", r.temperature}, {"top_p", r.topP}, {"top_k", r.topK}} {
		if f.raw == nil {
			continue
		}
		if c := f.raw[0]; c != '-' && (c < '0' || c > '9') {
			return nil, msgErrorf(f.name, "must be a number")
		}
		dst = append(append(append(append(dst, `,"`...), f.name...), `":`...), f.raw...)
	}
	if r.stop == nil {
		return dst, nil
	}
	if r.stop[0] != '[' {
		return nil, msgErrorf("stop_sequences", "must be an array of strings")
	}
	n := 0
	for s := range msgElements(r.stop) {
		if !msgIsString(s) {
			return nil, msgErrorf("stop_sequences", "must be an array of strings")
		}
		if n == 0 {
			dst = append(dst, `,"stop":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, s...)
		n++
	}
	if n > 0 {
		dst = append(dst, ']')
	}
	return dst, nil
}

func (r *msgRequest) appendStream(dst []byte, usage bool) ([]byte, error) {
	stream, err := msgBool("stream", r.stream)
	if err != nil || !stream {
		return dst, err
	}
	dst = append(dst, `,"stream":true`...)
	if usage {
		dst = append(dst, `,"stream_options":{"include_usage":true}`...)
	}
	return dst, nil
}

func msgBool(at string, raw []byte) (bool, error) {
	switch string(raw) {
	case "true":
		return true, nil
	case "false", "":
		return false, nil
	}
	return false, msgErrorf(at, "must be true or false")
}

// msgString returns the text of a short string of the request, "" if absent.
func msgString(at string, raw []byte) (string, error) {
	if raw != nil && !msgIsString(raw) {
		return "", msgErrorf(at, "must be a string")
	}
	return string(msgText(raw)), nil
}

// msgRequired is an error unless raw is a string.
func msgRequired(at string, raw []byte) error {
	switch {
	case raw == nil:
		return msgErrorf(at, "is required")
	case !msgIsString(raw):
		return msgErrorf(at, "must be a string")
	}
	return nil
}

// appendEffort turns how much to think into reasoning_effort. It is a hint in
// both dialects: a model that is not known to take it is asked without it,
// rather than losing the request over it.
func (r *msgRequest) appendEffort(dst []byte, model string) ([]byte, error) {
	effort, err := r.thinkingEffort()
	if err != nil {
		return nil, err
	}
	if r.outputConfig != nil {
		var level, format []byte
		err := msgRead("output_config", r.outputConfig, msgTake("effort", &level), msgTake("format", &format))
		if err != nil {
			return nil, err
		}
		named, err := msgString("output_config.effort", level)
		if err != nil {
			return nil, err
		}
		switch named {
		case "":
		case "low", "medium", "high":
			effort = named
		case "xhigh", "max":
			effort = "high" // the highest that all take
		default:
			return nil, msgErrorf("output_config.effort", `must be "low", "medium", "high", "xhigh" or "max"`)
		}
	}
	if effort == "" || !msgTakesEffort(msgFamily(model)) {
		return dst, nil
	}
	return append(append(append(dst, `,"reasoning_effort":"`...), effort...), '"'), nil
}

// thinkingEffort returns the effort that a budget of thinking comes to, "" for
// the model's own choice. The steps are those that coding agents use.
func (r *msgRequest) thinkingEffort() (string, error) {
	if r.thinking == nil {
		return "", nil
	}
	var kind, budget []byte
	err := msgRead("thinking", r.thinking, msgTake("type", &kind), msgTake("budget_tokens", &budget), msgDrop("display"))
	if err != nil {
		return "", err
	}
	switch string(msgText(kind)) {
	case "adaptive", "disabled":
		return "", nil
	case "enabled":
	default:
		return "", msgErrorf("thinking.type", `must be "enabled", "adaptive" or "disabled"`)
	}
	switch n := msgCount(budget); {
	case n == 0:
		return "", msgErrorf("thinking.budget_tokens", "must be a whole number, 1 or more")
	case n <= 4096:
		return "low", nil
	case n <= 16384:
		return "medium", nil
	}
	return "high", nil
}

// appendFormat turns a schema for the answer into response_format, strict as
// Anthropic's is.
func (r *msgRequest) appendFormat(dst []byte) ([]byte, error) {
	at, format := "output_format", r.outputFormat
	if inner := msgMember(r.outputConfig, "format"); inner != nil {
		if format != nil {
			return nil, msgErrorf("output_format", "is there next to output_config.format")
		}
		at, format = "output_config.format", inner
	}
	if format == nil {
		return dst, nil
	}
	var kind, schema []byte
	if err := msgRead(at, format, msgTake("type", &kind), msgTake("schema", &schema)); err != nil {
		return nil, err
	}
	if string(msgText(kind)) != "json_schema" {
		return nil, msgErrorf(at+".type", `must be "json_schema"`)
	}
	if schema == nil || schema[0] != '{' {
		return nil, msgErrorf(at+".schema", "must be an object")
	}
	dst = append(dst, `,"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`...)
	return append(append(dst, schema...), `}}`...), nil
}

// maxUser is the longest user that OpenAI takes.
const maxUser = 64

// appendAccount appends for whom and on what terms the request is.
func (r *msgRequest) appendAccount(dst []byte) ([]byte, error) {
	if r.metadata != nil {
		var user []byte
		if err := msgRead("metadata", r.metadata, msgTake("user_id", &user)); err != nil {
			return nil, err
		}
		name, err := msgString("metadata.user_id", user)
		switch {
		case err != nil:
			return nil, err
		case len(name) > maxUser:
			// Coding agents send more than that. Its hash is as long as is
			// allowed and still tells users apart.
			sum := sha256.Sum256([]byte(name))
			dst = msgAppendText(append(dst, `,"user":`...), hex.EncodeToString(sum[:]))
		case name != "":
			dst = append(append(dst, `,"user":`...), user...)
		}
	}
	geo, err := msgString("inference_geo", r.geo)
	if err != nil {
		return nil, err
	}
	if geo != "" && geo != "global" {
		return nil, msgErrorf("inference_geo", "cannot be promised for an OpenAI-type upstream")
	}
	tier, err := msgString("service_tier", r.tier)
	if err != nil {
		return nil, err
	}
	switch tier {
	case "", "auto":
	case "standard_only":
		dst = append(dst, `,"service_tier":"default"`...)
	default:
		return nil, msgErrorf("service_tier", `must be "auto" or "standard_only"`)
	}
	return dst, nil
}
