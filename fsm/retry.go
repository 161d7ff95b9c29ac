package fsm

import "time"

// MaxFallbacks is how many models one list of fallbacks may name.
const MaxFallbacks = 5

// RetrySettings is the part of [upstream] about attempts. A zero value stands
// for its default, which Retries fills in and Normalize does not: what was
// written before these settings existed stays the same, byte for byte.
type RetrySettings struct {
	MaxAttempts   int64         `json:"max_attempts,omitempty"` // calls of upstreams per request; 1: no retries
	BaseDelay     time.Duration `json:"base_delay_ns,omitempty"`
	MaxDelay      time.Duration `json:"max_delay_ns,omitempty"`
	MinDelay      time.Duration `json:"min_delay_ns,omitempty"`
	Jitter        string        `json:"jitter,omitempty"`             // full | equal | decorrelated | none
	MaxRetryAfter time.Duration `json:"max_retry_after_ns,omitempty"` // longest wait that a provider may ask for
	RetryBudget   *float64      `json:"retry_budget,omitempty"`       // retries as a part of requests; nil: the default
}

// The values of upstream.jitter.
const (
	JitterFull         = "full"
	JitterEqual        = "equal"
	JitterDecorrelated = "decorrelated"
	JitterNone         = "none"
)

// Retries returns the settings with defaults in place of what is absent.
func (r RetrySettings) Retries() RetrySettings {
	setDefault(&r.MaxAttempts, 6)
	setDefault(&r.BaseDelay, time.Second)
	setDefault(&r.MaxDelay, 60*time.Second)
	setDefault(&r.MinDelay, 100*time.Millisecond)
	setDefault(&r.Jitter, JitterFull)
	setDefault(&r.MaxRetryAfter, 120*time.Second)
	if r.RetryBudget == nil {
		tenth := 0.1
		r.RetryBudget = &tenth
	}
	return r
}
