package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/examples/upstream"
)

// The patience of the sluice that cases run with, and what they measure by it:
// short enough to wait for, long enough for 19 MiB on a machine that is busy.
const (
	firstByteTimeout = 5 * time.Second
	idleTimeout      = 2 * time.Second
)

// speaker writes the streams of one protocol by hand.
type speaker struct {
	do, finish string
	start      string // before the first text
	say        func(string) string
	end        []string // after the last
	usage      *Usage   // what the client is told of it
}

// speakers say things for 7 + 5 tokens.
func speakers() []speaker {
	return []speaker{
		{doChat, "stop", chatChunk(`{"role":"assistant","content":""}`, "null", ""), chatText,
			[]string{chatChunk("{}", `"stop"`, ""), chatUsage(7, 5), done}, &Usage{Input: 7, Output: 5}},
		{doMessages, "end_turn", messageStart(`{"input_tokens":7,"output_tokens":1}`), messageText,
			[]string{blockStop, messageDelta(`{"output_tokens":5}`), messageStop}, &Usage{Input: 7, Output: 5}},
	}
}

// lifeCases are pauses, keep-alives, clients that leave or lose patience.
func lifeCases() []Case {
	five := &Usage{Input: 7, Output: 5}
	var list []Case
	for _, p := range speakers() {
		call := Call{Do: p.do, Stream: true, Usage: true}
		whole := func(text string) Result { return Result{Text: text, Finish: p.finish, Usage: p.usage} }
		body := func(pauseMS int, parts ...string) []upstream.Chunk {
			return slices.Concat(chunks(0, p.start), chunks(pauseMS, parts...), chunks(0, p.end...))
		}
		ping := ": processing\n\n"
		if p.do == doMessages {
			ping = named("ping", "")
		}
		// One event with an id: a keep-alive after it must not look like an event.
		withID := "id: 1\n" + p.say("b")
		list = append(list,
			Case{Name: p.do + " stream, comments of the provider", Field: "A07", Call: call,
				Steps: []upstream.Step{{Chunks: body(60, p.say("a"), ": processing\n\n", ": processing\n", p.say("b"))}},
				Want:  whole("ab"), Executed: 1, Spent: five},
			Case{Name: p.do + " stream, pings of the provider", Field: "A07", Call: call,
				Steps: []upstream.Step{{Chunks: body(60, ping, p.say("a"), ping, ping, p.say("b"), ping)}},
				Want:  whole("ab"), Executed: 1, Spent: five},
			Case{Name: p.do + " stream, pings outlast every timeout", Field: "A07", Call: call,
				Steps: []upstream.Step{{Chunks: slices.Concat(chunks(0, p.start, p.say("a")), chunks(int(idleTimeout.Milliseconds())/2, ping, ping, ping, p.say("b")), chunks(0, p.end...))}},
				Want:  whole("ab"), Executed: 1, Spent: five, AtLeast: idleTimeout},
			Case{Name: p.do + " stream, silent before and within", Field: "A08", Call: call,
				Steps: []upstream.Step{{DelayMS: 700, Chunks: body(700, "id: 1\n"+p.say("a"), withID)}},
				Want:  whole("ab"), Executed: 1, Spent: five, AtLeast: 2 * time.Second},
			Case{Name: p.do + " stream, longer than every timeout", Field: "A12", Call: call,
				Steps: []upstream.Step{{Chunks: body(700, repeat(p.say("x"), 8)...)}},
				Want:  whole(strings.Repeat("x", 8)), Executed: 1, Spent: five, AtLeast: firstByteTimeout},
			Case{Name: p.do + " stream, silent for ever", Field: "A12", Call: call, GatewayOnly: true,
				Steps: []upstream.Step{{End: upstream.EndSilence, Chunks: chunks(0, p.start, p.say("a"))}},
				Want:  Result{Text: "a", Failure: &Failure{Kind: failedStream}}, Executed: 1, Guessed: true,
				AtLeast: idleTimeout - 200*time.Millisecond, Within: idleTimeout + 3*time.Second},
			Case{Name: p.do + ", no first byte", Field: "A12", Call: Call{Do: p.do}, GatewayOnly: true,
				Steps: []upstream.Step{{DelayMS: 60_000}},
				Want:  Result{Failure: &Failure{Kind: failedStatus, Status: 504}}, Executed: 1, Within: firstByteTimeout + 3*time.Second},
			Case{Name: p.do + " stream, the client leaves", Field: "A02", Call: Call{Do: p.do, Stream: true, LeaveAfter: 2},
				Steps: []upstream.Step{{Chunks: body(50, repeat(p.say("x"), 400)...)}},
				Want:  Result{Text: "xx", Left: true}, Executed: 1, Guessed: true, Within: 5 * time.Second},
			Case{Name: p.do + ", the client's timeout", Field: "A02", Call: Call{Do: p.do, TimeoutMS: 1000},
				Steps: []upstream.Step{{DelayMS: 60_000}},
				Want:  Result{Failure: &Failure{Kind: failedTimeout}}, Executed: 1, Guessed: true, Within: 5 * time.Second})
	}
	return list
}

// cuts are the ways in which an upstream's stream can end too early.
var cuts = []struct {
	name string
	end  upstream.End
	half bool // after the first half of an event
}{
	{"reset", upstream.EndReset, false},
	{"without the last chunk", upstream.EndNoLastChunk, false},
	{"a clean end too early", upstream.EndComplete, false},
	{"cut inside an event", upstream.EndNoLastChunk, true},
	{"reset inside an event", upstream.EndReset, true},
	{"a clean end inside an event", upstream.EndComplete, true},
}

// cutCases are A05: no library may take a cut answer for a whole one.
func cutCases() []Case {
	var list []Case
	for _, p := range speakers() {
		list = append(list, cutsOf(p.do, p.start, p.say("a"), p.say("b"), p.say("c"))...)
	}
	delta := func(n int, s string) string {
		return named("response.output_text.delta", fmt.Sprintf(`,"sequence_number":%d,"output_index":0,"content_index":0,"item_id":"msg_1","delta":%q,"logprobs":[]`, n, s))
	}
	start := named("response.created", `,"sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","model":"m","output":[]}`)
	list = append(list, cutsOf(doResponses, start, delta(1, "a"), delta(2, "b"), delta(3, "c"))...)
	many := []string{start}
	for n := range 400 {
		many = append(many, delta(n+1, "x"))
	}
	return append(list, Case{Name: "responses stream, the client leaves", Field: "A02", Call: Call{Do: doResponses, Stream: true, LeaveAfter: 2},
		Steps: []upstream.Step{{Chunks: chunks(50, many...)}},
		Want:  Result{Text: "xx", Left: true}, Executed: 1, Guessed: true, Within: 5 * time.Second})
}

// cutsOf cuts a stream after two events with text, in or before the third.
func cutsOf(do, start, first, second, third string) []Case {
	call := Call{Do: do, Stream: true}
	var list []Case
	for _, cut := range cuts {
		parts := []string{start, first, second}
		if cut.half {
			parts = append(parts, third[:len(third)-12])
		}
		list = append(list, Case{Name: do + " stream, " + cut.name, Field: "A05", Call: call, GatewayOnly: true,
			Steps: []upstream.Step{{End: cut.end, Chunks: chunks(30, parts...)}},
			Want:  Result{Text: "ab", Failure: &Failure{Kind: failedStream}}, Executed: 1, Guessed: true})
	}
	return append(list, Case{Name: do + " stream, reset before any event", Field: "A05", Call: call, GatewayOnly: true,
		Steps: []upstream.Step{{End: upstream.EndReset, Times: upstream.Forever, Chunks: chunks(0, "")}},
		Want:  Result{Failure: &Failure{Kind: failedStatus, Status: 502}}, Executed: 1})
}

// usageCases are B07: the figure is the provider's, however it is told.
func usageCases() []Case {
	var totals strings.Builder
	totals.WriteString(chatChunk(`{"role":"assistant","content":""}`, "null", ""))
	for i := 1; i <= 100; i++ {
		totals.WriteString(chatChunk(`{"content":"x"}`, "null", usageField(50, i)))
	}
	totals.WriteString(chatChunk("{}", `"stop"`, usageField(50, 100)) + done)
	chat := Call{Do: doChat, Stream: true, Usage: true}
	messages := Call{Do: doMessages, Stream: true}
	message := func(start string, deltas ...string) []upstream.Step {
		body := messageStart(start) + messageText("x") + blockStop
		for _, d := range deltas {
			body += messageDelta(d)
		}
		return []upstream.Step{{Chunks: chunks(0, body+messageStop)}}
	}
	cached := &Usage{Input: 1025, Output: 15, Cached: 1000}
	return []Case{
		{Name: "chat stream, running totals in every chunk", Field: "B07", Call: chat, Steps: []upstream.Step{{Chunks: chunks(0, totals.String())}},
			Want:     Result{Text: strings.Repeat("x", 100), Finish: "stop", Usage: &Usage{Input: 50, Output: 100}},
			Executed: 1, Spent: &Usage{Input: 50, Output: 100}},
		{Name: "chat stream, usage and then null", Field: "B07", Call: chat, Steps: []upstream.Step{{Chunks: chunks(0,
			chatText("x"), chatUsage(7, 5), chatChunk("{}", `"stop"`, `,"usage":null`), done)}},
			Want: Result{Text: "x", Finish: "stop", Usage: &Usage{Input: 7, Output: 5}}, Executed: 1, Spent: &Usage{Input: 7, Output: 5}},
		{Name: "messages stream, usage in two parts", Field: "B07", Call: messages, Steps: message(`{"input_tokens":25,"output_tokens":1}`, `{"output_tokens":15}`),
			Want: Result{Text: "x", Finish: "end_turn", Usage: &Usage{Input: 25, Output: 15}}, Executed: 1, Spent: &Usage{Input: 25, Output: 15}},
		{Name: "messages stream, usage repeated with cached tokens", Field: "B07", Call: messages,
			Steps: message(`{"input_tokens":25,"cache_read_input_tokens":1000,"output_tokens":1}`, `{"input_tokens":25,"cache_read_input_tokens":1000,"output_tokens":15}`),
			Want:  Result{Text: "x", Finish: "end_turn", Usage: cached}, Executed: 1, Spent: cached},
		{Name: "messages stream, cumulative usage", Field: "B07", Call: messages,
			Steps: message(`{"input_tokens":25,"output_tokens":1}`, `{"output_tokens":7}`, `{"output_tokens":15}`),
			Want:  Result{Text: "x", Finish: "end_turn", Usage: &Usage{Input: 25, Output: 15}}, Executed: 1, Spent: &Usage{Input: 25, Output: 15}},
	}
}
