package main

import (
	"fmt"
	"strings"

	"sluice/examples/upstream"
)

// status is an upstream that always fails in this way.
func status(code int, header map[string]string) []upstream.Step {
	return []upstream.Step{{Times: upstream.Forever, Status: code, Header: header, Content: "words that clients match on"}}
}

// errorCases are F03: every library gets the error that the provider meant, in
// its own protocol's shape and so in its own class.
func errorCases() []Case {
	var list []Case
	for _, p := range []struct {
		do    string
		types map[int]string
	}{
		{doChat, map[int]string{400: "mock_error", 401: "mock_error", 404: "mock_error", 429: "mock_error", 500: "mock_error", 503: "mock_error"}},
		{doResponses, map[int]string{400: "mock_error", 429: "mock_error", 500: "mock_error"}},
		{doMessages, map[int]string{
			400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error",
			429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
		}},
	} {
		for _, code := range []int{400, 401, 404, 429, 500, 503, 529} {
			kind, ok := p.types[code]
			if !ok {
				continue
			}
			for _, streamed := range []bool{false, true} {
				if streamed && code != 429 && code != 529 {
					continue
				}
				list = append(list, errorCase(p.do, code, kind, streamed))
			}
		}
		list = append(list, refusals(p.do)...)
	}
	return list
}

func errorCase(do string, code int, kind string, streamed bool) Case {
	f := &Failure{Kind: failedStatus, Status: code, Type: kind, Message: "words that clients match on"}
	var header map[string]string
	if code == 429 {
		header = map[string]string{"Retry-After": "7"}
		f.RetryAfter = "7"
	}
	c := Case{
		Name: fmt.Sprintf("%s%s, %d of the provider", do, map[bool]string{true: " stream"}[streamed], code), Field: "F03",
		Steps: status(code, header), Call: Call{Do: do, Stream: streamed},
		Want: Result{Failure: f}, Executed: 1, Translatable: do != doResponses && code != 401,
	}
	// What another protocol calls it is its own affair; the status tells.
	c.Differs = map[Way]Result{Translated: {Failure: &Failure{Kind: failedStatus, Status: code, Message: f.Message, RetryAfter: f.RetryAfter}}}
	if code == 401 {
		// The client's key is good: it must not be told otherwise.
		c.Differs[Through] = Result{Failure: &Failure{Kind: failedStatus, Status: 502, Message: "credential"}}
	}
	return c
}

// refusals are errors of sluice's own.
func refusals(do string) []Case {
	kinds := map[string]string{"key": "token_not_found_in_db", "model": "", "limit": "throttling_error"}
	if do == doMessages {
		kinds = map[string]string{"key": "authentication_error", "model": "not_found_error", "limit": "rate_limit_error"}
	}
	return []Case{
		{Name: do + ", unknown key", Field: "F03", Call: Call{Do: do}, Key: "unknown", GatewayOnly: true,
			Want: Result{Failure: &Failure{Kind: failedStatus, Status: 401, Type: kinds["key"]}}},
		{Name: do + ", unknown model", Field: "F03", Call: Call{Do: do, Model: "nowhere"}, GatewayOnly: true,
			Want: Result{Failure: &Failure{Kind: failedStatus, Status: 404, Type: kinds["model"], Message: "nowhere"}}},
		// A library that retried would wait for as long as the key has to.
		{Name: do + ", over the key's limit", Field: "F07", Call: Call{Do: do}, Key: "limited", GatewayOnly: true,
			Want: Result{Failure: &Failure{Kind: failedStatus, Status: 429, Type: kinds["limit"], RetryAfter: "*", LimitedBy: "key"}}},
	}
}

// retryCases are F07: what the libraries do by default is what the provider sees.
func retryCases() []Case {
	soon := map[string]string{"Retry-After-Ms": "5"}
	never := map[string]string{"X-Should-Retry": "false"}
	var list []Case
	for _, p := range []struct{ do, finish string }{{doChat, "stop"}, {doMessages, "end_turn"}} {
		call := Call{Do: p.do, DefaultRetries: true}
		overloaded := map[string]int{doChat: 503, doMessages: 529}[p.do]
		list = append(list,
			Case{Name: p.do + ", third try succeeds", Field: "F07", Call: call, Steps: []upstream.Step{
				{Status: 429, Header: soon}, {Status: overloaded, Header: soon}, hello(text)},
				Want: Result{Text: text, Finish: p.finish, Usage: spent}, Executed: 3, Spent: spent},
			Case{Name: p.do + ", provider always overloaded", Field: "F07", Call: call, Steps: status(overloaded, soon),
				Want: Result{Failure: &Failure{Kind: failedStatus, Status: overloaded}}, Executed: 3},
			Case{Name: p.do + ", 400 is not tried again", Field: "F07", Call: call, Steps: status(400, nil),
				Want: Result{Failure: &Failure{Kind: failedStatus, Status: 400}}, Executed: 1},
			Case{Name: p.do + ", provider says not to try again", Field: "F07", Call: call, Steps: status(overloaded, never),
				Want: Result{Failure: &Failure{Kind: failedStatus, Status: overloaded}}, Executed: 1})
		twice := Call{Do: p.do, Headers: map[string]string{retriesHeader: "2"}}
		streamed := twice
		streamed.Stream = true
		reset := upstream.Step{End: upstream.EndReset, Chunks: chunks(0, "")}
		list = append(list,
			Case{Name: p.do + ", sluice tries a third time", Field: "F07", Call: twice, GatewayOnly: true, Needs: ownRetries, Steps: []upstream.Step{
				{Status: 429, Header: soon}, {Status: overloaded, Header: soon}, hello(text)},
				Want: Result{Text: text, Finish: p.finish, Usage: spent}, Executed: 3, Spent: spent},
			Case{Name: p.do + " stream, sluice tries again before the first event", Field: "A05", Call: streamed, GatewayOnly: true, Needs: ownRetries,
				Steps: []upstream.Step{reset, hello(text)},
				Want:  Result{Text: text, Finish: p.finish, Usage: map[string]*Usage{doMessages: spent}[p.do]}, Executed: 2, Spent: spent},
			Case{Name: p.do + ", sluice gives up after its third try", Field: "F07", Call: twice, GatewayOnly: true, Needs: ownRetries, Steps: status(overloaded, soon),
				Want: Result{Failure: &Failure{Kind: failedStatus, Status: overloaded}}, Executed: 3})
	}
	return list
}

// sizeCases are C10: coding agents send megabytes.
func sizeCases() []Case {
	const mega = 1 << 20
	var list []Case
	for _, p := range []struct{ do, finish, big, key string }{
		{doChat, "stop", "", "token_not_found_in_db"}, {doMessages, "end_turn", "request_too_large", "authentication_error"},
	} {
		for _, size := range []int{1, 5, 19} {
			list = append(list, Case{Name: fmt.Sprintf("%s, a prompt of %d MiB", p.do, size), Field: "C10", Steps: []upstream.Step{hello(text)},
				Call: Call{Do: p.do, Bytes: size * mega}, Want: Result{Text: text, Finish: p.finish, Usage: spent}, Executed: 1, Spent: spent,
				Sent: func(r upstream.Request) string {
					if n := strings.Count(string(r.Body), "x"); n < size*mega {
						return fmt.Sprintf("the provider was sent %d bytes of the prompt", n)
					}
					return ""
				}})
		}
		list = append(list,
			Case{Name: p.do + ", a prompt of 21 MiB", Field: "C10", Call: Call{Do: p.do, Bytes: 21 * mega}, GatewayOnly: true,
				Want: Result{Failure: &Failure{Kind: failedStatus, Status: 413, Type: p.big}}},
			Case{Name: p.do + ", 19 MiB with an unknown key", Field: "C10", Call: Call{Do: p.do, Bytes: 19 * mega}, Key: "unknown", GatewayOnly: true,
				Want: Result{Failure: &Failure{Kind: failedStatus, Status: 401, Type: p.key}}})
	}
	return list
}
