package proxy

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"sluice/fsm"
)

// TestNamesThatClientsMakeUp: below a wildcard a name comes from the client,
// and with limits_per_name it goes into the log, where one entry that is too
// large would hold up all the others for ever.
func TestNamesThatClientsMakeUp(t *testing.T) {
	cfg := fsm.DefaultConfig()
	cfg.Models = []fsm.Model{{Name: "pn/*", PerName: true, Deployments: []fsm.Deployment{{
		ID: "mock-1", Provider: fsm.ProviderMock, MockResponse: "hello",
	}}}}
	r := newRig(t, cfg, nil)
	for _, c := range []struct {
		name   string
		status int
	}{
		{"pn/llama-3.1:8b@q4", 200},
		{"pn/größe 模型/v1..2", 200},
		{"pn/" + strings.Repeat("m", maxModelName-3), 200},
		{"pn/" + strings.Repeat("m", maxModelName-2), 404},
		{"pn/" + strings.Repeat("m", 300_000), 404},
		{"pn/a\x00b", 404},
		{"pn/a\r\nX-Evil: 1", 404},
		{"pn/a\x1b[31m", 404},
		{"pn/a\u200b", 404},
		{"pn/a ", 404},
		{"pn/..", 404},
		{"pn/../../v1/files", 404},
		{"pn/./a", 404},
	} {
		body, err := json.Marshal(map[string]any{"model": c.name, "messages": []string{}})
		if err != nil {
			t.Fatal(err)
		}
		a := r.post("/v1/chat/completions", string(body))
		if a.StatusCode != c.status {
			t.Errorf("%.40q: %d %.200s, want %d", c.name, a.StatusCode, a.body, c.status)
		}
		if c.status == http.StatusNotFound {
			wantError(t, a, c.status, typeInvalid, "Invalid model name passed in model=")
		}
	}
	for _, ticket := range r.gate.tickets {
		if len(ticket.Model) > maxModelName {
			t.Errorf("a name of %d bytes reached the limiter", len(ticket.Model))
		}
	}
	// Lone surrogates of JSON come out as U+FFFD: the upstream would read another name.
	a := r.post("/v1/chat/completions", `{"model":"pn/\ud800"}`)
	wantError(t, a, http.StatusNotFound, typeInvalid, "Invalid model name")
}

// TestAKeyInPlaceOfAModelIsNotShown: answers end up in logs.
func TestAKeyInPlaceOfAModelIsNotShown(t *testing.T) {
	r := newRig(t, mocked(), nil)
	bearer := []string{"Authorization", "Bearer " + userKey}
	for _, a := range []answer{
		r.post("/v1/chat/completions", `{"model":"`+userKey+`"}`),
		r.post("/openai/deployments/"+masterKey+"/embeddings", `{}`),
		r.do(http.MethodGet, "/v1/models/"+userKey, "", bearer...),
	} {
		wantError(t, a, http.StatusNotFound, typeInvalid, "Invalid model name passed in model=sk-...")
		if strings.Contains(a.body, userKey) || strings.Contains(a.body, masterKey) {
			t.Errorf("the answer holds the key: %s", a.body)
		}
	}
}
