package fsm

import (
	"encoding/json"
	"time"

	"sluice/limiter"
)

// Key is one virtual key. Records are immutable once they are in a View; an
// update replaces the record. The secret itself is never stored.
type Key struct {
	ID          string                   `json:"token"` // SHA-256 of the secret, lower-case hex
	Name        string                   `json:"key_name"`
	Alias       string                   `json:"key_alias,omitempty"` // unique; trimmed, NFC, case kept
	TeamID      string                   `json:"team_id,omitempty"`
	UserID      string                   `json:"user_id,omitempty"`
	Models      []string                 `json:"models,omitempty"` // empty: all
	Metadata    map[string]any           `json:"metadata,omitempty"`
	RPM         limiter.Limit            `json:"rpm_limit,omitzero"`
	TPM         limiter.Limit            `json:"tpm_limit,omitzero"`
	MaxParallel limiter.Limit            `json:"max_parallel_requests,omitzero"`
	ModelRPM    map[string]limiter.Limit `json:"model_rpm_limit,omitempty"`
	ModelTPM    map[string]limiter.Limit `json:"model_tpm_limit,omitempty"`
	Blocked     bool                     `json:"blocked,omitempty"`
	Expires     time.Time                `json:"expires,omitzero"` // UTC; zero: never
	CreatedAt   time.Time                `json:"created_at"`
	UpdatedAt   time.Time                `json:"updated_at"`
	// Extra holds the other documented fields of /key/generate (max_budget,
	// aliases, tags …): kept and shown again, acted on by nothing yet.
	Extra map[string]json.RawMessage `json:"extra,omitempty"`

	policy   *limiter.SubjectPolicy // nil: no limits
	priority string
}

// Priority returns metadata.priority, "" if there is none.
func (k *Key) Priority() string { return k.priority }

// Policy returns the key's limits, nil if it has none.
func (k *Key) Policy() *limiter.SubjectPolicy { return k.policy }

// Expired reports whether the key's time is over at now.
func (k *Key) Expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// Team is a group of keys that shares limits, an allow-list and a priority.
type Team struct {
	ID          string                     `json:"team_id"`
	Alias       string                     `json:"team_alias,omitempty"`
	Models      []string                   `json:"models,omitempty"` // empty: all
	Metadata    map[string]any             `json:"metadata,omitempty"`
	RPM         limiter.Limit              `json:"rpm_limit,omitzero"`
	TPM         limiter.Limit              `json:"tpm_limit,omitzero"`
	MaxParallel limiter.Limit              `json:"max_parallel_requests,omitzero"`
	ModelRPM    map[string]limiter.Limit   `json:"model_rpm_limit,omitempty"`
	ModelTPM    map[string]limiter.Limit   `json:"model_tpm_limit,omitempty"`
	Blocked     bool                       `json:"blocked,omitempty"`
	CreatedAt   time.Time                  `json:"created_at"`
	UpdatedAt   time.Time                  `json:"updated_at"`
	Extra       map[string]json.RawMessage `json:"extra,omitempty"`

	policy   *limiter.SubjectPolicy
	priority string
}

// Priority returns metadata.priority, "" if there is none.
func (t *Team) Priority() string { return t.priority }

// Policy returns the team's limits, nil if it has none.
func (t *Team) Policy() *limiter.SubjectPolicy { return t.policy }
