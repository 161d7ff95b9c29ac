package proxy

import (
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"strings"
	"testing"

	"sluice/fsm"
	"sluice/limiter"
)

// renamed is a configuration whose model "m" has another name upstream.
func renamed(base string) fsm.Config {
	cfg := one(base)
	cfg.Models[0].Deployments[0].Model = "their/model"
	return cfg
}

func TestOtherEndpointsPassThroughAndAreCounted(t *testing.T) {
	upload := formOf(filePart, strings.Repeat("\x00sound\r\n", 5000), modelPart, "m", field("response_format"), "json")
	asked := func(body string) int64 { return estimate(int64(len(strings.Replace(body, `"m"`, `"their/model"`, 1)))) }
	for _, c := range []struct {
		name, path, body, upstream, answer string
		want                               limiter.Usage
	}{
		{"moderations", "/v1/moderations", `{"model":"m","input":"x"}`, "/v1/moderations", `{"results":[]}`, limiter.Usage{Input: asked(`{"model":"m","input":"x"}`)}},
		{"image with usage", "/images/generations", `{"model":"m","prompt":"x"}`, "/v1/images/generations",
			`{"data":[{"b64_json":"` + strings.Repeat("A", 1<<20) + `"}],"usage":{"total_tokens":100,"input_tokens":50,"output_tokens":60,"input_tokens_details":{"text_tokens":10,"image_tokens":40}}}`, limiter.Usage{Input: 50, Output: 60}},
		{"image without usage", "/images/generations", `{"model":"m","n":2}`, "/v1/images/generations",
			`{"data":[{"b64_json":"` + strings.Repeat("A", 1<<20) + `"}]}`, limiter.Usage{Input: asked(`{"model":"m","n":2}`), Output: 2 * mediaTokens}},
		{"image edit", "/v1/images/edits", upload, "/v1/images/edits", `{"data":[],"usage":{"input_tokens":1,"output_tokens":2}}`, limiter.Usage{Input: 1, Output: 2}},
		{"image edit in JSON", "/v1/images/edits", `{"model":"m"}`, "/v1/images/edits", `{"data":[],"usage":{"input_tokens":1,"output_tokens":2}}`, limiter.Usage{Input: 1, Output: 2}},
		{"image variation", "/v1/images/variations", upload, "/v1/images/variations", `{"data":[{"url":"x"}]}`, limiter.Usage{Input: mediaTokens + 2, Output: 6}},
		{"transcription by tokens", "/audio/transcriptions", upload, "/v1/audio/transcriptions", `{"text":"x","usage":{"type":"tokens","input_tokens":14,"input_token_details":{"audio_tokens":14},"output_tokens":45,"total_tokens":59}}`, limiter.Usage{Input: 14, Output: 45}},
		{"transcription by time", "/audio/transcriptions", upload, "/v1/audio/transcriptions", `{"text":"12345678","usage":{"type":"duration","seconds":9.5}}`, limiter.Usage{Input: 100, Output: 16}},
		{"transcription in text", "/audio/transcriptions", upload, "/v1/audio/transcriptions", "just the words\n", limiter.Usage{Input: mediaTokens + 2, Output: 4}},
		{"translation", "/v1/audio/translations", upload, "/v1/audio/translations", `{"text":"x"}`, limiter.Usage{Input: mediaTokens + 2, Output: 3}},
		{"rerank by tokens", "/rerank", `{"model":"m","query":"x"}`, "/v1/rerank", `{"results":[],"meta":{"billed_units":{"search_units":1,"input_tokens":9},"tokens":{"input_tokens":7}}}`, limiter.Usage{Input: 7}},
		{"rerank by what is billed", "/v2/rerank", `{"model":"m"}`, "/v1/rerank", `{"results":[],"meta":{"billed_units":{"input_tokens":9}}}`, limiter.Usage{Input: 9}},
		{"rerank by searches", "/v1/rerank", `{"model":"m"}`, "/v1/rerank", `{"meta":{"billed_units":{"search_units":1}}}`, limiter.Usage{Input: asked(`{"model":"m"}`)}},
		{"rerank with a total", "/v1/rerank", `{"model":"m"}`, "/v1/rerank", `{"usage":{"total_tokens":815}}`, limiter.Usage{Input: 815}},
		{"compaction", "/v1/responses/compact", `{"model":"m"}`, "/v1/responses/compact", `{"id":"resp_c","usage":{"input_tokens":5,"output_tokens":6}}`, limiter.Usage{Input: 5, Output: 6}},
		{"Azure's path", "/openai/deployments/m/audio/transcriptions", formOf(filePart, "x"), "/v1/audio/transcriptions", `{"usage":{"input_tokens":5,"output_tokens":6}}`, limiter.Usage{Input: 5, Output: 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, func(conn net.Conn) { say(conn, jsonAnswer("200 OK", c.answer)) })
			r := newRig(t, renamed(up.url), nil)
			kind := "application/json"
			want := strings.Replace(c.body, `"m"`, `"their/model"`, 1)
			if strings.HasPrefix(c.body, "--") {
				kind = formType
				want = strings.Replace(c.body, "\r\n\r\nm\r\n", "\r\n\r\ntheir/model\r\n", 1)
			}
			if strings.Contains(c.path, "deployments") {
				want = "--XbX\r\n" + modelPart + "\r\n\r\ntheir/model\r\n" + c.body
			}
			a := r.post(c.path, c.body, "Content-Type", kind)
			if a.StatusCode != 200 || a.body != c.answer {
				t.Fatalf("%d %.300s", a.StatusCode, a.body)
			}
			got := up.requests()[0]
			if got.body != want || got.uri != c.upstream {
				t.Errorf("%.300q went up to %s\nwant %.300q", got.body, got.uri, want)
			}
			if got.header.Get("Content-Type") != kind || got.header.Get("Content-Length") != itoa(len(want)) {
				t.Errorf("headers %v", got.header)
			}
			if u := r.gate.spent(t, 0); u != c.want {
				t.Errorf("settled %+v, want %+v", u, c.want)
			}
		})
	}
}

func TestCountsOfTokensAreCountedInNoLimit(t *testing.T) {
	up := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("200 OK", `{"input_tokens":11}`)) })
	r := newRig(t, renamed(up.url), nil)
	if a := r.post("/v1/responses/input_tokens", `{"model":"m"}`); a.StatusCode != 200 || a.body != `{"input_tokens":11}` {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	if got := up.requests()[0]; got.body != `{"model":"their/model"}` || got.uri != "/v1/responses/input_tokens" {
		t.Errorf("%s went up to %s", got.body, got.uri)
	}
	if n := len(r.gate.tickets); n != 0 {
		t.Errorf("%d admissions", n)
	}
}

func TestSoundComesAsItIsMade(t *testing.T) {
	sound := "{\"usage\":{\"input_tokens\":1000000}}" + strings.Repeat("\x00\xff\r\n", 20000) // whatever it looks like, it is sound
	step := make(chan struct{})
	up := newRaw(t, func(c net.Conn) {
		say(c, "HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nConnection: close\r\n\r\n"+sound[:100])
		<-step
		say(c, sound[100:])
	})
	r := newRig(t, one(up.url), nil)
	req, err := http.NewRequest("POST", r.url+"/v1/audio/speech", strings.NewReader(`{"model":"m","input":"hello"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+userKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := make([]byte, 100)
	if _, err := io.ReadFull(res.Body, first); err != nil {
		t.Fatal(err)
	}
	close(step)
	rest, err := io.ReadAll(res.Body)
	if err != nil || string(first)+string(rest) != sound || res.Header.Get("Content-Type") != "audio/mpeg" {
		t.Errorf("%d bytes, %v, %v", len(rest), err, res.Header)
	}
	if u := r.gate.spent(t, 0); u != (limiter.Usage{Input: 8, Output: mediaTokens}) {
		t.Errorf("settled %+v", u)
	}
	if got := up.requests()[0].header.Get("Accept"); got != "*/*" {
		t.Errorf("accepts %q", got)
	}
}

// TestFormsPassInPiecesOfAnySize holds the body against what another reader
// makes of it, whatever the size of what is read at once.
func TestFormsPassInPiecesOfAnySize(t *testing.T) {
	up := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("200 OK", `{"text":"x"}`)) })
	r := newRig(t, renamed(up.url), nil)
	var body strings.Builder
	w := multipart.NewWriter(&body)
	file, err := w.CreateFormFile("file", "日本 sound.mp3")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(file, strings.Repeat("\r\n--\x00", 30_000))
	_ = w.WriteField("model", "m")
	_ = w.WriteField("prompt", "m")
	_ = w.Close()
	for i, size := range []int{1 << 20, 4096, 61, 7} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			req, err := http.NewRequest("POST", r.url+"/v1/audio/transcriptions", &sizedReader{strings.NewReader(body.String()), size})
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+userKey)
			req.Header.Set("Content-Type", w.FormDataContentType())
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			want := strings.Replace(body.String(), "\"model\"\r\n\r\nm\r\n", "\"model\"\r\n\r\ntheir/model\r\n", 1)
			got := up.requests()[i]
			if res.StatusCode != 200 || got.body != want || got.header.Get("Content-Type") != w.FormDataContentType() {
				t.Errorf("%d; %d bytes went up, want %d", res.StatusCode, len(got.body), len(want))
			}
		})
	}
}

func TestOtherEndpointsRefuse(t *testing.T) {
	r := newRig(t, mocked(), nil)
	good := formOf(modelPart, "m", filePart, "x")
	for _, c := range []struct {
		name, path, body, kind string
		status                 int
		text                   string
	}{
		{"no boundary", "/audio/transcriptions", good, "multipart/form-data", 400, "no boundary"},
		{"another boundary", "/audio/transcriptions", good, "multipart/form-data; boundary=Y", 400, "begin with its boundary"},
		{"a form where JSON is due", "/chat/completions", good, formType, 400, "not valid JSON"},
		{"a form for an image", "/images/generations", good, formType, 400, "not valid JSON"},
		{"no model", "/audio/transcriptions", formOf(filePart, "x"), formType, 400, "missing or empty"},
		{"unknown model", "/audio/transcriptions", formOf(modelPart, "x"), formType, 404, "Invalid model name"},
		{"two models", "/audio/transcriptions", formOf(modelPart, "m", modelPart, "x"), formType, 400, "more than once"},
		{"line break in a model", "/audio/transcriptions", formOf(modelPart, "m\r\nx"), formType, 404, "Invalid model name"},
		{"no moderation by default", "/moderations", `{"input":"x"}`, "application/json", 400, "missing or empty"},
		{"responses twice", "/responses", `{"model":"m","previous_response_id":"a","previous_response_id":"b"}`, "", 400, "more than once"},
		{"responses after a number", "/responses", `{"model":"m","previous_response_id":1}`, "", 400, "must be a string"},
		{"background", "/responses", `{"model":"m","background":"yes"}`, "", 400, "true or false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantError(t, r.post("/v1"+c.path, c.body, "Content-Type", c.kind), c.status, "", c.text)
		})
	}
	if n := len(r.gate.tickets); n != 0 {
		t.Errorf("%d tickets were asked for", n)
	}
}

func TestEstimatesOfOtherEndpointsWhereTokensAreReserved(t *testing.T) {
	cfg := mocked()
	cfg.Limits.TokenAccounting = fsm.AccountReserved
	r := newRig(t, cfg, nil)
	sound := formOf(modelPart, "m", field("prompt"), strings.Repeat("word", 50), filePart, strings.Repeat("s", 1<<20))
	for i, c := range []struct {
		path, body string
		want       limiter.Usage
	}{
		{"/responses", `{"model":"m","max_output_tokens":100}`, limiter.Usage{Input: 6, Output: 100}},
		{"/audio/transcriptions", sound, limiter.Usage{Input: 51 + mediaTokens, Output: defaultOutput}},
		{"/images/generations", `{"model":"m","n":3}`, limiter.Usage{Input: 6, Output: 3 * mediaTokens}},
		{"/rerank", `{"model":"m"}`, limiter.Usage{Input: 5}},
		{"/moderations", `{"model":"m"}`, limiter.Usage{Input: 5}},
	} {
		kind := "application/json"
		if strings.HasPrefix(c.body, "--") {
			kind = formType
		}
		if a := r.post("/v1"+c.path, c.body, "Content-Type", kind); a.StatusCode != 200 {
			t.Fatalf("%s: %d %s", c.path, a.StatusCode, a.body)
		}
		if got := r.gate.tickets[i].Estimate; got != c.want {
			t.Errorf("%s: estimate %+v, want %+v", c.path, got, c.want)
		}
	}
}

func TestModerationsHaveADefaultModel(t *testing.T) {
	up := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("200 OK", `{"results":[]}`)) })
	cfg := one(up.url)
	cfg.Models[0].Name = "omni-moderation-latest"
	r := newRig(t, cfg, nil)
	if a := r.post("/v1/moderations", `{"input":"x"}`); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	if got := up.requests()[0].body; got != `{"model":"omni-moderation-latest","input":"x"}` {
		t.Errorf("%s went up", got)
	}
}

func TestMockAnswersOtherEndpoints(t *testing.T) {
	r := newRig(t, mocked(), nil)
	for i, c := range []struct{ path, body, want string }{
		{"/moderations", `{"model":"m"}`, `"flagged":false`},
		{"/images/generations", `{"model":"m"}`, `"b64_json"`},
		{"/audio/speech", `{"model":"m"}`, "\xff\xfb"},
		{"/audio/transcriptions", formOf(modelPart, "m", filePart, "x"), `"hello big world"`},
		{"/rerank", `{"model":"m"}`, `"relevance_score"`},
		{"/responses", `{"model":"m"}`, `"hello big world"`},
		{"/responses/compact", `{"model":"m"}`, `"response.compaction"`},
	} {
		kind := "application/json"
		if strings.HasPrefix(c.body, "--") {
			kind = formType
		}
		if a := r.post("/v1"+c.path, c.body, "Content-Type", kind); a.StatusCode != 200 || !strings.Contains(a.body, c.want) {
			t.Errorf("%s: %d %s", c.path, a.StatusCode, a.body)
		}
		r.gate.spent(t, i)
	}
}

// TestMediaInARequestAreBounded is about requests whose answers name no usage.
func TestMediaInARequestAreBounded(t *testing.T) {
	big := strings.Repeat("A", 2<<20)
	for name, c := range map[string]struct{ path, body string }{
		"image":         {"/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + big + `"}}]}]}`},
		"sound":         {"/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"` + big + `"}}]}]}`},
		"document":      {"/responses", `{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_data":"` + big + `"}]}]}`},
		"unknown block": {"/responses", `{"model":"m","input":[{"type":"hologram","source":{"data":"` + big + `"}}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			up := newRaw(t, func(conn net.Conn) { say(conn, jsonAnswer("200 OK", `{"x":1}`)) })
			r := newRig(t, one(up.url), nil)
			if a := r.post(c.path, c.body); a.StatusCode != 200 {
				t.Fatalf("%d %s", a.StatusCode, a.body)
			}
			if u := r.gate.spent(t, 0); u.Input > mediaTokens+100 || u.Input < mediaTokens {
				t.Errorf("settled %+v", u)
			}
		})
	}
}
