package fsm

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"sluice/limiter"
)

// Compiled is a Config with its names resolved and its limits cut, made once
// per version. It never changes; any goroutine may read it.
type Compiled struct {
	Config
	Warnings []string

	entries map[string]*modelEntry // by name, wildcards included
	wild    []*modelEntry          // longest prefix first
	targets map[string]string      // alias → the name at the end of its chain
	rules   limiter.Rules
}

// modelEntry is one [[models]] entry, ready for use.
type modelEntry struct {
	model  *Model
	prefix string // of a wildcard, without the star
	policy *limiter.ModelPolicy
}

// Resolved is what a requested model name means.
type Resolved struct {
	Group  string // the name that allow-lists, limits and counters use
	Asked  string // the concrete name the upstream is asked for where a deployment has none of its own: the alias's target, or the name that met a wildcard
	Model  *Model // the entry that serves it
	Policy *limiter.ModelPolicy
}

// Compile resolves a valid, normalized configuration. The error, if any, is an
// *InvalidConfigError with all problems of c.
func Compile(c Config) (*Compiled, error) {
	if problems := c.Validate(); len(problems) > 0 {
		return nil, &InvalidConfigError{Problems: problems}
	}
	out := &Compiled{
		Config:  c,
		entries: make(map[string]*modelEntry, len(c.Models)),
		targets: make(map[string]string, len(c.Aliases)),
		rules: limiter.Rules{
			Window:       c.Window,
			TokenType:    tokenTypes[c.Limits.TokenRateLimitType],
			IgnoreCached: !c.Limits.CountCachedTokens,
			Sharing:      c.Limits.sharing(),
			Reserve:      c.Limits.TokenAccounting == AccountReserved,
			Alone:        c.Limits.TokenAccounting == AccountReserved && c.Limits.Oversize == OversizeAlone,
		},
	}
	var said warnings
	for i := range c.Models {
		m := &c.Models[i]
		policy, warnings, err := limiter.NewModelPolicy(m.Name, m.capacity(), c.Reservation)
		if err != nil {
			return nil, fmt.Errorf("cut the limits of model %s: %w", m.Name, err)
		}
		said.add(m.Name, warnings...)
		said.add(m.Name, m.warnings()...)
		said.add(m.Name, c.Limits.tight(m.capacity().Tokens)...)
		e := &modelEntry{model: m, policy: policy}
		out.entries[m.Name] = e
		if isWildcard(m.Name) {
			e.prefix = strings.TrimSuffix(m.Name, "*")
			out.wild = append(out.wild, e)
		}
	}
	out.Warnings = append(said.texts(), c.Limits.idle()...)
	slices.SortFunc(out.wild, func(a, b *modelEntry) int { return len(b.prefix) - len(a.prefix) })
	for alias := range c.Aliases {
		out.targets[alias], _ = followAlias(c.Aliases, alias)
	}
	return out, nil
}

// The values of limits.allocation.
const (
	AllocateBySaturation = "saturation"
	AllocateConserving   = "work_conserving"
)

// The values of limits.token_accounting and limits.oversize.
const (
	AccountRecorded = "recorded"
	AccountReserved = "reserve"
	OversizeReject  = "reject"
	OversizeAlone   = "alone"
)

// sharing returns how pools share a model.
func (l *LimitSettings) sharing() limiter.Sharing {
	if l.Allocation != AllocateConserving {
		return limiter.Sharing{}
	}
	s := limiter.Sharing{Conserving: true, HoldBack: l.HoldBack, Active: l.ActiveWindow}
	setDefault(&s.Active, DefaultActiveWindow)
	return s
}

// leastReserved is what a request without max_tokens reserves, with little
// input, while nothing is known of its answers: less room than that, and it is
// larger than the whole limit.
const leastReserved = 1100

// tight warns of a token limit that requests are reserved against and that is
// smaller than one of them.
func (l *LimitSettings) tight(tokens limiter.Limit) []string {
	n, ok := tokens.Get()
	if !ok || n == 0 || n >= leastReserved || l.TokenAccounting != AccountReserved || l.TokenRateLimitType == "input" {
		return nil
	}
	return []string{fmt.Sprintf("with limits.token_accounting = %q a request without max_tokens reserves its input and 1024 tokens until 20 answers were seen, more than the tpm of %d; raise tpm, or have clients set max_tokens", AccountReserved, n)}
}

// idle warns of settings that are set and belong to a mode that is not.
func (l *LimitSettings) idle() (out []string) {
	say := func(set bool, key, mode, value string) {
		if set {
			out = append(out, fmt.Sprintf("limits.%s has no effect without limits.%s = %q", key, mode, value))
		}
	}
	saturation, recorded := l.Allocation != AllocateConserving, l.TokenAccounting != AccountReserved
	say(saturation && l.HoldBack != 0, "hold_back", "allocation", AllocateConserving)
	say(saturation && l.ActiveWindow != 0 && l.ActiveWindow != DefaultActiveWindow, "active_window", "allocation", AllocateConserving)
	say(recorded && l.Oversize != "" && l.Oversize != OversizeReject, "oversize", "token_accounting", AccountReserved)
	return out
}

var tokenTypes = map[string]limiter.TokenType{
	"total":  limiter.TotalTokens,
	"input":  limiter.InputTokens,
	"output": limiter.OutputTokens,
}

// Resolve follows aliases and wildcards: an exact name first, then the longest
// prefix. ok is false for an unknown name, and for a name with a star in it.
func (c *Compiled) Resolve(name string) (r Resolved, ok bool) {
	if target, found := c.targets[name]; found {
		name = target
	}
	e := c.lookup(name)
	if e == nil || strings.Contains(name, "*") {
		return Resolved{}, false
	}
	group := e.model.Name
	if e.prefix != group && isWildcard(group) && e.model.PerName {
		group = name
	}
	return Resolved{Group: group, Asked: name, Model: e.model, Policy: e.policy}, true
}

// lookup finds the entry that serves a name that is no alias, nil if none does.
func (c *Compiled) lookup(name string) *modelEntry {
	if e, ok := c.entries[name]; ok {
		return e
	}
	for _, e := range c.wild {
		if strings.HasPrefix(name, e.prefix) {
			return e
		}
	}
	return nil
}

// PolicyFor returns the policy of a group as Resolve names it, nil if nothing
// serves it. All names of one wildcard have the same policy value.
func (c *Compiled) PolicyFor(group string) *limiter.ModelPolicy {
	if e := c.lookup(group); e != nil {
		return e.policy
	}
	return nil
}

// ModelNames returns the configured names in the order of the file, wildcards included.
func (c *Compiled) ModelNames() []string {
	names := make([]string, len(c.Models))
	for i := range c.Models {
		names[i] = c.Models[i].Name
	}
	return names
}

// Rules returns the settings that hold for every scope.
func (c *Compiled) Rules() limiter.Rules { return c.rules }

// capacity is the model's own limit where it states one, else the sum over the
// deployments that do.
func (m *Model) capacity() limiter.Limits {
	l := limiter.Limits{Requests: m.RPM, Tokens: m.TPM}
	if !l.Requests.IsSet() {
		l.Requests = m.sum(func(d *Deployment) limiter.Limit { return d.RPM })
	}
	if !l.Tokens.IsSet() {
		l.Tokens = m.sum(func(d *Deployment) limiter.Limit { return d.TPM })
	}
	return l
}

func (m *Model) sum(of func(*Deployment) limiter.Limit) limiter.Limit {
	var total limiter.Limit
	for i := range m.Deployments {
		n, ok := of(&m.Deployments[i]).Get()
		if !ok {
			continue
		}
		sofar, _ := total.Get()
		total = limiter.Of(sofar + min(n, math.MaxInt64-sofar))
	}
	return total
}

func (m *Model) warnings() []string {
	for i := range m.Deployments {
		if w := m.Deployments[i].Weight; w == nil || *w > 0 {
			return nil
		}
	}
	return []string{fmt.Sprintf("model %s: every deployment has weight 0, so it serves nothing", m.Name)}
}

// warnings collects what is said about models, once for all of which the same
// is said: a table of shares concerns every model.
type warnings struct {
	order  []string
	models map[string][]string
}

// maxNamed is how many models one warning names.
const maxNamed = 3

func (w *warnings) add(model string, texts ...string) {
	for _, text := range texts {
		text = strings.TrimPrefix(text, "model "+model+": ")
		if w.models == nil {
			w.models = make(map[string][]string)
		}
		if len(w.models[text]) == 0 {
			w.order = append(w.order, text)
		}
		w.models[text] = append(w.models[text], model)
	}
}

func (w *warnings) texts() []string {
	var out []string
	for _, text := range w.order {
		names := w.models[text]
		about := "model " + names[0]
		if len(names) > 1 {
			about = "models " + strings.Join(names[:min(len(names), maxNamed)], ", ")
		}
		if len(names) > maxNamed {
			about += fmt.Sprintf(" and %d more", len(names)-maxNamed)
		}
		out = append(out, about+": "+text)
	}
	return out
}

func isWildcard(name string) bool { return strings.HasSuffix(name, "*") }

// followAlias returns the name at the end of the chain. ok is false if the
// chain never ends.
func followAlias(aliases map[string]string, name string) (target string, ok bool) {
	for range len(aliases) {
		next, found := aliases[name]
		if !found {
			return name, true
		}
		name = next
	}
	_, found := aliases[name]
	return name, !found
}
