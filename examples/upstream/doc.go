// Package upstream is a mock LLM provider that speaks OpenAI's and Anthropic's
// dialects over plain HTTP and does on request whatever providers do wrong: chat
// completions, completions, embeddings, responses, messages, count_tokens, models.
//
// It owns what a test or a user of the gateway needs on the far side: valid
// answers by default, scripted ones on demand (status, headers, body, usage,
// streams with chosen flush points, bytes split anywhere, resets, half-closed
// and silent connections), and an exact record of what arrived. It must not
// know the gateway: it imports nothing of sluice and decides nothing about
// limits.
//
// A request finds its script by model and path; each script is a queue of
// Steps, and when the queue is empty the default answer is given:
//
//	up, err := upstream.Start(upstream.Options{})
//	up.Play(upstream.Match{Model: "m"},
//		upstream.Step{Status: 503},
//		upstream.Step{Times: upstream.Forever, Usage: &upstream.Usage{Prompt: 4, Completion: 6}})
//
// The same can be done over HTTP while it runs: POST /_script, GET /_log,
// DELETE /_log (see control.go).
package upstream
