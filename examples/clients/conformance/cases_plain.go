package main

import (
	"fmt"
	"strings"

	"sluice/examples/upstream"
)

// hello is the answer of a provider that says the text and counts 25 + 15 tokens, 5 of them cached.
func hello(text string) upstream.Step {
	return upstream.Step{Content: text, Usage: &upstream.Usage{Prompt: 25, Completion: 15, Cached: 5}}
}

// spent is the usage of hello.
var spent = &Usage{Input: 25, Output: 15, Cached: 5}

const (
	text      = "Grüße, 世界 🙂"
	signature = "c2lnbmVkLWJ5LXRoZS1tb2Nr+/=="
)

// plainCases are answers in one piece.
func plainCases() []Case {
	inputOnly := &Usage{Input: 25}
	return []Case{
		{Name: "chat", Steps: []upstream.Step{hello(text)}, Call: Call{Do: doChat}, Translatable: true,
			Want: Result{Text: text, Finish: "stop", Usage: spent}, Executed: 1, Spent: spent},
		{Name: "completions", Steps: []upstream.Step{hello(text)}, Call: Call{Do: doCompletions},
			Want: Result{Text: text, Finish: "stop", Usage: spent}, Executed: 1, Spent: spent},
		{Name: "embeddings", Steps: []upstream.Step{hello("")}, Call: Call{Do: doEmbeddings},
			Want:     Result{Vectors: [][]float64{{0.25, -0.5, 0.125}, {0.25, -0.5, 0.125}}, Usage: inputOnly},
			Executed: 1, Spent: inputOnly},
		{Name: "models", Call: Call{Do: doModels}, Want: Result{Models: []string{claudeModel, gptModel}}},
		{Name: "responses", Steps: []upstream.Step{hello(text)}, Call: Call{Do: doResponses},
			Want: Result{Text: text, Finish: "completed", Usage: spent}, Executed: 1, Spent: spent},
		{Name: "responses, stored", Steps: nil, Call: Call{Do: doStored},
			Want: Result{Text: "hello-world", Stored: "hello-world", Deleted: true}, Executed: 4, Spent: &Usage{Input: 10, Output: 20}},
		{Name: "messages", Steps: []upstream.Step{hello(text)}, Call: Call{Do: doMessages}, Translatable: true,
			Want: Result{Text: text, Finish: "end_turn", Usage: spent}, Executed: 1, Spent: spent},
		{Name: "messages, thinking", Call: Call{Do: doMessages},
			Steps: []upstream.Step{{Content: text, Thinking: "hm, 世界"}},
			Want: Result{Text: text, Thinking: "hm, 世界", Signature: signature, Finish: "end_turn",
				Usage: &Usage{Input: 10, Output: 20}}, Executed: 1, Spent: &Usage{Input: 10, Output: 20}},
		{Name: "messages, unknown beta", Field: "F01", Call: Call{Do: doMessages, Headers: map[string]string{"anthropic-beta": "context-management-2025-06-27,unheard-of-2031-01-01"}},
			Steps: []upstream.Step{hello(text)}, Want: Result{Text: text, Finish: "end_turn", Usage: spent}, Executed: 1, Spent: spent,
			Sent: func(r upstream.Request) string {
				got := strings.Join(r.Header["Anthropic-Beta"], ",")
				if !strings.Contains(got, "unheard-of-2031-01-01") || !strings.Contains(got, "context-management") || r.Header.Get("Anthropic-Version") == "" {
					return fmt.Sprintf("the provider was sent anthropic-beta %q, anthropic-version %q", got, r.Header.Get("Anthropic-Version"))
				}
				return ""
			}},
		{Name: "count_tokens", Field: "F05", Steps: []upstream.Step{hello("")}, Call: Call{Do: doCountTokens},
			Want: Result{Tokens: 25}, Executed: 1},
		{Name: "Anthropic's models", Call: Call{Do: doListClaude}, Want: Result{Models: []string{claudeModel, gptModel}}},
	}
}

// streamCases are whole streams, cut by the network as it likes.
func streamCases() []Case {
	bytewise := func(body string) []upstream.Step {
		return []upstream.Step{{Chunks: upstream.Split(body, 1)}}
	}
	stream := func(do string) Call { return Call{Do: do, Stream: true} }
	return []Case{
		{Name: "chat stream", Steps: []upstream.Step{hello(text)}, Call: stream(doChat), Translatable: true,
			Want: Result{Text: text, Finish: "stop"}, Executed: 1, Spent: spent,
			// The provider counts for sluice although the client did not ask.
		},
		{Name: "chat stream with usage", Steps: []upstream.Step{hello(text)}, Call: Call{Do: doChat, Stream: true, Usage: true}, Translatable: true,
			Want: Result{Text: text, Finish: "stop", Usage: spent}, Executed: 1, Spent: spent},
		{Name: "chat stream, byte by byte", Field: "A09", Steps: bytewise(chatStream(text)), Call: stream(doChat),
			Want:     Result{Text: text, Finish: "stop", Usage: &Usage{Input: 7, Output: 5}},
			Differs:  map[Way]Result{Through: {Text: text, Finish: "stop"}}, // it did not ask
			Executed: 1, Spent: &Usage{Input: 7, Output: 5}},
		{Name: "completions stream", Steps: []upstream.Step{hello(text)}, Call: stream(doCompletions),
			Want: Result{Text: text, Finish: "stop"}, Executed: 1, Spent: spent},
		{Name: "responses stream", Steps: []upstream.Step{hello(text)}, Call: stream(doResponses),
			Want: Result{Text: text, Finish: "completed", Usage: spent}, Executed: 1, Spent: spent},
		{Name: "messages stream", Steps: []upstream.Step{hello(text)}, Call: stream(doMessages), Translatable: true,
			Want: Result{Text: text, Finish: "end_turn", Usage: spent}, Executed: 1, Spent: spent},
		{Name: "messages stream, byte by byte", Field: "A09", Steps: bytewise(messageStream(text)), Call: stream(doMessages),
			Want: Result{Text: text, Finish: "end_turn", Usage: &Usage{Input: 7, Output: 5}}, Executed: 1, Spent: &Usage{Input: 7, Output: 5}},
		{Name: "messages stream, thinking", Call: stream(doMessages), Steps: []upstream.Step{{Content: text, Thinking: "hm, 世界"}},
			Want:     Result{Text: text, Thinking: "hm, 世界", Signature: signature, Finish: "end_turn", Usage: &Usage{Input: 10, Output: 20}},
			Executed: 1, Spent: &Usage{Input: 10, Output: 20}},
	}
}

// toolCases are calls of functions and structured output.
func toolCases() []Case {
	calls := []upstream.ToolCall{{ID: "call_a", Name: "weather", Arguments: `{"city":"Malm\u00f6 \ud83d\ude42"}`}, {ID: "call_b", Name: "weather", Arguments: `{"city":"Kyōto"}`}}
	got := []Tool{{"call_a", "weather", `{"city":"Malmö 🙂"}`}, {"call_b", "weather", `{"city":"Kyōto"}`}}
	step := []upstream.Step{{Tools: calls, Usage: &upstream.Usage{Prompt: 25, Completion: 15, Cached: 5}}}
	empty := []upstream.Step{{Tools: []upstream.ToolCall{{ID: "call_a", Name: "now"}}, Usage: &upstream.Usage{Prompt: 25, Completion: 15, Cached: 5}}}
	noArguments := []Tool{{"call_a", "now", ""}}
	const object = `{"city":"Malmö","degrees":-3}`
	parsed := &Weather{City: "Malmö", Degrees: -3}
	schema := func(r upstream.Request) string {
		if !strings.Contains(string(r.Body), `"json_schema"`) {
			return "the provider was not asked for structured output"
		}
		return ""
	}
	var list []Case
	for _, p := range []struct{ do, finish, plain string }{
		{doChat, "tool_calls", "stop"}, {doResponses, "completed", "completed"}, {doMessages, "tool_use", "end_turn"},
	} {
		both := p.do != doResponses
		for _, streamed := range []bool{false, true} {
			suffix := map[bool]string{false: "", true: " stream"}[streamed]
			usage := spent
			if streamed && p.do == doChat {
				usage = nil // not asked for
			}
			list = append(list,
				Case{Name: p.do + suffix + ", two tools at once", Field: "A15", Steps: step, Translatable: both,
					Call: Call{Do: p.do, Stream: streamed, Tools: true}, Want: Result{Finish: p.finish, Tools: got, Usage: usage}, Executed: 1, Spent: spent},
				Case{Name: p.do + suffix + ", a tool without arguments", Field: "A15", Steps: empty, Translatable: both,
					Call: Call{Do: p.do, Stream: streamed, Tools: true}, Want: Result{Finish: p.finish, Tools: noArguments, Usage: usage}, Executed: 1, Spent: spent})
		}
		list = append(list, Case{Name: p.do + ", structured output", Steps: []upstream.Step{hello(object)},
			Call: Call{Do: p.do, Structured: true}, Want: Result{Text: object, Parsed: parsed, Finish: p.plain, Usage: spent},
			Executed: 1, Spent: spent, Sent: schema})
	}
	return list
}
