package proxy

import (
	"bufio"
	"errors"
	"net/http"
	"strings"
	"testing"
)

func readRequest(t *testing.T, target string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")))
	if err != nil {
		t.Fatalf("read %q: %v", target, err)
	}
	return r
}

func TestCleanPath(t *testing.T) {
	for _, c := range []struct{ name, target, want string }{
		{"clean path stays", "/v1/chat/completions", "/v1/chat/completions"},
		{"query is no part of it", "/v1/models?x=/../y", "/v1/models"},
		{"doubled slashes are one", "//v1//chat/completions", "/v1/chat/completions"},
		{"trailing slash goes", "/v1/chat/completions/", "/v1/chat/completions"},
		{"root stays", "/", "/"},
		{"case matters", "/V1/chat/completions", "/V1/chat/completions"},
		{"absolute form has the same path", "http://other/v1/models", "/v1/models"},
		{"other escapes are decoded", "/v1/models/llama%3A8b", "/v1/models/llama:8b"},
		{"dot in a name stays", "/v1/models/gpt-5.6", "/v1/models/gpt-5.6"},
		{"encoded dots", "/public/%2e%2e/admin/keys", ""},
		{"encoded slash", "/v1/%2fchat", ""},
		{"encoded slash in a name", "/v1/models/..%2f..%2fadmin", ""},
		{"upper case escapes", "/v1/models/a%2Fb", ""},
		{"dot segments", "/v1/../admin", ""},
		{"single dot", "/v1/./models", ""},
		{"many dots", "/....//admin", ""},
		{"double encoding", "/%2561dmin", ""},
		{"semicolon", "/v1/models;x=1", ""},
		{"encoded semicolon", "/v1/models%3Bx", ""},
		{"NUL", "/v1/models%00", ""},
		{"line feed", "/v1/models%0a", ""},
		{"backslash", "/v1%5cmodels", ""},
		{"not UTF-8", "/v1/models/%ff", ""},
		{"asterisk form", "*", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := CleanPath(readRequest(t, c.target))
			if c.want != "" {
				if err != nil || got != c.want {
					t.Fatalf("CleanPath(%s) = %q, %v; want %q", c.target, got, err, c.want)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || e.Status != http.StatusBadRequest {
				t.Fatalf("CleanPath(%s) = %q, %v; want a 400", c.target, got, err)
			}
		})
	}
}

func TestCleanPathOfCleanPathDoesNotAllocate(t *testing.T) {
	r := readRequest(t, "/v1/chat/completions")
	if n := testing.AllocsPerRun(100, func() { _, _ = CleanPath(r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		path  string
		want  endpoint
		model string
	}{
		{"/v1/chat/completions", chatCompletions, ""},
		{"/chat/completions", chatCompletions, ""},
		{"/v1/completions", completions, ""},
		{"/embeddings", embeddings, ""},
		{"/v1/models", listModels, ""},
		{"/v1/models/openai/gpt-4o", showModel, "openai/gpt-4o"},
		{"/openai/deployments/gpt-4o/chat/completions", chatCompletions, "gpt-4o"},
		{"/openai/deployments/a/b/c/embeddings", embeddings, "a/b/c"},
		{"/openai/deployments/a/completions", completions, "a"},
		{"/openai/deployments/chat/completions", completions, "chat"},
		{"/openai/deployments/completions", noEndpoint, ""},
		{"/v1/v1/chat/completions", noEndpoint, ""},
		{"/V1/chat/completions", noEndpoint, ""},
		{"/v1", noEndpoint, ""},
		{"/", noEndpoint, ""},
		{"/v1/responses", responses, ""},
		{"/responses/compact", compactResponses, ""},
		{"/responses/input_tokens", countInput, ""},
		{"/v1/responses/resp_1", oneResponse, "resp_1"},
		{"/responses/resp_1/input_items", responseItems, "resp_1"},
		{"/responses/resp_1/cancel", cancelResponse, "resp_1"},
		{"/responses/resp_1/other", noEndpoint, ""},
		{"/responses/resp_1/cancel/cancel", noEndpoint, ""},
		{"/responses/resp 1", noEndpoint, ""},
		{"/responses/sk-1", noEndpoint, ""},
		{"/openai/deployments/m/responses", noEndpoint, ""},
		{"/v1/moderations", moderations, ""},
		{"/images/generations", generateImages, ""},
		{"/v1/images/edits", editImages, ""},
		{"/v1/images/variations", varyImages, ""},
		{"/v1/audio/transcriptions", transcriptions, ""},
		{"/v1/audio/translations", translations, ""},
		{"/v1/audio/speech", speech, ""},
		{"/openai/deployments/dall-e/images/generations", generateImages, "dall-e"},
		{"/rerank", rerank, ""},
		{"/v1/rerank", rerank, ""},
		{"/v2/rerank", rerank, ""},
		{"/v2/chat/completions", noEndpoint, ""},
	} {
		t.Run(c.path, func(t *testing.T) {
			if e, model := match(c.path); e != c.want || model != c.model {
				t.Errorf("match = %v, %q; want %v, %q", e, model, c.want, c.model)
			}
		})
	}
}
