package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
