package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"sluice/fsm"
)

// TestWhatIsAuthorisedIsWhatGoesUp is about a key for "cheap" alone.
func TestWhatIsAuthorisedIsWhatGoesUp(t *testing.T) {
	up := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("200 OK", okBody)) })
	cfg := one(up.url)
	cfg.Models[0].Name = "cheap"
	cfg.Models = append(cfg.Models, fsm.Model{Name: "expensive", Deployments: []fsm.Deployment{{ID: "x", Provider: fsm.ProviderCompatible, APIBase: up.url + "/v1"}}})
	r := newRig(t, cfg, nil)
	r.addKey("sk-cheap-0123456789", fsm.Key{Models: []string{"cheap"}})
	for _, body := range []string{
		`{"model":"expensive","Model":"cheap"}`, `{"Model":"expensive","model":"cheap"}`, `{"model":"expensive","model":"cheap"}`,
		`{"model":"cheap","model":"expensive"}`, `{"MODEL":"cheap"}`, `{"model":"cheap","\u006dodel":"expensive"}`, `{"model":"expensive"}`,
		`{"model":"cheap"}{"model":"expensive"}`, "\ufeff" + `{"model":"cheap"}`, `{"model":["cheap"]}`, `{"model":"cheap\u0000expensive"}`,
		`{"model":"cheap","previous_response_id":"a","Previous_Response_Id":"b"}`,
		formOf(modelPart, "expensive", field("MODEL"), "cheap"), formOf(modelPart, "cheap", modelPart, "expensive"), formOf(modelPart, "expensive"),
	} {
		paths := []string{"/chat/completions", "/responses", "/images/generations", "/rerank"}
		kind := "application/json"
		if strings.HasPrefix(body, "--") {
			paths, kind = []string{"/audio/transcriptions", "/images/edits"}, formType
		}
		for _, path := range paths {
			a := r.do("POST", "/v1"+path, body, "Authorization", "Bearer sk-cheap-0123456789", "Content-Type", kind)
			if a.StatusCode != 400 && a.StatusCode != 403 {
				t.Errorf("%s %s: %d %s", path, body, a.StatusCode, a.body)
			}
		}
	}
	if n := len(up.requests()) + len(r.gate.tickets); n != 0 {
		t.Errorf("%d calls and tickets", n)
	}
	// The model in a path goes before the body's, and into it.
	a := r.do("POST", "/openai/deployments/cheap/chat/completions", `{"model":"expensive"}`, "api-key", "sk-cheap-0123456789")
	if got := up.requests(); a.StatusCode != 200 || len(got) != 1 || got[0].body != `{"model":"cheap"}` {
		t.Errorf("%d, %v", a.StatusCode, got)
	}
}

func TestMethodsAreWhatTheyAre(t *testing.T) {
	up := account(t, "resp_a")
	r := newRig(t, one(up.url), nil)
	override := []string{"Authorization", "Bearer " + userKey, "X-Http-Method-Override", "DELETE", "X-Method-Override", "DELETE", "X-Http-Method", "DELETE"}
	if a := r.do("GET", "/v1/responses/resp_a?_method=DELETE", "", override...); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	for name := range up.requests()[0].header {
		if strings.Contains(name, "Method") {
			t.Errorf("%s went up", name)
		}
	}
	if a := r.do("POST", "/v1/responses/resp_a", "", override...); a.StatusCode != 405 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

func TestBodiesAndTheirCaps(t *testing.T) {
	up := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("200 OK", okBody)) })
	r := newRig(t, one(up.url), nil)
	json := func(n int) string {
		head := `{"model":"m","x":"`
		return head + strings.Repeat("y", n-len(head)-2) + `"}`
	}
	const most = defaultMaxBody
	for _, c := range []struct {
		name, body, encoding string
		chunked              bool
		status               int
	}{
		{"1 MB", json(1 << 20), "", false, 200},
		{"5 MB", json(5 << 20), "", true, 200},
		{"the cap", json(most), "", false, 200},
		{"the cap in chunks", json(most), "", true, 200},
		{"one more", json(most + 1), "", false, 413},
		{"one more in chunks", json(most + 1), "", true, 413},
		{"128 MB in 130 kB", zip(t, strings.Repeat("\x00", 128<<20)), "gzip", false, 413},
		{"zstd", "\x28\xb5\x2f\xfd", "zstd", false, 415},
		{"br", "x", "br", false, 415},
		{"deflate", "x", "deflate", false, 415},
	} {
		t.Run(c.name, func(t *testing.T) {
			var body io.Reader = strings.NewReader(c.body)
			if c.chunked {
				body = io.MultiReader(body) // of a length that the client does not know
			}
			req, err := http.NewRequest("POST", r.url+"/v1/chat/completions", body)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+userKey)
			if c.encoding != "" {
				req.Header.Set("Content-Encoding", c.encoding)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != c.status {
				t.Errorf("status %d, want %d", res.StatusCode, c.status)
			}
		})
	}
	if used := r.proxy.memory.used.Load(); used != 0 {
		t.Errorf("%d bytes are held by nobody", used)
	}
}

func TestBodiesBeyondTheMemoryAreRefused(t *testing.T) {
	release := make(chan struct{})
	up := newRaw(t, func(c net.Conn) { <-release; say(c, jsonAnswer("200 OK", okBody)) })
	r := newRig(t, one(up.url), func(o *Options) { o.MaxBodyMemory = 4 << 20 })
	large := `{"model":"m","x":"` + strings.Repeat("y", 3<<20) + `"}`
	first := make(chan answer)
	go func() { first <- r.post("/v1/chat/completions", large) }()
	eventually(t, "first body upstream", func() bool { return len(up.requests()) == 1 })
	a := r.post("/v1/chat/completions", large)
	wantError(t, a, 503, "", "gateway.max_body_memory")
	if a.Header.Get("Retry-After") != "1" {
		t.Errorf("headers %v", a.Header)
	}
	wantError(t, r.post("/v1/chat/completions", zip(t, large), "Content-Encoding", "gzip"), 503, "", "gateway.max_body_memory")
	small := make(chan answer)
	go func() { small <- r.post("/v1/chat/completions", chatBody) }()
	eventually(t, "small body upstream", func() bool { return len(up.requests()) == 2 })
	close(release)
	if a, b := <-first, <-small; a.StatusCode != 200 || b.StatusCode != 200 {
		t.Errorf("%d and %d", a.StatusCode, b.StatusCode)
	}
	eventually(t, "memory given back", func() bool { return r.proxy.memory.used.Load() == 0 })
	if a := r.post("/v1/chat/completions", large); a.StatusCode != 200 {
		t.Errorf("afterwards: %d %s", a.StatusCode, a.body)
	}
}

// TestIdleConnectionsAreCheap counts both ends of a connection through the
// gateway, the client's too.
func TestIdleConnectionsAreCheap(t *testing.T) {
	r := newRig(t, mocked(), nil)
	const n = 1000
	used := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	address := strings.TrimPrefix(r.url, "http://")
	request := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", userKey, len(chatBody), chatBody)
	before := used()
	conns := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range n {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		say(c, request)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		if res.StatusCode != 200 {
			t.Fatal(res.StatusCode)
		}
	}
	if each := (used() - before) / n; each > raceFactor*32<<10 {
		t.Errorf("%d bytes for each idle connection", each)
	} else {
		t.Logf("%d bytes for each idle connection", each)
	}
}

func TestWhatAnAnswerDependsOnIsKept(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Vary", "Origin")
	copyResponseHeader(w.Header(), http.Header{"Vary": {"Accept"}, "Access-Control-Allow-Origin": {"*"}}, "")
	if got := strings.Join(w.Header()["Vary"], ", "); got != "Origin, Accept" || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("headers %v", w.Header())
	}
}
