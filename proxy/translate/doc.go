// Package translate turns one provider's wire format into another's.
//
// It owns both dialects as text: which field of a request becomes which, which
// is dropped and which refused, and how an answer or a stream of events reads
// in the other dialect. It is pure: bytes in, bytes out. It must not know HTTP,
// deployments, keys or limits, and it has no clock and no randomness; what it
// needs of the kind is passed in. It imports nothing of ours.
//
// Values that have a counterpart are spliced in as they came: numbers, escapes,
// the order of keys and the bytes of texts survive. What has none is refused
// with an *Error that names the field, unless it asks for what happens anyway
// (null, n 1, a penalty of 0) or promises nothing (a seed).
//
// # Chat completions served by the Messages API
//
// Requests, translated:
//
//	system, developer messages    system, in their order, wherever they stood
//	user, assistant messages      turns; those of one side in a row become one
//	tool messages                 tool_result blocks, first in a user turn
//	assistant tool_calls          tool_use blocks; arguments "" are {}
//	assistant thinking_blocks     first in the turn, byte for byte
//	assistant refusal             text
//	image_url, file               image (base64 or URL), document (PDF only)
//	cache_control                 kept: on parts, messages, tools, the request
//	tools of type function        tools; strict is kept
//	tools of any other type       passed as they are (Anthropic's own)
//	tool_choice                   auto, none, any (required), tool
//	parallel_tool_calls: false    disable_parallel_tool_use
//	max_completion_tokens         max_tokens; wins over max_tokens; else the default
//	temperature, top_p            as they are up to 1; 1, the default, is left out
//	stop                          stop_sequences
//	response_format json_schema   output_config.format
//	reasoning_effort              thinking adaptive and output_config.effort; for
//	                              Claude 4.5 and older a budget: minimal and low
//	                              1024, medium 2048, high 4096, xhigh 8192, max
//	                              16384, at most half of max_tokens
//	user, safety_identifier       metadata.user_id; user wins
//	service_tier                  auto; standard_only for default
//	thinking, top_k, container, context_management, mcp_servers,
//	inference_geo, output_config, speed
//	                              passed as they are
//
// Dropped: text that is white space alone; a message's name and fields that are
// not named here; reasoning_content (it is not signed); detail of images; seed,
// prediction, prompt_cache_key, prompt_cache_retention; and what is for the
// gateway: metadata, stream_options, fallbacks, context_window_fallbacks,
// content_policy_fallbacks, num_retries, timeout, cache.
//
// Refused: n above 1, temperature or top_p above 1, logprobs, logit_bias,
// penalties other than 0, response_format json_object, store, verbosity, audio
// in and out, web_search_options, functions and function_call, custom tools,
// file_id, files that are neither images nor PDFs, stop sequences of white
// space, the tiers flex and priority, arguments that are no JSON object, an
// empty message of a user, fields given twice, and every unknown field.
//
// Answers: text blocks are joined to content (null if there are only calls),
// tool_use becomes tool_calls, thinking becomes reasoning_content and, with its
// signature, thinking_blocks, which clients send back to go on thinking between
// calls. Other blocks are left out. The id is the upstream's behind "chatcmpl-".
// stop_reason becomes finish_reason: max_tokens and
// model_context_window_exceeded "length", tool_use "tool_calls", refusal
// "content_filter", all others "stop". prompt_tokens is the sum of
// input_tokens, cache_creation_input_tokens and cache_read_input_tokens;
// cached_tokens is the last of them.
//
// Streams say the same in pieces, see ChatStream. A signed block of thinking is
// handed out whole when it ends, after its reasoning_content.
package translate
