package proxy

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"sluice/fsm"
	"sluice/limiter"
)

const (
	created  = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\",\"usage\":null}}\n\n"
	deltaOne = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"delta\":\"日本 🚀 and more\"}\n\n"
	doneText = "event: response.output_text.done\ndata: {\"type\":\"response.output_text.done\",\"sequence_number\":2,\"text\":\"response.completed\"}\n\n"
	figuresR = `{"input_tokens":36,"input_tokens_details":{"cached_tokens":6},"output_tokens":87,"output_tokens_details":{"reasoning_tokens":60},"total_tokens":123}`

	respondBody = `{"model":"m","input":"hi","stream":true}`
)

func ended(kind string) string {
	return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\",\"sequence_number\":3,\"response\":{\"id\":\"resp_1\",\"output\":[{\"usage\":1}],\"usage\":" + figuresR + "}}\n\n"
}

// typedCase is one stream of typed events; "…" at the end of want: an error
// event of the gateway's own follows.
type typedCase struct {
	name, path, body, sent, want string
	usage                        limiter.Usage
}

func typedCases() []typedCase {
	all := limiter.Usage{Input: 36, Output: 87, Cached: 6}
	asked := estimate(int64(len(respondBody)))
	some := limiter.Usage{Input: asked, Output: estimate(int64(len("日本 🚀 and more")))}
	const r = "/v1/responses"
	transcribe := formOf(modelPart, "m", field("stream"), "true", filePart, "sound")
	return []typedCase{
		{"completed", r, respondBody, created + deltaOne + doneText + ended("response.completed"), "", all},
		{"incomplete", r, respondBody, created + deltaOne + ended("response.incomplete"), "", all},
		{"failed", r, respondBody, created + deltaOne + ended("response.failed"), "", all},
		{"failed without usage", r, respondBody, created + "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"resp_1\",\"usage\":null}}\n\n", "", limiter.Usage{}},
		{"error", r, respondBody, created + deltaOne + "event: error\ndata: {\"type\":\"error\",\"message\":\"x\"}\n\n", "", some},
		{"CRLF", r, respondBody, strings.ReplaceAll(created+deltaOne+ended("response.completed"), "\n", "\r\n"), "", all},
		{"[DONE] behind the end", r, respondBody, created + ended("response.completed") + done, "", all},
		{"options that are none of the gateway's", r, `{"model":"m","stream":true,"stream_options":{"include_obfuscation":false}}`, created + ended("response.completed"), "", all},
		{"end without an end", r, respondBody, created + deltaOne + doneText, "…", some},
		{"cut in an event", r, respondBody, created + deltaOne + "event: response.completed\ndata: {\"type\":\"resp", created + deltaOne + "…", some},
		{"last event without its blank line", r, respondBody, created + strings.TrimRight(ended("response.completed"), "\n"), created + ended("response.completed"), all},
		{"2 MB event", r, respondBody, created + "data: {\"type\":\"x\",\"y\":\"" + strings.Repeat("z", 2<<20) + "\"}\n\n" + ended("response.completed"), "", all},
		{"transcript", "/v1/audio/transcriptions", transcribe,
			"data: {\"type\":\"transcript.text.delta\",\"delta\":\"x\"}\n\ndata: {\"type\":\"transcript.text.done\",\"text\":\"x\",\"usage\":{\"type\":\"tokens\",\"input_tokens\":14,\"output_tokens\":45}}\n\n", "", limiter.Usage{Input: 14, Output: 45}},
		{"image", "/v1/images/generations", `{"model":"m","stream":true,"partial_images":1}`,
			"event: image_generation.partial_image\ndata: {\"type\":\"image_generation.partial_image\",\"b64_json\":\"AAAA\"}\n\nevent: image_generation.completed\ndata: {\"type\":\"image_generation.completed\",\"usage\":{\"input_tokens\":50,\"output_tokens\":272}}\n\n", "", limiter.Usage{Input: 50, Output: 272}},
		{"sound", "/v1/audio/speech", `{"model":"m","stream_format":"sse"}`,
			"data: {\"type\":\"speech.audio.delta\",\"audio\":\"AAAA\"}\n\ndata: {\"type\":\"speech.audio.done\",\"usage\":{\"input_tokens\":14,\"output_tokens\":101}}\n\n", "", limiter.Usage{Input: 14, Output: 101}},
	}
}

func (c *typedCase) post(r *rig) answer {
	if strings.HasPrefix(c.body, "--") {
		return r.post(c.path, c.body, "Content-Type", formType)
	}
	return r.post(c.path, c.body)
}

func (c *typedCase) check(t *testing.T, r *rig, a answer) {
	t.Helper()
	want, cut := strings.CutSuffix(c.want, "…")
	if want == "" {
		want = c.sent
	}
	got := a.body
	if cut {
		var event string
		got, event, _ = strings.Cut(a.body, "event: error\ndata: ")
		var e struct {
			Type, Code, Message string
			SequenceNumber      int64 `json:"sequence_number"`
			Error               struct{ Message, Type, Code string }
		}
		if err := json.Unmarshal([]byte(event), &e); err != nil || !strings.HasSuffix(event, "\n\n") {
			t.Errorf("error event %q: %v", event, err)
		}
		if e.Type != "error" || e.Code != "502" || e.Message == "" || e.Error.Message != e.Message || e.SequenceNumber < 2 {
			t.Errorf("error event %+v", e)
		}
	}
	if got != want {
		t.Errorf("got  %.400q\nwant %.400q", got, want)
	}
	if u := r.gate.spent(t, 0); u != c.usage {
		t.Errorf("settled %+v, want %+v", u, c.usage)
	}
}

func TestTypedStreams(t *testing.T) {
	for _, c := range typedCases() {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, func(conn net.Conn) { say(conn, sseHead+c.sent) })
			r := newRig(t, one(up.url), nil)
			c.check(t, r, c.post(r))
			if got := up.requests()[0]; got.body != c.body || got.uri != c.path {
				t.Errorf("%s went up to %s", got.body, got.uri)
			}
		})
	}
}

func TestTypedStreamsInPiecesOfAnySize(t *testing.T) {
	for _, c := range typedCases() {
		if len(c.sent) > 1<<20 {
			continue
		}
		for _, size := range []int{1, 2, 3, 7} {
			t.Run(fmt.Sprintf("%s by %d", c.name, size), func(t *testing.T) {
				r := newRig(t, one("http://127.0.0.1:1"), nil)
				r.proxy.providers[fsm.ProviderCompatible] = scripted{c.sent, size}
				r.proxy.table.Store(nil)
				c.check(t, r, c.post(r))
			})
		}
	}
}

func TestReasoningTokensAreKeptApart(t *testing.T) {
	up := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("200 OK", `{"id":"resp_1","usage":`+figuresR+`}`)) })
	r := newRig(t, one(up.url), nil)
	r.post("/v1/responses", `{"model":"m"}`)
	if u := r.gate.spent(t, 0); u != (limiter.Usage{Input: 36, Output: 87, Cached: 6}) {
		t.Errorf("settled %+v", u)
	}
	eventually(t, "log line", func() bool { return strings.Contains(r.logs.String(), "reasoning_tokens=60") })
}

func FuzzInspectTyped(f *testing.F) {
	for _, s := range []string{created, deltaOne, ended("response.completed"), "data: {\"type\":\"error\",\"error\":null}\n\n", "data: [DONE]\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		data, _ := eventData(raw, nil)
		c := inspectTyped(data)
		var whole map[string]json.RawMessage
		valid := json.Unmarshal(data, &whole) == nil && whole != nil
		if c.json && !valid || (c.usage != nil || c.id != "") && !valid && c.json {
			t.Fatalf("read %+v in %q", c, data)
		}
		if c.text < 0 || c.sequence < 0 {
			t.Fatalf("figures of %q: %+v", data, c)
		}
		var u usage
		u.merge(c.usage)
		if got := u.tokens(); got.Input < 0 || got.Output < 0 || got.Cached > got.Input {
			t.Fatalf("usage of %q: %+v", data, got)
		}
	})
}
