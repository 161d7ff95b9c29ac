package translate

import (
	"strconv"
	"strings"
)

// reasoning writes what reasoning_effort asks for. Models from Claude 4.6 on
// think adaptively and take an effort. Older ones take a budget of tokens:
// 1024 for minimal and low, 2048 for medium, 4096 for high, 8192 for xhigh,
// 16384 for max, less where the cap on the answer leaves no room for it.
func (r *chatRequest) reasoning() error {
	raw := r.in["reasoning_effort"]
	if raw == nil {
		return nil
	}
	effort := string(inner(raw))
	budget, known := thinkingBudgets[effort]
	old := budgetOnly(r.model)
	asked := false // the client has its own word on thinking
	for _, m := range r.verbatim {
		asked = asked || m.name == "thinking"
	}
	switch {
	case !known:
		return fail("reasoning_effort", "This must be none, minimal, low, medium, high, xhigh or max.")
	case asked && (old || effort == "none"):
		return fail("reasoning_effort", "Give thinking or reasoning_effort, not both.")
	case effort == "none":
		if !old { // where it is off unless asked for
			r.member("thinking", []byte(`{"type":"disabled"}`))
		}
		return nil
	case old:
		return r.budget(budget)
	}
	if !asked {
		r.member("thinking", []byte(`{"type":"adaptive"}`))
	}
	if effort == "minimal" {
		effort = "low"
	}
	r.outputConfig = append(append(append(r.outputConfig, `"effort":"`...), effort...), '"')
	return nil
}

// budget turns thinking on for a model that wants to be told how much. A turn
// in the midst of tool calls whose thinking the client did not send back goes
// on without: the upstream would refuse the conversation.
func (r *chatRequest) budget(tokens int64) error {
	if r.cap <= minBudget {
		return fail("reasoning_effort", "To think, this model needs max_completion_tokens of more than "+strconv.Itoa(minBudget)+".")
	}
	if r.bareCalls {
		return nil
	}
	tokens = max(min(tokens, r.cap/2), minBudget)
	r.member("thinking", append(strconv.AppendInt([]byte(`{"type":"enabled","budget_tokens":`), tokens, 10), '}'))
	return nil
}

// minBudget is the smallest budget that the Messages API takes, in tokens; it
// must be below max_tokens.
const minBudget = 1024

var thinkingBudgets = map[string]int64{
	"none": 0, "minimal": minBudget, "low": minBudget, "medium": 2048, "high": 4096, "xhigh": 8192, "max": 16384,
}

// budgetOnly tells by its name whether a model is one of those from before
// adaptive thinking: Claude 4.5 and older, whatever stands around the name.
func budgetOnly(model string) bool {
	_, name, ok := strings.Cut(model, "claude-")
	if !ok {
		return false
	}
	if name != "" && (name[0] == '2' || name[0] == '3') || strings.HasPrefix(name, "instant") {
		return true
	}
	family, version, _ := strings.Cut(name, "-")
	if family != "opus" && family != "sonnet" && family != "haiku" {
		return false
	}
	major, rest, _ := strings.Cut(version, "-")
	if before, after, dotted := strings.Cut(major, "."); dotted {
		major, rest = before, after
	}
	if major != "4" {
		return false
	}
	end := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		end = len(rest)
	}
	minor, err := strconv.Atoi(rest[:end])
	return err != nil || minor < 6 || end >= 8 // no minor version, or a date in its place
}
