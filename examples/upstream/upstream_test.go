package upstream

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// post sends a body on a connection of its own and returns status and body; the
// error is that of reading the body.
func post(t *testing.T, url, body string) (int, string, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	resp, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func TestDefaultAnswersAreWhatOpenAISends(t *testing.T) {
	s := start(t, Options{Models: []string{"m"}})
	for _, tt := range []struct{ name, path, body, want string }{
		{"chat", "/v1/chat/completions", `{"model":"m"}`, `"total_tokens":30`},
		{"chat, Azure path", "/openai/deployments/dep/chat/completions?api-version=1", `{}`, `"model":"dep"`},
		{"completions", "/completions", `{"model":"m"}`, `"object":"text_completion"`},
		{"embeddings", "/embeddings", `{"model":"m","input":["a","b"]}`, `"index":1`},
		{"stream without usage", "/chat/completions", `{"model":"m","stream":true}`, "data: [DONE]\n\n"},
		{"stream with usage", "/chat/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, `"choices":[],"usage":{"prompt_tokens":10`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body, err := post(t, s.URL()+tt.path, tt.body)
			if err != nil || status != 200 || !strings.Contains(body, tt.want) {
				t.Fatalf("got %d %q, %v; want %q in it", status, body, err, tt.want)
			}
			if !strings.Contains(tt.body, `"stream":true`) && !json.Valid([]byte(body)) {
				t.Fatalf("not JSON: %s", body)
			}
			if tt.name == "stream without usage" && strings.Contains(body, "usage") {
				t.Fatalf("usage that nobody asked for: %s", body)
			}
		})
	}
}

func TestEveryEventOfADefaultStreamIsJSON(t *testing.T) {
	s := start(t, Options{})
	s.Play(Match{}, Step{Content: "日本 🙂", Times: Forever})
	for _, path := range []string{"/chat/completions", "/completions"} {
		_, body, err := post(t, s.URL()+path, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`)
		if err != nil {
			t.Fatal(err)
		}
		for event := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
			data := strings.TrimPrefix(event, "data: ")
			if data != "[DONE]" && !json.Valid([]byte(data)) {
				t.Errorf("%s: not JSON: %s", path, data)
			}
		}
	}
}

func TestScriptsAreTakenInOrderAndTheMostSpecificFirst(t *testing.T) {
	s := start(t, Options{})
	s.Play(Match{}, Step{Status: 500, Times: Forever})
	s.Play(Match{Model: "m"}, Step{Status: 501}, Step{Status: 502, Times: 2})
	s.Play(Match{Model: "m", Path: "/embeddings"}, Step{Status: 503})
	var got []int
	for _, path := range []string{"/embeddings", "/embeddings", "/chat/completions", "/embeddings", "/embeddings"} {
		status, _, err := post(t, s.URL()+path, `{"model":"m"}`)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, status)
	}
	if fmt.Sprint(got) != "[503 501 502 502 500]" {
		t.Errorf("statuses %v", got)
	}
}

func TestEndsOfAConnection(t *testing.T) {
	s := start(t, Options{})
	events := []Chunk{{Text: "data: 1\n\n"}, {Text: "data: 2\n\n"}}
	for _, tt := range []struct {
		name string
		step Step
		is   func(body string, err error) bool
	}{
		{"reset", Step{Chunks: events, End: EndReset}, func(_ string, err error) bool {
			return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF)
		}},
		{"no last chunk", Step{Chunks: events, End: EndNoLastChunk}, func(body string, err error) bool {
			return errors.Is(err, io.ErrUnexpectedEOF) && body == "data: 1\n\ndata: 2\n\n"
		}},
		{"half close", Step{Chunks: events, End: EndHalfClose}, func(_ string, err error) bool {
			return errors.Is(err, io.ErrUnexpectedEOF)
		}},
		{"closed after a whole answer", Step{Chunks: events, End: EndIdleClose}, func(body string, err error) bool {
			return err == nil && body == "data: 1\n\ndata: 2\n\n"
		}},
		{"a length that is a lie", Step{Chunks: events, Header: map[string]string{"Content-Length": "99"}, End: EndNoLastChunk},
			func(_ string, err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		{"raw bytes", Step{Raw: true, Chunks: Split("HTTP/1.1 218 Fine\r\nContent-Length: 2\r\n\r\nok", 1)},
			func(body string, err error) bool { return err == nil && body == "ok" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.Play(Match{Model: tt.name}, tt.step)
			_, body, err := post(t, s.URL()+"/chat/completions", fmt.Sprintf(`{"model":%q,"stream":true}`, tt.name))
			if !tt.is(body, err) {
				t.Errorf("body %q, error %v", body, err)
			}
		})
	}
}

func TestSilenceLastsUntilThePeerLeavesAndThatMomentIsRecorded(t *testing.T) {
	s := start(t, Options{})
	s.Play(Match{}, Step{Chunks: []Chunk{{Text: "data: 1\n\n"}}, End: EndSilence}, Step{DelayMS: 60_000})
	for _, name := range []string{"mid-stream", "before the first byte"} {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/chat/completions", strings.NewReader(`{"model":"m"}`))
		if err != nil {
			t.Fatal(err)
		}
		before := s.Count("m")
		done := make(chan struct{})
		go func() {
			defer close(done)
			resp, err := (&http.Transport{}).RoundTrip(req)
			if err != nil {
				return
			}
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
		}()
		eventually(t, name+": the request arrives", func() bool { return s.Count("m") > before })
		left := time.Now()
		cancel()
		<-done
		eventually(t, name+": the closed connection is recorded", func() bool {
			all := s.Requests("m")
			r := all[len(all)-1]
			return !r.PeerClosed.IsZero() && r.PeerClosed.Sub(left) < time.Second && !r.DoneAt.IsZero()
		})
	}
}

func TestRecordHoldsTheBytesOfEachRequestOfAConnection(t *testing.T) {
	s := start(t, Options{})
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answers := bufio.NewReader(c)
	var sent []string
	for i := range 3 {
		body := fmt.Sprintf(`{"model":"m" ,"n":%d}`, i)
		raw := fmt.Sprintf("POST /v1/chat/completions?x=%d HTTP/1.1\r\nhOsT: h\r\nauthorization: Bearer sk-%d\r\nContent-Length: %d\r\n\r\n%s", i, i, len(body), body)
		sent = append(sent, raw)
		if _, err := io.WriteString(c, raw); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	for i, r := range s.Requests("") {
		if string(r.Raw) != sent[i] || r.Credential != fmt.Sprintf("sk-%d", i) || r.Conn != 1 || r.Query != fmt.Sprintf("x=%d", i) {
			t.Errorf("request %d: %q (credential %s, connection %d), sent %q", i, r.Raw, r.Credential, r.Conn, sent[i])
		}
	}
}

func TestGzipIsFlushedAtEveryChunk(t *testing.T) {
	packed := pack([]Chunk{{Text: "one "}, {Text: "two"}})
	z, err := gzip.NewReader(io.MultiReader(bytes.NewReader(packed[0].Bytes), failing{}))
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 4)
	if _, err := io.ReadFull(z, first); err != nil || string(first) != "one " {
		t.Errorf("the first chunk alone gives %q, %v", first, err)
	}
}

// failing is a reader behind which nothing has arrived yet.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("read past the chunk") }

func TestControlOverHTTP(t *testing.T) {
	s := start(t, Options{})
	for _, tt := range []struct {
		name, body string
		want       int
	}{
		{"a script", `{"model":"m","steps":[{"status":503},{"times":-1,"chunks":[{"bytes":"/w=="}]}]}`, 204},
		{"an unknown field", `{"model":"m","stepz":[]}`, 400},
		{"an unknown end", `{"steps":[{"end":"bang"}]}`, 400},
		{"a status out of range", `{"steps":[{"status":99}]}`, 400},
		{"no JSON", `steps`, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if status, body, err := post(t, s.URL()+"/_script", tt.body); err != nil || status != tt.want {
				t.Errorf("got %d %s, %v; want %d", status, body, err, tt.want)
			}
		})
	}
	for _, want := range []int{503, 200} {
		if status, _, err := post(t, s.URL()+"/chat/completions", `{"model":"m"}`); err != nil || status != want {
			t.Errorf("got %d, %v; want %d", status, err, want)
		}
	}
	resp, err := http.Get(s.URL() + "/_log?model=m")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var log struct {
		Count    int
		Requests []Request
	}
	if err := json.NewDecoder(resp.Body).Decode(&log); err != nil || log.Count != 2 || len(log.Requests) != 2 || log.Requests[0].Status != 503 {
		t.Errorf("log %+v, %v", log, err)
	}
}

func TestCountsAreExactAndTheLogIsBounded(t *testing.T) {
	s := start(t, Options{Keep: 10})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				if _, _, err := post(t, s.URL()+"/chat/completions", `{"model":"m"}`); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	kept := s.Requests("m")
	if s.Count("m") != 200 || s.Count("") != 200 || len(kept) != 10 || kept[9].Seq != 200 {
		t.Errorf("count %d, kept %d", s.Count("m"), len(kept))
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
	}
}
