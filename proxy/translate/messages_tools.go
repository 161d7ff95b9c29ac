package translate

// appendTools appends tools, tool_choice and parallel_tool_calls. OpenAI takes
// the latter two only with tools.
func (r *msgRequest) appendTools(dst []byte) ([]byte, error) {
	if r.tools != nil && r.tools[0] != '[' {
		return nil, msgErrorf("tools", "must be an array")
	}
	n := 0
	for raw := range msgElements(r.tools) {
		if n == 0 {
			dst = append(dst, `,"tools":[`...)
		} else {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = msgAppendTool(dst, msgPath("tools", n), raw); err != nil {
			return nil, err
		}
		n++
	}
	if n > 0 {
		dst = append(dst, ']')
	}
	return r.appendChoice(dst, n > 0)
}

func msgAppendTool(dst []byte, at string, raw []byte) ([]byte, error) {
	kind, err := msgString(at+".type", msgMember(raw, "type"))
	if err != nil {
		return nil, err
	}
	if kind != "" && kind != "custom" {
		return nil, msgErrorf(at+".type", "is a tool of Anthropic's own that an OpenAI-type upstream does not have; define it with name and input_schema")
	}
	var name, description, schema, strict []byte
	err = msgRead(at, raw,
		msgDrop("type"),
		msgTake("name", &name),
		msgTake("description", &description),
		msgTake("input_schema", &schema),
		msgTake("strict", &strict),
		msgDrop("cache_control"),
		// How a tool is shown to the model or its input streamed; without
		// them the tool is there all the same.
		msgDrop("defer_loading"),
		msgDrop("allowed_callers"),
		msgDrop("input_examples"),
		msgDrop("eager_input_streaming"),
	)
	if err != nil {
		return nil, err
	}
	if err := msgRequired(at+".name", name); err != nil {
		return nil, err
	}
	dst = append(append(dst, `{"type":"function","function":{"name":`...), name...)
	if description != nil {
		if err := msgRequired(at+".description", description); err != nil {
			return nil, err
		}
		dst = append(append(dst, `,"description":`...), description...)
	}
	if schema == nil || schema[0] != '{' {
		return nil, msgErrorf(at+".input_schema", "must be an object")
	}
	dst = append(append(dst, `,"parameters":`...), schema...)
	if strict != nil {
		if _, err := msgBool(at+".strict", strict); err != nil {
			return nil, err
		}
		dst = append(append(dst, `,"strict":`...), strict...)
	}
	return append(dst, `}}`...), nil
}

func (r *msgRequest) appendChoice(dst []byte, tools bool) ([]byte, error) {
	if r.toolChoice == nil {
		return dst, nil
	}
	var kind, name, single []byte
	err := msgRead("tool_choice", r.toolChoice,
		msgTake("type", &kind), msgTake("name", &name), msgTake("disable_parallel_tool_use", &single))
	if err != nil {
		return nil, err
	}
	one, err := msgBool("tool_choice.disable_parallel_tool_use", single)
	if err != nil {
		return nil, err
	}
	choice := string(msgText(kind))
	switch choice {
	case "auto", "none":
		if !tools {
			return dst, nil
		}
		dst = append(append(append(dst, `,"tool_choice":"`...), choice...), '"')
	case "any":
		dst = append(dst, `,"tool_choice":"required"`...)
	case "tool":
		if err := msgRequired("tool_choice.name", name); err != nil {
			return nil, err
		}
		dst = append(dst, `,"tool_choice":{"type":"function","function":{"name":`...)
		dst = append(append(dst, name...), `}}`...)
	default:
		return nil, msgErrorf("tool_choice.type", `must be "auto", "any", "tool" or "none"`)
	}
	if !tools {
		return nil, msgErrorf("tool_choice", "asks for a tool, but there are no tools")
	}
	if one {
		dst = append(dst, `,"parallel_tool_calls":false`...)
	}
	return dst, nil
}
