package translate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// msgChunk returns a chunk with the delta; finish is JSON.
func msgChunk(delta, finish string) string {
	return `{"id":"chatcmpl-A1","object":"chat.completion.chunk","model":"up","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}],"usage":null}`
}

// msgCall returns a chunk that speaks of one tool call.
func msgCall(members string) string { return msgChunk(`{"tool_calls":[{`+members+`}]}`, "null") }

const (
	msgRole  = `{"id":"chatcmpl-A1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	msgUsed  = `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}`
	msgDone  = `[DONE]`
	msgCall0 = `"index":0,"id":"c0","type":"function","function":{"name":"f","arguments":""}`
	msgCall1 = `"index":1,"id":"c1","type":"function","function":{"name":"g","arguments":""}`
)

func msgArgs(index int, text string) string {
	quoted, _ := json.Marshal(text)
	return msgCall(fmt.Sprintf(`"index":%d,"function":{"arguments":%s}`, index, quoted))
}

func TestMessagesStream(t *testing.T) {
	text := func(s string) msgGotBlock { return msgGotBlock{Type: "text", Text: s} }
	tool := func(id, name, input string) msgGotBlock {
		return msgGotBlock{Type: "tool_use", ID: id, Name: name, Text: input}
	}
	stop, calls := msgChunk(`{}`, `"stop"`), msgChunk(`{}`, `"tool_calls"`)
	for _, c := range []struct {
		name   string
		chunks []string
		blocks []msgGotBlock
		stop   string
	}{
		{"text", []string{msgRole, msgChunk(`{"content":"h"}`, "null"), msgChunk(`{"content":"i"}`, "null"), stop, msgUsed, msgDone}, []msgGotBlock{text("hi")}, "end_turn"},
		{"text with the finish_reason", []string{msgChunk(`{"content":"hi"}`, `"length"`), msgUsed, msgDone}, []msgGotBlock{text("hi")}, "max_tokens"},
		{"a finish_reason and nothing said", []string{stop, msgUsed, msgDone}, nil, "end_turn"},
		{"nothing but the end", []string{msgUsed, msgDone}, nil, "end_turn"},
		{"choices null, delta null, text null", []string{`{"choices":null}`, msgChunk(`null`, "null"), msgChunk(`{"content":null,"tool_calls":null,"refusal":null}`, "null"), stop, msgUsed, msgDone}, nil, "end_turn"},
		{"no [DONE]", []string{msgChunk(`{"content":"hi"}`, "null"), stop, msgUsed}, []msgGotBlock{text("hi")}, "end_turn"},
		{"no finish_reason", []string{msgChunk(`{"content":"hi"}`, "null"), msgUsed, msgDone}, []msgGotBlock{text("hi")}, "end_turn"},
		{"something after the end", []string{msgChunk(`{"content":"hi"}`, `"stop"`), msgUsed, msgDone, msgDone, msgChunk(`{"content":"more"}`, "null"), "?"}, []msgGotBlock{text("hi")}, "end_turn"},
		{"text after the finish_reason", []string{msgChunk(`{"content":"h"}`, `"stop"`), msgChunk(`{"content":"i"}`, "null"), msgUsed, msgDone}, []msgGotBlock{text("hi")}, "end_turn"},
		{"filtered", []string{msgChunk(`{"content":"h"}`, `"content_filter"`), msgUsed, msgDone}, []msgGotBlock{text("h")}, "refusal"},
		{"refused", []string{msgChunk(`{"refusal":"n"}`, "null"), msgChunk(`{"refusal":"o"}`, "null"), stop, msgUsed, msgDone}, []msgGotBlock{text("no")}, "refusal"},
		{"another choice is none of ours", []string{`{"choices":[{"index":1,"delta":{"content":"x"},"finish_reason":"stop"}]}`, msgChunk(`{"content":"hi"}`, `"stop"`), msgUsed, msgDone}, []msgGotBlock{text("hi")}, "end_turn"},
		{"thoughts, then text", []string{msgChunk(`{"reasoning_content":"a"}`, "null"), msgChunk(`{"reasoning_content":"b","content":null}`, "null"), msgChunk(`{"content":"c"}`, "null"), stop, msgUsed, msgDone},
			[]msgGotBlock{{Type: "thinking", Text: "ab"}, text("c")}, "end_turn"},
		{"one call", []string{msgRole, msgCall(msgCall0), msgArgs(0, `{"a`), msgArgs(0, `":1}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `{"a":1}`)}, "tool_use"},
		{"pieces cut inside an escape", []string{msgCall(msgCall0), msgArgs(0, `{"a":"\u00`), msgArgs(0, `e9\`), msgArgs(0, `""}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `{"a":"\u00e9\""}`)}, "tool_use"},
		{"one call after the other", []string{msgCall(msgCall0), msgArgs(0, `{"a":1}`), msgCall(msgCall1), msgArgs(1, `{"b":2}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `{"a":1}`), tool("c1", "g", `{"b":2}`)}, "tool_use"},
		{"calls that take turns", []string{msgCall(msgCall0), msgCall(msgCall1), msgArgs(1, `{"b"`), msgArgs(0, `{"a":`), msgArgs(1, `:2}`), msgArgs(0, `1}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `{"a":1}`), tool("c1", "g", `{"b":2}`)}, "tool_use"},
		{"calls in one chunk", []string{msgCall(msgCall0 + `},{` + msgCall1), msgArgs(0, `{}`), msgArgs(1, `{}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `{}`), tool("c1", "g", `{}`)}, "tool_use"},
		{"calls without arguments", []string{msgCall(msgCall0), msgCall(msgCall1), calls, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", ``), tool("c1", "g", ``)}, "tool_use"},
		{"arguments that never become whole", []string{msgCall(msgCall0), msgArgs(0, `{"a":`), msgCall(msgCall1), msgArgs(1, `{}`), msgChunk(`{}`, `"length"`), msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `{"a":`), tool("c1", "g", `{}`)}, "max_tokens"},
		{"space behind a call that has ended", []string{msgCall(msgCall0), msgArgs(0, `{}`), msgCall(msgCall1), msgArgs(0, ` `), msgArgs(1, `{}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `{}`), tool("c1", "g", `{}`)}, "tool_use"},
		{"an object inside a string is no end", []string{msgCall(msgCall0), msgArgs(0, `"{}`), msgCall(msgCall1), msgArgs(0, `"`), msgArgs(1, `{}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `"{}"`), tool("c1", "g", `{}`)}, "tool_use"},
		{"text, a call, text", []string{msgChunk(`{"content":"a"}`, "null"), msgCall(msgCall0), msgArgs(0, `{"x":`), msgChunk(`{"content":"b"}`, "null"), msgArgs(0, `1}`), msgChunk(`{"content":"c"}`, "null"), calls, msgUsed, msgDone},
			[]msgGotBlock{text("a"), tool("c0", "f", `{"x":1}`), text("bc")}, "tool_use"},
		{"empty text between the pieces of a call", []string{msgCall(msgCall0), msgArgs(0, `{`), msgChunk(`{"content":""}`, "null"), msgArgs(0, `}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `{}`)}, "tool_use"},
		{"every call with index 0", []string{msgCall(`"index":0,"id":"c0","function":{"name":"f","arguments":"{}"}`), msgCall(`"index":0,"id":"c1","function":{"name":"g","arguments":"{}"}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `{}`), tool("c1", "g", `{}`)}, "tool_use"},
		{"every call with index 0 and no id", []string{msgCall(`"index":0,"function":{"name":"f","arguments":"{}"}`), msgCall(`"index":0,"function":{"name":"f","arguments":"{}"}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("toolu_1_0", "f", `{}`), tool("toolu_1_1", "f", `{}`)}, "tool_use"},
		{"calls without index", []string{msgCall(`"id":"c0","function":{"name":"f","arguments":"{}"}`), msgCall(`"id":"c1","function":{"name":"g","arguments":"{"}`), msgCall(`"function":{"arguments":"}"}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `{}`), tool("c1", "g", `{}`)}, "tool_use"},
		{"calls with neither index nor id", []string{msgCall(`"function":{"name":"f","arguments":"{}"}`), msgCall(`"function":{"name":"f","arguments":"{}"}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("toolu_1_0", "f", `{}`), tool("toolu_1_1", "f", `{}`)}, "tool_use"},
		{"id and name on every piece", []string{msgCall(`"index":0,"id":"c0","function":{"name":"f","arguments":"{"}`), msgCall(`"index":0,"id":"c0","function":{"name":"f","arguments":"}"}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `{}`)}, "tool_use"},
		{"an id that is empty later on", []string{msgCall(`"index":0,"id":"c0","function":{"name":"f","arguments":"{"}`), msgCall(`"index":0,"id":"","function":{"name":"","arguments":"}"}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `{}`)}, "tool_use"},
		{"a name that comes late", []string{msgCall(`"index":0,"id":"c0","function":{"arguments":"{"}`), msgCall(`"index":0,"function":{"name":"f","arguments":"}"}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `{}`)}, "tool_use"},
		{"a call of which nothing is said", []string{msgChunk(`{"content":"a","tool_calls":[{"index":0}]}`, "null"), stop, msgUsed, msgDone}, []msgGotBlock{text("a")}, "end_turn"},
		{"arguments as an object", []string{msgCall(`"index":0,"id":"c0","function":{"name":"f","arguments":{"a": 1}}`), calls, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `{"a":1}`)}, "tool_use"},
		{"a call of the older kind", []string{msgChunk(`{"function_call":{"name":"f","arguments":""}}`, "null"), msgChunk(`{"function_call":{"arguments":"{}"}}`, "null"), msgChunk(`{}`, `"function_call"`), msgUsed, msgDone}, []msgGotBlock{tool("toolu_1_0", "f", `{}`)}, "tool_use"},
		{"a forced call ends with stop", []string{msgCall(msgCall0), msgArgs(0, `{}`), stop, msgUsed, msgDone}, []msgGotBlock{tool("c0", "f", `{}`)}, "tool_use"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := msgPlay(t, c.chunks...)
			if !ok || !got.Ended || !reflect.DeepEqual(got.Blocks, c.blocks) || got.Stop != c.stop {
				t.Errorf("ok %v, ended %v\n got %+v %s\nwant %+v %s", ok, got.Ended, got.Blocks, got.Stop, c.blocks, c.stop)
			}
			want := map[string]int64{"input_tokens": 6, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4, "output_tokens": 3}
			if !reflect.DeepEqual(got.Usage, want) {
				t.Errorf("usage %v", got.Usage)
			}
			// Cut anywhere, it is either still legal and known to be cut, or whole.
			for n := range c.chunks {
				msgPlay(t, c.chunks[:n]...)
			}
		})
	}
}

func TestMessagesStreamUsage(t *testing.T) {
	running := []string{}
	for i := 1; i <= 100; i++ {
		running = append(running, fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":7,"completion_tokens":%d}}`, i))
	}
	for _, c := range []struct {
		name          string
		chunks        []string
		input, output int64
	}{
		{"running totals", append(running, msgChunk(`{}`, `"stop"`), msgDone), 7, 100},
		{"with the finish_reason", []string{`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`, msgDone}, 7, 1},
		{"with the finish_reason, and again", []string{`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`, `{"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":2}}`, msgDone}, 8, 2},
		{"and then null", []string{`{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}`, msgDone}, 7, 1},
		{"a field of it null", []string{`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`, `{"choices":[],"usage":{"prompt_tokens":null,"completion_tokens":2}}`, msgDone}, 7, 2},
		{"never", []string{msgChunk(`{}`, `"stop"`), msgDone}, 0, 0},
		{"without choices", []string{msgChunk(`{"content":"x"}`, `"stop"`), `{"usage":{"prompt_tokens":7,"completion_tokens":1}}`}, 7, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := msgPlay(t, c.chunks...)
			if !ok || got.Usage["input_tokens"] != c.input || got.Usage["output_tokens"] != c.output {
				t.Errorf("ok %v, got %v", ok, got.Usage)
			}
		})
	}
}

func TestMessagesStreamNamesTheStopSequenceWhereTheServerDoes(t *testing.T) {
	s := NewMessagesStream("m", "msg_1")
	last := []byte(`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop","stop_reason":"END"}]}`)
	out, err := s.Event(nil, last)
	if err != nil {
		t.Fatal(err)
	}
	clear(last)
	out, _ = s.End(out)
	if got, err := msgFollow(out); err != nil || got.Stop != "stop_sequence" || got.StopSequence != "END" {
		t.Errorf("%v, got %+v", err, got)
	}
}

func TestMessagesStreamBytes(t *testing.T) {
	s := NewMessagesStream(`m"x`, "msg_1")
	var out []byte
	for _, c := range []string{
		"{\"choices\":\n[{\"delta\":{\"content\":\"\\u2028<\u00e9\\ud83d\"}}]}",
		msgCall(`"index":0,"id":"c<\u0030","function":{"name":"f\/","arguments":"{\"a\":\"\\u2028\ud83d"}`),
	} {
		var err error
		if out, err = s.Event(out, []byte(c)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		`"model":"m\"x"`,
		`"text":"\u2028<` + "\u00e9" + `\ud83d"}`,
		`"id":"c<\u0030","name":"f\/","input":{}}`,
		`"partial_json":"{\"a\":\"\\u2028\ud83d"}`,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// Pieces are passed on in the event that they came in, unless another block
// has to end first.
func TestMessagesStreamHoldsNothingBackWithoutNeed(t *testing.T) {
	s := NewMessagesStream("m", "msg_1")
	for i, c := range []struct{ chunk, want string }{
		{msgRole, "message_start"},
		{msgChunk(`{"content":"hi"}`, "null"), `"text":"hi"`},
		{msgCall(msgCall0), `"id":"c0"`},
		{msgArgs(0, `{"a":1`), `"partial_json":"{\"a\":1"`},
		{msgArgs(0, `}`), `"partial_json":"}"`},
		{msgCall(msgCall1), `"id":"c1"`},
		{msgArgs(1, `{`), `"partial_json":"{"`},
	} {
		out, err := s.Event(nil, []byte(c.chunk))
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("chunk %d: %v, no %s in %q", i, err, c.want, out)
		}
	}
}

func TestMessagesStreamOfAnErrorEnds(t *testing.T) {
	for _, c := range []struct{ name, event, kind string }{
		{"OpenAI's", `{"error":{"message":"The server had an error","type":"server_error","code":null}}`, "api_error"},
		{"vLLM's", `{"error":{"message":"bad","type":"BadRequestError","code":400}}`, "invalid_request_error"},
		{"with the status as text", `{"error":{"message":"slow down","code":"429"}}`, "rate_limit_error"},
		{"as a string", `{"error":"boom"}`, "api_error"},
		{"next to choices", `{"error":{"message":"x","code":503},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`, "overloaded_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, before := range [][]string{nil, {msgRole}, {msgChunk(`{"content":"a"}`, "null")}, {msgCall(msgCall0), msgCall(msgCall1)}, {msgChunk(`{"content":"a"}`, `"stop"`)}} {
				got, ok := msgPlay(t, append(append([]string{}, before...), c.event, msgChunk(`{"content":"more"}`, "null"), msgDone)...)
				if !ok || got.Failed != c.kind || got.Ended {
					t.Errorf("after %v: ok %v, got %+v", before, ok, got)
				}
			}
		})
	}
}

func TestMessagesStreamThatIsCut(t *testing.T) {
	for _, chunks := range [][]string{nil, {msgRole}, {msgChunk(`{"content":"a"}`, "null")}, {msgCall(msgCall0), msgCall(msgCall1), msgArgs(1, `{}`)}, {msgUsed}} {
		if got, ok := msgPlay(t, chunks...); ok || got.Ended {
			t.Errorf("%v: ok %v, got %+v", chunks, ok, got)
		}
	}
}

func TestMessagesStreamOfSomethingElse(t *testing.T) {
	for _, event := range []string{`{"choi`, `x`, `[]`, `"x"`, strings.Repeat("[", 2000)} {
		s := NewMessagesStream("m", "msg_1")
		out, err := s.Event(nil, []byte(msgChunk(`{"content":"a"}`, `"stop"`)))
		if err != nil {
			t.Fatal(err)
		}
		after, err := s.Event(out, []byte(event))
		if err == nil || len(after) != len(out) {
			t.Errorf("%.20q gave %q, %v", event, after[len(out):], err)
		}
		if after, err = s.Event(nil, []byte(msgDone)); err != nil || len(after) != 0 {
			t.Errorf("and then %q, %v", after, err)
		}
		if after, ok := s.End(nil); ok || len(after) != 0 {
			t.Errorf("%.20q: End says %v and %q", event, ok, after)
		}
	}
}

func TestMessagesStreamBoundsWhatItHoldsBack(t *testing.T) {
	s := NewMessagesStream("m", "msg_1")
	piece := []byte(msgArgs(1, strings.Repeat("x", 1<<20)))
	for _, c := range []string{msgCall(msgCall0), msgCall(msgCall1)} {
		if _, err := s.Event(nil, []byte(c)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		if _, err := s.Event(nil, piece); err != nil {
			if i < 10 {
				t.Errorf("refused after %d MiB", i)
			}
			if _, ok := s.End(nil); ok {
				t.Error("and ended well")
			}
			return
		}
	}
	t.Error("20 MiB were held back")
}

// However an answer is cut into chunks and its calls are interleaved, the
// client puts together the answer that it would have got whole.
func TestMessagesStreamDoesNotDependOnTheChunks(t *testing.T) {
	const words = `h\u00e9\ud83d\ude00llo \"w\" `
	args := []string{`{"a": "\u2028\\x{", "n": [1.0, {"b": "}"}]}`, `{}`, `{"q":"'é😀'"}`}
	whole, err := MessagesAnswer([]byte(msgChat(`"reasoning_content":"hm`+words+`","content":"`+words+`","tool_calls":[`+
		msgWholeCall(0, args[0])+`,`+msgWholeCall(1, args[1])+`,`+msgWholeCall(2, args[2])+`]`, `"tool_calls"`)), "claude-x")
	if err != nil {
		t.Fatal(err)
	}
	want := msgBlocksOf(t, whole)
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		var chunks []string
		for _, piece := range msgCut(r, []string{"h", "m", "h", `\u00e9`, `\ud83d\ude00`, "l", "l", "o", " ", `\"`, "w", `\"`, " "}) {
			chunks = append(chunks, msgChunk(`{"reasoning_content":"`+piece+`"}`, "null"))
		}
		for _, piece := range msgCut(r, []string{"h", `\u00e9`, `\ud83d\ude00`, "l", "l", "o", " ", `\"`, "w", `\"`, " "}) {
			chunks = append(chunks, msgChunk(`{"content":"`+piece+`"}`, "null"))
		}
		var left [][]string
		for i, a := range args {
			chunks = append(chunks, msgCall(fmt.Sprintf(`"index":%d,"id":"c%d","function":{"name":"f%d","arguments":""}`, i, i, i)))
			left = append(left, msgCut(r, strings.Split(a, "")))
		}
		for {
			var open []int
			for i := range left {
				if len(left[i]) > 0 {
					open = append(open, i)
				}
			}
			if len(open) == 0 {
				break
			}
			i := open[r.IntN(len(open))]
			chunks = append(chunks, msgArgs(i, left[i][0]))
			left[i] = left[i][1:]
		}
		got, ok := msgPlay(t, append(chunks, msgChunk(`{}`, `"tool_calls"`), msgUsed, msgDone)...)
		for i := range got.Blocks {
			if b := &got.Blocks[i]; b.Type == "tool_use" {
				b.Text = string(msgAppendCompact(nil, []byte(b.Text)))
			}
		}
		if !ok || got.Stop != "tool_use" || !reflect.DeepEqual(got.Blocks, want) {
			t.Fatalf("seed %d: ok %v\n got %+v\nwant %+v", seed, ok, got.Blocks, want)
		}
	}
}

func msgWholeCall(i int, args string) string {
	quoted, _ := json.Marshal(args)
	return fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":"f%d","arguments":%s}}`, i, i, quoted)
}

// msgCut joins units into pieces of random length.
func msgCut(r *rand.Rand, units []string) (pieces []string) {
	for len(units) > 0 {
		n := 1 + r.IntN(min(4, len(units)))
		pieces = append(pieces, strings.Join(units[:n], ""))
		units = units[n:]
	}
	return pieces
}

// msgBlocksOf reads a whole answer as msgFollow reads a stream.
func msgBlocksOf(t *testing.T, answer []byte) (blocks []msgGotBlock) {
	t.Helper()
	var a struct {
		Content []struct {
			Type, ID, Name, Text, Thinking string
			Input                          json.RawMessage
		}
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		t.Fatal(err)
	}
	for _, b := range a.Content {
		blocks = append(blocks, msgGotBlock{b.Type, b.ID, b.Name, b.Text + b.Thinking + string(b.Input)})
	}
	return blocks
}

// Streams as servers of different kinds write them, down to the byte.
func TestMessagesStreamOfRealServers(t *testing.T) {
	for _, name := range []string{"openai-tools", "vllm-reasoning", "ollama-tools"} {
		t.Run(name, func(t *testing.T) {
			s := NewMessagesStream("claude-x", "msg_01")
			var out []byte
			for line := range strings.Lines(string(msgFile(t, name+".chunks"))) {
				var err error
				if out, err = s.Event(out, []byte(line)); err != nil {
					t.Fatal(err)
				}
			}
			out, ok := s.End(out)
			got, err := msgFollow(out)
			if err != nil || !ok || !got.Ended {
				t.Fatalf("%v, ok %v", err, ok)
			}
			msgGolden(t, name+".events", out)
		})
	}
}

func FuzzMessagesStream(f *testing.F) {
	for _, seed := range [][]string{
		{msgRole, msgChunk(`{"content":"a","reasoning":"b"}`, "null"), msgChunk(`{}`, `"stop"`), msgUsed, msgDone},
		{msgCall(msgCall0), msgCall(msgCall1), msgArgs(1, `{"a":1}`), msgArgs(0, `{}`), msgChunk(`{"content":"a"}`, `"tool_calls"`)},
		{msgCall(`"id":"c","function":{"name":"f","arguments":{"a":1}}`), `{"error":{"code":429}}`},
		{msgChunk(`{"function_call":{"name":"f","arguments":"{\"a\":\"\ud83d"}}`, "null"), msgUsed, `{"choices":[{"delta":{"content":[{"text":"a"}]},"matched_stop":"x","finish_reason":"stop"}]}`},
	} {
		f.Add([]byte(strings.Join(seed, "\n")))
	}
	f.Fuzz(func(t *testing.T, lines []byte) {
		s := NewMessagesStream("m", "msg_1")
		var out []byte
		failed := false
		for line := range strings.Lines(string(lines)) {
			n := len(out)
			var err error
			if out, err = s.Event(out, []byte(line)); err != nil && len(out) != n && err != errHeldBack {
				t.Fatal("an error and events")
			}
			failed = failed || err != nil
		}
		out, ok := s.End(out)
		got, err := msgFollow(out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if ok != (got.Ended || got.Failed != "") || failed && ok {
			t.Fatalf("ok %v, failed %v, events %v", ok, failed, got.Events)
		}
		if again, ok2 := s.End(nil); len(again) != 0 || ok2 != ok {
			t.Fatalf("End again: %q, %v", again, ok2)
		}
	})
}
