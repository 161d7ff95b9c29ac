package translate

// msgTurn gathers what one side said until the other side speaks. Neighbouring
// messages of one role are one turn, as with Anthropic: OpenAI wants all the
// results of a turn's tool calls right behind it.
type msgTurn struct {
	role    string
	said    bool      // there is something to send, be it empty
	parts   []msgPart // what is said, in order
	results []byte    // whole tool messages, each with a comma behind it
	calls   []byte    // elements of tool_calls, each with a comma behind it
}

// msgBetween joins text blocks into one string. Servers differ on whether they
// take an array of parts; a string they all take.
const msgBetween = `\n\n`

// appendMessages appends the array of chat messages.
func (r *msgRequest) appendMessages(dst []byte) ([]byte, error) {
	dst, err := msgAppendSystem(append(dst, '['), r.system)
	if err != nil {
		return nil, err
	}
	if r.messages == nil || r.messages[0] != '[' {
		return nil, msgErrorf("messages", "must be an array")
	}
	var turn msgTurn
	i := 0
	for raw := range msgElements(r.messages) {
		if dst, err = turn.take(dst, msgPath("messages", i), raw); err != nil {
			return nil, err
		}
		i++
	}
	switch {
	case i == 0:
		return nil, msgErrorf("messages", "must hold at least one message")
	case turn.role == "assistant":
		return nil, msgErrorf(msgPath("messages", i-1), "begins the answer, which an OpenAI-type upstream cannot go on with; end with a user message")
	}
	return append(msgCloseList(turn.appendTo(dst)), ']'), nil
}

// msgCloseList takes off the comma after the last element.
func msgCloseList(dst []byte) []byte {
	if dst[len(dst)-1] == ',' {
		return dst[:len(dst)-1]
	}
	return dst
}

// msgAppendSystem appends the system prompt as one message, with a comma.
func msgAppendSystem(dst, raw []byte) ([]byte, error) {
	if raw == nil {
		return dst, nil
	}
	parts, err := msgParts("system", raw, msgOnlyText)
	if err != nil || len(parts) == 0 {
		return dst, err
	}
	dst = append(dst, `{"role":"system","content":`...)
	return append(msgAppendContent(dst, parts, msgBetween), `},`...), nil
}

// take adds a message to the turn; a turn that ends by it goes to dst.
func (t *msgTurn) take(dst []byte, at string, raw []byte) ([]byte, error) {
	var role, content []byte
	if err := msgRead(at, raw, msgTake("role", &role), msgTake("content", &content)); err != nil {
		return nil, err
	}
	who := string(msgText(role))
	if who != t.role {
		dst = t.appendTo(dst)
		*t = msgTurn{role: who}
	}
	at += ".content"
	if content == nil {
		return nil, msgErrorf(at, "is required")
	}
	switch who {
	case "user":
		return dst, t.takeUser(at, content)
	case "assistant":
		return dst, t.takeAssistant(at, content)
	case "system":
		parts, err := msgParts(at, content, msgOnlyText)
		t.parts = append(t.parts, parts...)
		t.said = true
		return dst, err
	}
	return nil, msgErrorf(at[:len(at)-len("content")]+"role", `must be "user", "assistant" or "system"`)
}

func (t *msgTurn) takeUser(at string, content []byte) error {
	parts, err := msgParts(at, content, func(at, kind string, raw []byte) ([]msgPart, error) {
		if kind == "tool_result" {
			return t.takeResult(at, raw)
		}
		return msgUserPart(at, kind, raw)
	})
	t.parts = append(t.parts, parts...)
	if err == nil && len(t.parts) == 0 && t.results == nil {
		return msgErrorf(at, "must not be empty")
	}
	t.said = len(t.parts) > 0
	return err
}

// takeResult turns a tool's result into a tool message. Those hold only text,
// so images and files go into the user message that follows.
func (t *msgTurn) takeResult(at string, raw []byte) (rest []msgPart, err error) {
	var id, content, failed []byte
	err = msgRead(at, raw, msgDrop("type"), msgDrop("cache_control"),
		msgTake("tool_use_id", &id), msgTake("content", &content), msgTake("is_error", &failed))
	if err != nil {
		return nil, err
	}
	if err := msgRequired(at+".tool_use_id", id); err != nil {
		return nil, err
	}
	isError, err := msgBool(at+".is_error", failed)
	if err != nil {
		return nil, err
	}
	var parts []msgPart
	if content != nil {
		if parts, err = msgParts(at+".content", content, msgUserPart); err != nil {
			return nil, err
		}
	}
	var texts [][]byte
	for _, p := range parts {
		if p.text != nil {
			texts = append(texts, p.text)
			continue
		}
		if rest == nil {
			note := []byte(`"Returned by tool call `)
			note = append(append(note, id[1:len(id)-1]...), `:"`...)
			rest = append(rest, msgPart{text: note})
		}
		rest = append(rest, p)
	}
	if texts == nil && rest != nil {
		texts = [][]byte{[]byte(`"(The result is in the next message.)"`)}
	}
	t.results = append(append(t.results, `{"role":"tool","tool_call_id":`...), id...)
	t.results = append(t.results, `,"content":`...)
	from := len(t.results)
	t.results = msgAppendJoined(t.results, msgBetween, texts)
	if isError {
		// The only place left in which to say it.
		inner := append([]byte(`"Error: `), t.results[from+1:]...)
		t.results = append(t.results[:from], inner...)
	}
	t.results = append(t.results, `},`...)
	return rest, nil
}

func (t *msgTurn) takeAssistant(at string, content []byte) error {
	parts, err := msgParts(at, content, func(at, kind string, raw []byte) ([]msgPart, error) {
		switch kind {
		case "text":
			return msgOnlyText(at, kind, raw)
		case "tool_use":
			return nil, t.takeCall(at, raw)
		case "thinking", "redacted_thinking":
			return nil, nil // no upstream of this kind could verify it
		}
		return nil, msgUnknownBlock(at, kind)
	})
	t.parts = append(t.parts, parts...)
	t.said = len(t.parts) > 0 || t.calls != nil
	return err
}

// takeCall turns a tool_use block into an element of tool_calls.
func (t *msgTurn) takeCall(at string, raw []byte) error {
	var id, name, input []byte
	err := msgRead(at, raw, msgDrop("type"), msgDrop("cache_control"), msgDrop("caller"),
		msgTake("id", &id), msgTake("name", &name), msgTake("input", &input))
	if err != nil {
		return err
	}
	if err := msgRequired(at+".id", id); err != nil {
		return err
	}
	if err := msgRequired(at+".name", name); err != nil {
		return err
	}
	if input == nil {
		input = []byte(`{}`)
	}
	if input[0] != '{' {
		return msgErrorf(at+".input", "must be an object")
	}
	t.calls = append(append(t.calls, `{"id":`...), id...)
	t.calls = append(append(t.calls, `,"type":"function","function":{"name":`...), name...)
	t.calls = msgAppendText(append(t.calls, `,"arguments":`...), msgAppendCompact(nil, input))
	t.calls = append(t.calls, `}},`...)
	return nil
}

// appendTo appends the turn's messages, each with a comma behind it.
func (t *msgTurn) appendTo(dst []byte) []byte {
	dst = append(dst, t.results...)
	if !t.said {
		return dst
	}
	dst = append(append(append(dst, `{"role":"`...), t.role...), `","content":`...)
	switch {
	case t.role != "assistant":
		dst = msgAppendContent(dst, t.parts, msgBetween)
	case len(t.parts) == 0:
		dst = append(dst, `null`...)
	default:
		// The blocks of an answer are pieces of one text.
		dst = msgAppendContent(dst, t.parts, "")
	}
	if t.calls != nil {
		dst = append(msgCloseList(append(append(dst, `,"tool_calls":[`...), t.calls...)), ']')
	}
	return append(dst, `},`...)
}
