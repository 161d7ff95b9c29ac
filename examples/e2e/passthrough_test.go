package e2e

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/examples/harness"
)

// account is a provider that keeps the responses it made, and hears.
type account struct {
	mu   sync.Mutex
	name string
	made map[string]bool
}

func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	path := strings.TrimPrefix(r.URL.Path, "/v1")
	id, kept := strings.CutPrefix(path, "/responses/")
	switch {
	case path == "/audio/transcriptions":
		a.hear(w, r)
	case path == "/responses":
		id := fmt.Sprintf("resp_%s_%d", a.name, len(a.made))
		a.made[id] = true
		fmt.Fprintf(w, `{"id":%q,"object":"response","usage":{"input_tokens":30,"output_tokens":20}}`, id)
	case kept && a.made[id]:
		if r.Method == http.MethodDelete {
			delete(a.made, id)
		}
		fmt.Fprintf(w, `{"id":%q,"object":"response","usage":{"input_tokens":30,"output_tokens":20}}`, id)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":{"message":"not found"}}`)
	}
}

// hear answers with the model and the length of what it was sent.
func (a *account) hear(w http.ResponseWriter, r *http.Request) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	form, formErr := multipart.NewReader(r.Body, params["boundary"]).ReadForm(1 << 20)
	if err != nil || formErr != nil || len(form.File["file"]) != 1 {
		http.Error(w, fmt.Sprint(kind, err, formErr), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"text":"%s heard %d bytes","usage":{"input_tokens":70,"output_tokens":5}}`, form.Value["model"][0], form.File["file"][0].Size)
}

func TestResponsesAreFoundThroughAnyNodeAndFormsPass(t *testing.T) {
	t.Parallel()
	var deployments strings.Builder
	for _, name := range []string{"a", "b"} {
		up := httptest.NewServer(&account{name: name, made: map[string]bool{}})
		t.Cleanup(up.Close)
		fmt.Fprintf(&deployments, "  [[models.deployments]]\n  id = %q\n  provider = \"openai_compatible\"\n  model = \"theirs\"\n  api_base = \"%s/v1\"\n", name, up.URL)
	}
	cfg := strings.Replace(config(time.Hour, "[[models]]\nname = \"m\"\ntpm = 100000\n"+deployments.String()), "[gateway]", "[gateway]\ncors_origins = [\"https://app.example\"]", 1)
	c := start(t, harness.Options{Nodes: 3, Config: cfg})
	key := createKey(t, c.Nodes[0], harness.KeySpec{}).Secret
	ask := func(i int, method, path string, body any, header http.Header) *harness.Reply {
		t.Helper()
		r, err := c.Nodes[i%3].As(key).Do(t.Context(), method, path, body, header)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		return r
	}
	const rounds = 6
	for i := range rounds {
		made := ask(i, http.MethodPost, "/v1/responses", map[string]any{"model": "m", "input": "hi"}, nil)
		var id string
		if _, err := fmt.Sscanf(string(made.Body), `{"id":%q`, &id); err != nil || made.Status != http.StatusOK {
			t.Fatalf("%d %s: %v", made.Status, made.Body, err)
		}
		for n := range 3 {
			r := ask(n, http.MethodGet, "/v1/responses/"+id, nil, nil)
			if r.Status != http.StatusOK || r.Header.Get("X-Litellm-Model-Id") != made.Header.Get("X-Litellm-Model-Id") {
				t.Errorf("%s through node %d: %d at %s, made at %s", id, n, r.Status, r.Header.Get("X-Litellm-Model-Id"), made.Header.Get("X-Litellm-Model-Id"))
			}
		}
		if r := ask(i+1, http.MethodDelete, "/v1/responses/"+id, nil, nil); r.Status != http.StatusOK {
			t.Errorf("delete: %d %s", r.Status, r.Body)
		}
		if r := ask(i+2, http.MethodGet, "/v1/responses/"+id, nil, nil); r.Status != http.StatusNotFound {
			t.Errorf("deleted, and there: %d %s", r.Status, r.Body)
		}
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	file, err := w.CreateFormFile("file", "sound.mp3")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = file.Write(bytes.Repeat([]byte("\r\n--\x00"), 200_000))
	_ = w.WriteField("model", "m")
	_ = w.Close()
	heard := ask(1, http.MethodPost, "/v1/audio/transcriptions", form.String(), http.Header{"Content-Type": {w.FormDataContentType()}, "Origin": {"https://app.example"}})
	if heard.Status != http.StatusOK || !strings.Contains(string(heard.Body), "theirs heard 1000000 bytes") {
		t.Errorf("%d %s", heard.Status, heard.Body)
	}
	if heard.Header.Get("Access-Control-Allow-Origin") != "https://app.example" {
		t.Errorf("headers %v", heard.Header)
	}
	// Only what was made counts, and all of it.
	eventually(t, 10*time.Second, "the tokens used are those of the answers", func() bool {
		l, err := c.Nodes[2].Admin().Limits(t.Context(), "m")
		return err == nil && l.TPM.Used == rounds*50+75
	})
}
