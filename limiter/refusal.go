package limiter

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// ErrNoQuorum is returned by Admit when no leader answered in time and
// limits.on_no_quorum is deny. Nothing was admitted; what the log did with the
// request, if it still comes to it, is settled by the Gate.
var ErrNoQuorum = errors.New("no quorum: the cluster has no leader that can count this request")

// ErrClosed is returned by Admit after Close.
var ErrClosed = errors.New("limiter is shut down")

// ErrTicketTooLong is returned by Admit for names that no log entry has room
// for. A batch that cannot be written would be sent for ever.
var ErrTicketTooLong = errors.New("the names of model, key, team and priority are too long to be counted")

// Refusal is the error of Admit when a limit refuses the request. Nothing was
// counted anywhere.
type Refusal struct {
	Ticket     Ticket
	Scope      Scope
	Dimension  Dimension
	Limits     Limits // of the scope that refused
	Model      Limits // of the model, for the message
	Remaining  int64
	Saturation float64
	RetryAfter time.Duration // > 0
	ResetAt    time.Time     // UTC
	Standings  [NumScopes]Standing
	Need       int64 // tokens that it was held to need, where they are reserved
	// Oversize: it needs more than the whole limit and never fits; RetryAfter and
	// ResetAt mean nothing.
	Oversize bool
}

// RetryAfterSeconds returns the whole seconds for the retry-after header, ≥ 1.
func (r *Refusal) RetryAfterSeconds() int64 {
	return max(int64(math.Ceil(r.RetryAfter.Seconds())), 1)
}

// Error returns the text that clients match on; it is LiteLLM's wording.
func (r *Refusal) Error() string {
	if r.Oversize {
		return r.oversize()
	}
	switch r.Scope {
	case ScopeModel:
		return fmt.Sprintf("Model capacity reached for %s. Priority: %s, Rate limit type: %s, Model TPM: %s, Model RPM: %s, Remaining: %d",
			r.Ticket.Model, priorityName(r.Ticket.Priority), r.Dimension, configured(r.Model.Tokens), configured(r.Model.Requests), r.Remaining)
	case ScopePool:
		return fmt.Sprintf("Priority-based rate limit exceeded. Model: %s, Priority: %s, Rate limit type: %s, Model TPM: %s, Model RPM: %s, Remaining: %d, Model saturation: %.1f%%",
			r.Ticket.Model, priorityName(r.Ticket.Priority), r.Dimension, configured(r.Model.Tokens), configured(r.Model.Requests), r.Remaining, r.Saturation*100)
	}
	return fmt.Sprintf("Rate limit exceeded for %s: %s. Limit type: %s. Current limit: %s, Remaining: %d. Limit resets at: %s",
		r.Scope, r.subject(), r.Dimension, r.limit(), r.Remaining, FormatReset(r.ResetAt))
}

// oversize is the arithmetic of a request that never fits.
func (r *Refusal) oversize() string {
	whose := fmt.Sprintf("%s %s", r.Scope, r.subject())
	if r.Scope == ScopePool {
		whose = fmt.Sprintf("priority %s on model %s", priorityName(r.Ticket.Priority), r.Ticket.Model)
	}
	in, out := r.Ticket.Estimate.Input, r.Ticket.Estimate.Output
	return fmt.Sprintf("The request is larger than a whole limit: it needs about %d tokens (%d of input and up to %d of output, as far as they count), and the limit of %s is %s tokens per window.",
		r.Need, in, out, whose, r.Limits.Tokens)
}

func (r *Refusal) subject() string {
	switch r.Scope {
	case ScopeModel:
		return r.Ticket.Model
	case ScopeTeam:
		return r.Ticket.Team
	case ScopeKeyModel:
		return strings.Join([]string{r.Ticket.Key, r.Ticket.Model}, ":")
	case ScopeTeamModel:
		return strings.Join([]string{r.Ticket.Team, r.Ticket.Model}, ":")
	}
	return r.Ticket.Key
}

func (r *Refusal) limit() Limit {
	switch r.Dimension {
	case Tokens:
		return r.Limits.Tokens
	case Parallel:
		return r.Limits.Parallel
	}
	return r.Limits.Requests
}

// FormatReset writes t as the reset_at header and the messages show it.
func FormatReset(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

func priorityName(p string) string {
	if p == "" {
		return "None"
	}
	return p
}

func configured(l Limit) string {
	if !l.IsSet() {
		return "not configured"
	}
	return l.String()
}
