package translate

// tools writes the tools that the model may call. Those that are no functions
// are Anthropic's own, known by their type, and go up as they are.
func (r *chatRequest) tools() error {
	raw := r.in["tools"]
	if raw == nil {
		return nil
	}
	if !isArray(raw) {
		return fail("tools", "This must be a list of tools.")
	}
	var list []byte
	i := 0
	for w := walk(raw); w.next(); i++ {
		var err error
		if list, err = appendTool(list, w.val); err != nil {
			return item(err, "tools", i)
		}
	}
	if r.hasTools = list != nil; r.hasTools {
		r.member("tools", bracketed('[', list))
	}
	return nil
}

func appendTool(dst, raw []byte) ([]byte, error) {
	var kind, function, cache, name, description, schema, strict, inside []byte
	if err := read(raw, bind{"type", &kind}, bind{"function", &function}, bind{"cache_control", &cache}); err != nil {
		return dst, err
	}
	switch k := string(inner(kind)); k {
	case "function":
	case "custom", "":
		return dst, fail("type", "The Anthropic model that serves this request takes tools of the type function.")
	default:
		return append(comma(dst), raw...), nil
	}
	if err := read(function, bind{"name", &name}, bind{"description", &description},
		bind{"parameters", &schema}, bind{"strict", &strict}, bind{"cache_control", &inside}); err != nil {
		return dst, within(err, "function")
	}
	if len(inner(name)) == 0 {
		return dst, fail("function.name", "A function must have a name.")
	}
	if description != nil && !isString(description) {
		return dst, fail("function.description", "This must be a string.")
	}
	if schema != nil && !isObject(schema) {
		return dst, fail("function.parameters", "This must be an object.")
	}
	dst = append(append(comma(dst), `{"name":`...), name...)
	if len(inner(description)) > 0 {
		dst = append(append(dst, `,"description":`...), description...)
	}
	dst = appendSchema(append(dst, `,"input_schema":`...), schema)
	if string(strict) == "true" {
		dst = append(dst, `,"strict":true`...)
	}
	if cache == nil {
		cache = inside
	}
	return appendBlockEnd(dst, cache)
}

// appendSchema appends the schema of a function's parameters. The Messages API
// insists that it says "object"; OpenAI takes that for granted.
func appendSchema(dst, schema []byte) []byte {
	if schema == nil || isEmpty(schema) {
		return append(dst, `{"type":"object","properties":{}}`...)
	}
	for w := walk(schema); w.next(); {
		if string(w.key) == "type" {
			return append(dst, schema...)
		}
	}
	return append(append(dst, `{"type":"object",`...), schema[1:]...)
}

// toolChoice writes tool_choice, in which the Messages API also says whether
// calls may be made in parallel.
func (r *chatRequest) toolChoice() error {
	raw, single := r.in["tool_choice"], false
	switch string(r.in["parallel_tool_calls"]) {
	case "", "true":
	case "false":
		single = true
	default:
		return fail("parallel_tool_calls", "This must be true or false.")
	}
	kind, name, err := choice(raw)
	if err != nil {
		return within(err, "tool_choice")
	}
	if !r.hasTools {
		if kind == "any" || kind == "tool" {
			return fail("tool_choice", "There are no tools to choose from.")
		}
		return nil
	}
	if kind == "" {
		if !single {
			return nil
		}
		kind = "auto"
	}
	v := append(append([]byte(`{"type":"`), kind...), '"')
	if name != nil {
		v = append(append(v, `,"name":`...), name...)
	}
	if single && kind != "none" {
		v = append(v, `,"disable_parallel_tool_use":true`...)
	}
	r.member("tool_choice", append(v, '}'))
	return nil
}

// choice returns the type of Anthropic's tool_choice, "" for none given, and
// the name of the tool that must be called.
func choice(raw []byte) (kind string, name []byte, err error) {
	switch string(raw) {
	case "":
		return "", nil, nil
	case `"auto"`:
		return "auto", nil, nil
	case `"none"`:
		return "none", nil, nil
	case `"required"`:
		return "any", nil, nil
	}
	var t, function []byte
	if isObject(raw) {
		if err := read(raw, bind{"type", &t}, bind{"function", &function}); err != nil {
			return "", nil, err
		}
	}
	if string(inner(t)) != "function" {
		return "", nil, fail("", "This must be none, auto, required or a function.")
	}
	if err := read(function, bind{"name", &name}); err != nil {
		return "", nil, within(err, "function")
	}
	if len(inner(name)) == 0 {
		return "", nil, fail("function.name", "This must name a function.")
	}
	return "tool", name, nil
}
