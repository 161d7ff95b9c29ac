package translate

// chatUse says what becomes of a field of a chat completion request.
type chatUse int

const (
	translated chatUse = iota
	passed             // Anthropic's own: goes up as it is
	dropped            // promises nothing, or is for the gateway
	refused            // unless it asks for what happens anyway
)

type chatField struct {
	use  chatUse
	idle func([]byte) bool // whether a refused field asks for nothing
	why  string            // what a refused field's sender is told
}

// chatFields holds every field that a chat completion request may have. One
// that is not here is refused by name: the upstream would do the same.
var chatFields = map[string]chatField{
	"model": {use: dropped}, // the caller names it

	"messages": {}, "max_tokens": {}, "max_completion_tokens": {}, "temperature": {}, "top_p": {},
	"stop": {}, "stream": {}, "tools": {}, "tool_choice": {}, "parallel_tool_calls": {},
	"response_format": {}, "reasoning_effort": {}, "user": {}, "safety_identifier": {}, "service_tier": {},

	"thinking": {use: passed}, "top_k": {use: passed}, "cache_control": {use: passed},
	"container": {use: passed}, "context_management": {use: passed}, "mcp_servers": {use: passed},
	"inference_geo": {use: passed}, "output_config": {use: passed}, "speed": {use: passed},

	// Hints: an answer that heeds none of them is still a right one.
	"seed": {use: dropped}, "prediction": {use: dropped},
	"prompt_cache_key": {use: dropped}, "prompt_cache_retention": {use: dropped},
	// For the gateway, or for the provider's own records.
	"metadata": {use: dropped}, "stream_options": {use: dropped}, "fallbacks": {use: dropped},
	"context_window_fallbacks": {use: dropped}, "content_policy_fallbacks": {use: dropped},
	"num_retries": {use: dropped}, "timeout": {use: dropped}, "cache": {use: dropped},

	"n":                  {refused, is("1"), "The Anthropic model that serves this request gives one choice. Send n as 1, or one request for each choice."},
	"logprobs":           {refused, is("false"), noCounterpart},
	"top_logprobs":       {refused, is("0"), noCounterpart},
	"logit_bias":         {refused, isEmpty, noCounterpart},
	"frequency_penalty":  {refused, isZero, noCounterpart},
	"presence_penalty":   {refused, isZero, noCounterpart},
	"store":              {refused, is("false"), "The Anthropic model that serves this request keeps no answers. Leave out store."},
	"verbosity":          {refused, is(`"medium"`), noCounterpart},
	"modalities":         {refused, onlyText, "The Anthropic model that serves this request answers in text alone."},
	"audio":              {refused, never, "The Anthropic model that serves this request answers in text alone."},
	"web_search_options": {refused, never, "The Anthropic model that serves this request searches by a tool: put one into tools."},
	"functions":          {refused, isEmpty, "Use tools in the place of functions."},
	"function_call":      {refused, never, "Use tool_choice in the place of function_call."},
}

const noCounterpart = "The Anthropic model that serves this request has nothing like this field. Leave it out."

func is(literal string) func([]byte) bool {
	return func(raw []byte) bool { return string(raw) == literal }
}

func never([]byte) bool { return false }

func isZero(raw []byte) bool {
	f, ok := number(raw)
	return ok && f == 0
}

func isEmpty(raw []byte) bool {
	w := walk(raw)
	return (isObject(raw) || isArray(raw)) && !w.next()
}

func onlyText(raw []byte) bool {
	if !isArray(raw) {
		return false
	}
	for w := walk(raw); w.next(); {
		if string(inner(w.val)) != "text" {
			return false
		}
	}
	return true
}
