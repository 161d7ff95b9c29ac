package translate

import "encoding/json"

// conversation writes system and messages. System and developer messages go to
// the front in their order, wherever they stood: the Messages API knows no
// others. Messages of one side that follow each other become one turn, in
// which results of tools stand before all else, as the API demands.
func (r *chatRequest) conversation() error {
	raw := r.in["messages"]
	if !isArray(raw) {
		return fail("messages", "This must be a list of messages.")
	}
	var t turns
	i := 0
	for w := walk(raw); w.next(); i++ {
		if err := t.message(w.val); err != nil {
			return item(err, "messages", i)
		}
	}
	t.flush()
	if len(t.out) == 0 {
		return fail("messages", "There must be a message of a user.")
	}
	if t.system != nil {
		r.member("system", bracketed('[', t.system))
	}
	r.member("messages", bracketed('[', t.out))
	r.bareCalls = t.bareCalls
	return nil
}

// turns puts the messages of a conversation together.
type turns struct {
	system []byte // text blocks
	out    []byte // the turns that are complete

	role    string // of the turn under way
	results []byte // its tool_result blocks
	blocks  []byte // its other blocks

	bareCalls bool // see chatRequest
}

// begin makes sure that the turn under way is one of role.
func (t *turns) begin(role string) {
	if t.role != role {
		t.flush()
		t.role = role
	}
}

// flush ends the turn under way.
func (t *turns) flush() {
	if len(t.results)+len(t.blocks) > 0 {
		t.out = append(comma(t.out), `{"role":"`...)
		t.out = append(append(t.out, t.role...), `","content":[`...)
		t.out = append(t.out, t.results...)
		if len(t.blocks) > 0 && len(t.results) > 0 {
			t.out = append(t.out, ',')
		}
		t.out = append(append(t.out, t.blocks...), ']', '}')
	}
	t.role, t.results, t.blocks = "", t.results[:0], t.blocks[:0]
}

// chatMessage is one message as it came. What it may hold beyond this (name,
// annotations, what other gateways add) says nothing to a model here.
type chatMessage struct {
	role, content, refusal, calls, call, audio, id, thinking, cache []byte
}

func (t *turns) message(raw []byte) error {
	var m chatMessage
	if err := read(raw,
		bind{"role", &m.role}, bind{"content", &m.content}, bind{"refusal", &m.refusal},
		bind{"tool_calls", &m.calls}, bind{"function_call", &m.call}, bind{"audio", &m.audio},
		bind{"tool_call_id", &m.id}, bind{"thinking_blocks", &m.thinking}, bind{"cache_control", &m.cache},
	); err != nil {
		return err
	}
	var err error
	switch string(inner(m.role)) {
	case "system", "developer":
		t.system, err = appendContent(t.system, m.content, m.cache, onlyWords)
		return err
	case "user":
		return t.user(&m)
	case "assistant":
		return t.assistant(&m)
	case "tool":
		return t.tool(&m)
	case "function":
		return fail("role", "Use the role tool, with a tool_call_id, in the place of function.")
	}
	return fail("role", "This must be system, developer, user, assistant or tool.")
}

func (t *turns) user(m *chatMessage) error {
	t.begin("user")
	before := len(t.blocks)
	var err error
	if t.blocks, err = appendContent(t.blocks, m.content, m.cache, anyInput); err != nil {
		return err
	}
	if len(t.blocks) == before {
		return fail("content", "The Anthropic model that serves this request takes no empty message of a user.")
	}
	return nil
}

func (t *turns) tool(m *chatMessage) error {
	if len(inner(m.id)) == 0 {
		return fail("tool_call_id", "This must name the call that the result is of.")
	}
	t.begin("user")
	content, err := appendContent(nil, m.content, nil, anyInput)
	if err != nil {
		return err
	}
	t.results = append(comma(t.results), `{"type":"tool_result","tool_use_id":`...)
	t.results = appendCallID(t.results, m.id)
	if content != nil {
		t.results = append(append(append(t.results, `,"content":[`...), content...), ']')
	}
	t.results, err = appendBlockEnd(t.results, m.cache)
	return err
}

// assistant appends what the model said before: its thinking, which is signed
// and must stand in front unaltered, its words, and its calls.
func (t *turns) assistant(m *chatMessage) error {
	t.begin("assistant")
	if m.audio != nil {
		return fail("audio", "The Anthropic model that serves this request cannot hear.")
	}
	if m.call != nil {
		return fail("function_call", "Use tool_calls in the place of function_call.")
	}
	before := len(t.blocks)
	if err := t.thinking(m.thinking); err != nil {
		return err
	}
	thought := len(t.blocks) > before
	var err error
	if t.blocks, err = appendContent(t.blocks, m.content, m.cache, ownWords); err != nil {
		return err
	}
	if m.refusal != nil {
		if !isString(m.refusal) {
			return fail("refusal", "This must be a string.")
		}
		if t.blocks, err = appendText(t.blocks, m.refusal, nil); err != nil {
			return err
		}
	}
	called, err := t.calls(m.calls)
	t.bareCalls = called && !thought
	return err
}

func (t *turns) thinking(raw []byte) error {
	if raw != nil && !isArray(raw) {
		return fail("thinking_blocks", "This must be a list.")
	}
	i := 0
	for w := walk(raw); w.next(); i++ {
		var kind []byte
		err := read(w.val, bind{"type", &kind})
		if k := string(inner(kind)); err == nil && k != "thinking" && k != "redacted_thinking" {
			err = fail("type", "This must be thinking or redacted_thinking.")
		}
		if err != nil {
			return item(err, "thinking_blocks", i)
		}
		t.blocks = append(comma(t.blocks), w.val...)
	}
	return nil
}

func (t *turns) calls(raw []byte) (called bool, err error) {
	if raw != nil && !isArray(raw) {
		return false, fail("tool_calls", "This must be a list.")
	}
	i := 0
	for w := walk(raw); w.next(); i++ {
		if t.blocks, err = appendCall(t.blocks, w.val); err != nil {
			return false, item(err, "tool_calls", i)
		}
	}
	return i > 0, nil
}

// appendCall appends one call as a tool_use block.
func appendCall(dst, raw []byte) ([]byte, error) {
	var id, kind, function, name, arguments []byte
	if err := read(raw, bind{"id", &id}, bind{"type", &kind}, bind{"function", &function}); err != nil {
		return dst, err
	}
	if kind != nil && string(inner(kind)) != "function" {
		return dst, fail("type", "The Anthropic model that serves this request takes calls of functions alone.")
	}
	if len(inner(id)) == 0 {
		return dst, fail("id", "A call must have an id.")
	}
	if err := read(function, bind{"name", &name}, bind{"arguments", &arguments}); err != nil {
		return dst, within(err, "function")
	}
	if len(inner(name)) == 0 {
		return dst, fail("function.name", "A call must name a function.")
	}
	input, err := callInput(arguments)
	if err != nil {
		return dst, err
	}
	dst = append(comma(dst), `{"type":"tool_use","id":`...)
	dst = append(appendCallID(dst, id), `,"name":`...)
	dst = append(append(dst, name...), `,"input":`...)
	return append(append(dst, input...), '}'), nil
}

// callInput returns the object that the arguments of a call, a string, hold.
func callInput(arguments []byte) ([]byte, error) {
	if isBlank(arguments) {
		if arguments != nil && !isString(arguments) {
			return nil, fail("function.arguments", "This must be a string that holds a JSON object.")
		}
		return []byte("{}"), nil
	}
	input := unquote(arguments)
	if w := walk(input); !w.obj || !json.Valid(input) {
		return nil, fail("function.arguments", "This must be a string that holds a JSON object.")
	}
	return input, nil
}

// appendCallID appends the id of a call. Those of other providers may hold
// characters that the Messages API does not take; they become '_', in a call
// and in its result alike.
func appendCallID(dst, id []byte) []byte {
	dst = append(dst, '"')
	for _, c := range inner(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
			dst = append(dst, c)
		default:
			dst = append(dst, '_')
		}
	}
	return append(dst, '"')
}
