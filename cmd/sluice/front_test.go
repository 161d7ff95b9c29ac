package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func newFront(t *testing.T, data, control http.HandlerFunc) *front {
	t.Helper()
	f := &front{logger: slog.New(slog.DiscardHandler)}
	if data != nil {
		f.planes.Store(&planes{data: data, control: control})
	}
	return f
}

func TestTheFrontDispatchesByTheCleanedPath(t *testing.T) {
	name := func(plane string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, plane+" "+r.URL.Path) }
	}
	f := newFront(t, name("data"), name("control"))
	for _, c := range []struct {
		method, target string
		status         int
		want           string
	}{
		{"POST", "/v1/chat/completions", 200, "data /v1/chat/completions"},
		{"POST", "/key/generate", 200, "control /key/generate"},
		{"POST", "//key//generate/", 200, "control /key/generate"},
		{"GET", "/metrics/", 200, "control /metrics"},
		{"GET", "/v1/nowhere", 200, "data /v1/nowhere"},
		{"POST", "/public/%2e%2e/key/generate", 400, "invalid_request_error"},
		{"POST", "/v1/..%2fkey/generate", 400, "invalid_request_error"},
		{"POST", "/v1/../key/generate", 400, "invalid_request_error"},
		{"POST", "/key%2fgenerate", 400, "invalid_request_error"},
		{"POST", "/KEY/generate", 200, "data /KEY/generate"},
		{"POST", "/key/generate;x=1", 400, "invalid_request_error"},
		{"GET", "/", 200, `"name":"sluice"`},
		{"HEAD", "/", 200, ""},
		{"POST", "/", 200, "data /"},
	} {
		t.Run(c.method+" "+c.target, func(t *testing.T) {
			w := httptest.NewRecorder()
			f.ServeHTTP(w, httptest.NewRequest(c.method, c.target, nil))
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, c.status, c.want)
			}
		})
	}
}

func TestAStartingNodeIsAliveButNotReady(t *testing.T) {
	f := newFront(t, nil, nil)
	for path, want := range map[string]int{
		"/health/liveliness": 200, "/health/liveness": 200, "/health/readiness": 503, "/v1/chat/completions": 503, "/key/generate": 503, "/": 200,
	} {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want || w.Header().Get("Content-Type") != "application/json" || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
	}
}

// A node that was killed and finds no majority has its log but knows nothing of
// it yet. "No such model" would be taken for the truth.
func TestANodeWithoutAConfigurationSaysSo(t *testing.T) {
	ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	has := false
	f := newFront(t, nil, nil)
	f.planes.Store(&planes{data: http.HandlerFunc(ok), control: http.HandlerFunc(ok), configured: func() bool { return has }})
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		for path, want := range map[string]int{
			"/v1/chat/completions": want, "/v1/models": want, "/key/generate": 200, "/cluster/status": 200, "/health/readiness": 200,
		} {
			w := httptest.NewRecorder()
			f.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
			if w.Code != want || want != http.StatusOK && w.Header().Get("Retry-After") == "" {
				t.Errorf("configured %v, %s: %d %v %s", has, path, w.Code, w.Header(), w.Body)
			}
		}
		has = true
	}
}

func TestAPanicIsA500WithTheCallID(t *testing.T) {
	var log strings.Builder
	f := newFront(t, func(http.ResponseWriter, *http.Request) { panic("boom") }, nil)
	f.logger = slog.New(slog.NewTextHandler(&log, nil))
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	r.Header.Set("x-litellm-call-id", "call-7")
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	if w.Code != 500 || w.Header().Get("x-litellm-call-id") != "call-7" || !strings.Contains(w.Body.String(), `"code":"500"`) || strings.Contains(w.Body.String(), "boom") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if !strings.Contains(log.String(), "call_id=call-7") || !strings.Contains(log.String(), "boom") {
		t.Errorf("the log says %s", log.String())
	}
}

func TestAPanicInAnAnswerBreaksItOff(t *testing.T) {
	f := newFront(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic("boom")
	}, nil)
	srv := httptest.NewServer(f)
	defer srv.Close()
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	r, err := http.Get(srv.URL + "/v1/chat/completions")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); err == nil {
		t.Errorf("the answer %q looks whole", b)
	}
}

// dialFront serves f and returns a connection to it that gives up after 20 s.
func dialFront(t *testing.T, f *front) net.Conn {
	t.Helper()
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func TestABodyThatNeverComesHoldsNoAnswer(t *testing.T) {
	answer := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }
	for _, line := range []string{"GET /health/liveness", "GET /", "POST /v1/%2e%2e/x", "POST /v1/models", "GET /v1/models", "GET /metrics"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			c := dialFront(t, newFront(t, answer, answer))
			start := time.Now()
			fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", line)
			r, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatalf("no answer after %v: %v", time.Since(start), err)
			}
			_ = r.Body.Close()
			if took := time.Since(start); took > 2*unreadTime {
				t.Errorf("the answer took %v", took)
			}
		})
	}
}

func TestARefusedBodyDoesNotTakeItsAnswerAway(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "too large")
	}
	const size = 24 << 20
	for _, c := range []struct {
		line   string
		status int
	}{
		{"POST /v1/chat/completions HTTP/1.0\r\n", 413},
		{"POST /v1/chat/completions HTTP/1.1\r\nConnection: close\r\n", 413},
		{"POST /v1/chat/completions HTTP/1.1\r\n", 413},
		{"POST /key/generate HTTP/1.0\r\n", 413},
		{"POST /v1/../x HTTP/1.0\r\n", 400},
	} {
		t.Run(c.line, func(t *testing.T) {
			conn := dialFront(t, newFront(t, refuse, refuse))
			fmt.Fprintf(conn, "%sHost: x\r\nContent-Length: %d\r\n\r\n", c.line, size)
			if n, err := conn.Write(make([]byte, size)); err != nil {
				t.Fatalf("the connection broke after %d bytes of the body: %v", n, err)
			}
			r, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			if b, err := io.ReadAll(r.Body); r.StatusCode != c.status || len(b) == 0 || err != nil {
				t.Errorf("%d %q %v, want %d", r.StatusCode, b, err, c.status)
			}
		})
	}
}
