package proxy

import (
	"encoding/json"
	"net/http"
	"strings"

	"sluice/fsm"
)

// trouble is what an upstream could not do with a request; each has models of
// its own that stand in.
type trouble uint8

const (
	otherTrouble  trouble = iota
	contextWindow         // the prompt is too long
	contentPolicy         // the provider's filter refused it
)

// troubleOf reads an upstream's refusal. Only what the provider itself says
// counts: a message that repeats the prompt is read in its fixed places only.
func troubleOf(status int, body []byte) trouble {
	if status != http.StatusBadRequest && status != http.StatusRequestEntityTooLarge {
		return otherTrouble
	}
	r := readRefusal(body)
	for _, s := range []string{r.code, r.kind} {
		switch s {
		case "context_length_exceeded":
			return contextWindow
		case "content_policy_violation", "content_filter", "ResponsibleAIPolicyViolation":
			return contentPolicy
		}
	}
	for _, text := range r.messages {
		for begin, t := range beginnings {
			if strings.HasPrefix(text, begin) {
				return t
			}
		}
	}
	return otherTrouble
}

// refusal is what an upstream's error says in its fixed places, "" for nothing.
type refusal struct {
	code, kind string
	messages   [2]string
}

// readRefusal reads the errors of all dialects; one that is none says nothing.
func readRefusal(body []byte) (r refusal) {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"` // vLLM has it at the top
	}
	if json.Unmarshal(body, &e) != nil {
		return r
	}
	var in struct {
		Code    any    `json:"code"`
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	if len(e.Error) > 0 {
		_ = json.Unmarshal(e.Error, &in) // a text says nothing that we know
	}
	r.code, _ = in.Code.(string)
	r.kind, r.messages = in.Type, [2]string{in.Message, e.Message}
	return r
}

// missesOther reports whether a 404 is about something that the client named
// (a file, an earlier response) and not about the deployment's model or path.
func missesOther(body []byte) bool {
	r := readRefusal(body)
	switch r.code {
	case "model_not_found", "DeploymentNotFound":
		return false
	}
	said := false
	for _, text := range r.messages {
		if text = strings.ToLower(text); strings.HasPrefix(text, "model") || strings.HasPrefix(text, "the model") {
			return false
		}
		said = said || text != ""
	}
	return said
}

// beginnings are how messages without a code begin: Anthropic's, and those of
// servers that imitate OpenAI.
var beginnings = map[string]trouble{
	"prompt is too long": contextWindow,
	"input length and `max_tokens` exceed context limit": contextWindow,
	"This model's maximum context length is":             contextWindow,
	"Output blocked by content filtering policy":         contentPolicy,
}

// standIns returns the names that the model or the request has for a trouble.
func standIns(c *fsm.Compiled, m *fsm.Model, f *fields, t trouble) []string {
	switch {
	case t == contextWindow:
		return m.ContextWindowFallbacks
	case t == contentPolicy:
		return m.ContentPolicyFallbacks
	case f.fallbacks != nil:
		return f.fallbacks
	case len(m.Fallbacks) > 0:
		return m.Fallbacks
	}
	return c.Upstream.DefaultFallbacks
}
