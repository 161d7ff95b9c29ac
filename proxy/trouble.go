package proxy

import (
	"net/http"

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
	o := objectionOf(body)
	for _, s := range o.codes {
		switch s {
		case "context_length_exceeded":
			return contextWindow
		case "content_policy_violation", "content_filter", "ResponsibleAIPolicyViolation":
			return contentPolicy
		}
	}
	for begin, t := range beginnings {
		if _, ok := o.begins(begin); ok {
			return t
		}
	}
	return otherTrouble
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
