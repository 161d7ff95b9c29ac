package limiter

import "time"

// Policy answers which limits hold now. The state machine implements it; the
// Ledger asks it while a batch is applied, on the applying goroutine, so answers
// must be immediate, must not change during a batch, and must be a function of
// replicated state only.
type Policy interface {
	// Version tells policies apart: two with the same version answer alike.
	Version() uint64
	// Rules returns the settings that hold for every scope.
	Rules() Rules
	// Model returns the policy of a model group, nil if there is none (the
	// ticket is then counted nowhere in model and pool scope).
	Model(name string) *ModelPolicy
	// Key returns the limits of a key by its hash, nil if it has none.
	Key(id string) *SubjectPolicy
	// Team returns the limits of a team, nil if it has none.
	Team(id string) *SubjectPolicy
}

// TokenType says which tokens a token limit counts.
type TokenType uint8

// The token types of limits.token_rate_limit_type.
const (
	TotalTokens TokenType = iota
	InputTokens
	OutputTokens
)

// Rules are the cluster-wide settings of the Ledger.
type Rules struct {
	Window       time.Duration // length of every rate window, > 0
	TokenType    TokenType
	IgnoreCached bool // true: cached prompt tokens do not count
	Sharing      Sharing
	// Reserve: tokens are taken at admission by the ticket's estimate, and
	// corrected when it is settled; otherwise they count when it is settled.
	Reserve bool
	// Alone: a request that is larger than a whole limit is admitted into an empty
	// window; otherwise it is refused for good. Only with Reserve.
	Alone bool
}

// SubjectPolicy is what limits one key or one team.
type SubjectPolicy struct {
	Limits   Limits
	PerModel map[string]Limits // by model group; nil if none
}

// ModelPolicy is what limits one model group and how it is shared. It is
// immutable once built (NewModelPolicy).
type ModelPolicy struct {
	Name      string
	Limits    Limits
	Threshold float64                // saturation at and above which pools are enforced
	Pools     map[string]*PoolPolicy // by priority name; nil: nothing is reserved, there are no pools
	Default   *PoolPolicy            // the one pool of all requests without a known priority; nil if Pools is nil
}

// Pool returns the pool that a claimed priority counts in, nil if nothing is reserved.
func (m *ModelPolicy) Pool(priority string) *PoolPolicy {
	if m.Pools == nil {
		return nil
	}
	if p, ok := m.Pools[priority]; ok {
		return p
	}
	return m.Default
}

// PoolPolicy is one priority's part of a model.
type PoolPolicy struct {
	Name   string // "" for the default pool
	Share  float64
	Limits Limits // cut from the model's
	// Floor is what work-conserving allocation keeps for the pool while it is
	// active: its Limits; of the default pool no more than the named ones leave.
	Floor Limits
}
