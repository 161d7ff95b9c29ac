package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/proxy"
)

// corsFront has a data plane that refuses, streams or panics, and counts.
func corsFront(t *testing.T, origins ...string) (f *front, calls *int) {
	t.Helper()
	calls = new(int)
	f = newFront(t, func(w http.ResponseWriter, r *http.Request) {
		*calls++
		switch r.URL.Path {
		case "/v1/panic":
			panic("fault")
		case "/v1/stream":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: x\n\n")
		case "/v1/options":
			proxy.WriteError(w, r, &proxy.Error{Status: 405, Allow: "POST"})
		default:
			w.Header().Set("Retry-After", "3")
			proxy.WriteError(w, r, &proxy.Error{Status: 429})
		}
	}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) })
	var err error
	if f.cors, err = proxy.NewCORS(origins); err != nil {
		t.Fatal(err)
	}
	return f, calls
}

const (
	page  = "https://app.example"
	asked = "authorization, x-api-key, anthropic-version, anthropic-beta, anthropic-dangerous-direct-browser-access, x-stainless-lang, x-stainless-retry-count"
)

func TestPagesMayCallTheDataPlane(t *testing.T) {
	for _, c := range []struct {
		name, method, target, origin string
		origins                      []string
		status                       int
		allowed                      string // Access-Control-Allow-Origin
		reaches                      bool
	}{
		{"preflight of any", "OPTIONS", "/v1/messages", page, []string{"*"}, 204, "*", false},
		{"preflight of a named one", "OPTIONS", "/v1/messages", page, []string{"https://b.example", page}, 204, page, false},
		{"preflight of another one", "OPTIONS", "/v1/messages", "https://evil.example", []string{page}, 403, "", false},
		{"preflight of a longer name", "OPTIONS", "/v1/messages", page + ".evil", []string{page}, 403, "", false},
		{"preflight of null", "OPTIONS", "/v1/messages", "null", []string{page}, 403, "", false},
		{"preflight where it is off", "OPTIONS", "/v1/options", page, nil, 405, "", true},
		{"preflight of management", "OPTIONS", "/key/generate", page, []string{"*"}, 405, "", false},
		{"options without an origin", "OPTIONS", "/v1/options", "", []string{"*"}, 405, "", true},
		{"limit", "POST", "/v1/messages", page, []string{page}, 429, page, true},
		{"stream", "POST", "/v1/stream", page, []string{"*"}, 200, "*", true},
		{"panic", "POST", "/v1/panic", page, []string{page}, 500, page, true},
		{"bad path", "POST", "/v1/%2e%2e/x", page, []string{page}, 400, page, false},
		{"another origin is served, unread", "POST", "/v1/messages", "https://evil.example", []string{page}, 429, "", true},
		{"no origin", "POST", "/v1/messages", "", []string{page}, 429, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, calls := corsFront(t, c.origins...)
			r := httptest.NewRequest(c.method, c.target, nil)
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			if strings.HasPrefix(c.name, "preflight") {
				r.Header.Set("Access-Control-Request-Method", "POST")
				r.Header.Set("Access-Control-Request-Headers", asked)
			}
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			h := w.Result().Header
			if w.Code != c.status || h.Get("Access-Control-Allow-Origin") != c.allowed {
				t.Errorf("%d, %v", w.Code, h)
			}
			if (*calls > 0) != c.reaches {
				t.Errorf("%d calls reached the data plane", *calls)
			}
			if c.status == 204 && (h.Get("Access-Control-Allow-Headers") != asked || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST")) {
				t.Errorf("allows %v", h)
			}
			if c.status >= 400 && c.target == "/v1/messages" && !strings.HasPrefix(w.Body.String(), `{"type":"error","error":{"type":"`) {
				t.Errorf("not Anthropic's envelope: %s", w.Body)
			}
			exposed := h.Get("Access-Control-Expose-Headers")
			if readable := c.allowed != "" && c.status != 204; readable != (exposed != "") {
				t.Errorf("exposes %q", exposed)
			}
			for _, name := range []string{"retry-after", "x-ratelimit-api_key-remaining-requests", "x-litellm-call-id", "x-sluice-limited-by"} {
				if exposed != "" && !strings.Contains(exposed, name) {
					t.Errorf("%s is not exposed", name)
				}
			}
			if named := len(c.origins) > 0 && c.origins[0] != "*" && !strings.HasPrefix(c.target, "/key"); named != (h.Get("Vary") == "Origin") {
				t.Errorf("Vary %q", h.Get("Vary"))
			}
			if h.Get("Access-Control-Allow-Credentials") != "" {
				t.Error("a browser's own credentials are allowed")
			}
		})
	}
}

func TestAStartingNodeAnswersPages(t *testing.T) {
	f, _ := corsFront(t, page)
	f.planes.Store(nil)
	r := httptest.NewRequest("POST", "/v1/messages", nil)
	r.Header.Set("Origin", page)
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	if w.Code != 503 || w.Header().Get("Access-Control-Allow-Origin") != page {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestOriginsAreChecked(t *testing.T) {
	for _, o := range []string{"", "app.example", "https://app.example/", "https://*.example", "null", "https://a.example, https://b.example"} {
		if c, err := proxy.NewCORS([]string{o}); err == nil {
			t.Errorf("%q was taken: %+v", o, c)
		}
	}
}
