package translate

// What becomes of a Messages request. A field that is in none of the three
// lists is refused by name.
//
//	translated  messages, system, max_tokens, temperature, top_p, top_k,
//	            stop_sequences, stream, metadata.user_id, tools, tool_choice,
//	            thinking and output_config.effort (a hint), output_config.format,
//	            output_format, service_tier
//	dropped     cache_control and context_management (upstreams cache by
//	            themselves; edits only shorten what the model is shown),
//	            speed, diagnostics, betas, anthropic_beta, anthropic_version;
//	            thinking blocks of earlier turns (nobody can verify them),
//	            citations of earlier answers
//	refused     container, mcp_servers, inference_geo, server tools and their
//	            blocks, files by id, PDFs by URL, citations that are asked for,
//	            an answer begun by the client (a last turn of the assistant's)
//
// Values go over as they are written: no number passes through a float64 and
// no string through a decoder.

// msgRequest holds the fields of a request as they are written, nil if absent.
type msgRequest struct {
	model, messages, system              []byte
	maxTokens, temperature, topP, topK   []byte
	stop, stream, metadata, tier, geo    []byte
	tools, toolChoice                    []byte
	thinking, outputConfig, outputFormat []byte
}

// MessagesRequest translates the body of a Messages request into that of a
// chat completion request for model. usage asks for include_usage if the
// request streams. The error is an *Error.
func MessagesRequest(body []byte, model string, usage bool) ([]byte, error) {
	var r msgRequest
	if err := r.read(body); err != nil {
		return nil, err
	}
	dst := make([]byte, 0, len(body)+len(body)/8+512)
	dst = msgAppendText(append(dst, `{"model":`...), model)
	dst, err := r.appendMessages(append(dst, `,"messages":`...))
	if err != nil {
		return nil, err
	}
	for _, step := range []func([]byte) ([]byte, error){
		func(dst []byte) ([]byte, error) { return r.appendLimit(dst, model) },
		r.appendSampling,
		func(dst []byte) ([]byte, error) { return r.appendStream(dst, usage) },
		r.appendTools,
		func(dst []byte) ([]byte, error) { return r.appendEffort(dst, model) },
		r.appendFormat,
		r.appendAccount,
	} {
		if dst, err = step(dst); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func (r *msgRequest) read(body []byte) error {
	if !msgValid(body) {
		return msgErrorf("", "is not valid JSON, or nested more than %d levels deep", msgMaxDepth)
	}
	return msgRead("", msgTrim(body),
		msgTake("model", &r.model),
		msgTake("messages", &r.messages),
		msgTake("system", &r.system),
		msgTake("max_tokens", &r.maxTokens),
		msgTake("temperature", &r.temperature),
		msgTake("top_p", &r.topP),
		msgTake("top_k", &r.topK),
		msgTake("stop_sequences", &r.stop),
		msgTake("stream", &r.stream),
		msgTake("metadata", &r.metadata),
		msgTake("service_tier", &r.tier),
		msgTake("inference_geo", &r.geo),
		msgTake("tools", &r.tools),
		msgTake("tool_choice", &r.toolChoice),
		msgTake("thinking", &r.thinking),
		msgTake("output_config", &r.outputConfig),
		msgTake("output_format", &r.outputFormat),
		msgDrop("cache_control"),
		msgDrop("context_management"),
		msgDrop("speed"),
		msgDrop("diagnostics"),
		msgDrop("betas"),
		msgDrop("anthropic_beta"),
		msgDrop("anthropic_version"),
	)
}
