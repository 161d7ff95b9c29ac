package limiter

// A Ticket names everything one request is counted against. The proxy fills it
// from one view, after aliases are resolved; the Ledger reads the limits
// themselves from its own Policy when it applies the batch, so a changed limit
// acts on the next request whatever the asking node still believes.
type Ticket struct {
	Model    string // the model group, never an alias
	Key      string // SHA-256 of the virtual key in lower-case hex; "" for the master key
	Team     string // "" for none
	Priority string // as claimed by team or key; "" for none; may be unknown to the reservation
	// Estimate is what the request will probably use (Cached is not looked at).
	// It counts only where tokens are reserved (Rules.Reserve).
	Estimate Usage
}

// Scope is a kind of thing that limits: the key, the team, either of them on
// one model, the model, or the priority's pool in the model. The order is the
// order of checks; the first scope that refuses is the one reported.
type Scope uint8

// The scopes in the order in which they are checked.
const (
	ScopeKey Scope = iota
	ScopeKeyModel
	ScopeTeam
	ScopeTeamModel
	ScopeModel
	ScopePool
	numScopes
)

// NumScopes is the number of scopes a ticket can meet.
const NumScopes = int(numScopes)

// String returns the scope's name in messages and in x-ratelimit-<scope>-… headers.
func (s Scope) String() string {
	switch s {
	case ScopeKey:
		return "api_key"
	case ScopeKeyModel:
		return "model_per_key"
	case ScopeTeam:
		return "team"
	case ScopeTeamModel:
		return "model_per_team"
	case ScopeModel:
		return "model"
	case ScopePool:
		return "priority_model"
	}
	return "unknown"
}

// LimitedBy returns the value of x-sluice-limited-by for a refusal in s.
func (s Scope) LimitedBy() string {
	switch s {
	case ScopeKey, ScopeKeyModel:
		return "key"
	case ScopeTeam, ScopeTeamModel:
		return "team"
	case ScopePool:
		return "priority"
	default:
		return "model"
	}
}

// Usage is what a request consumed, in tokens. Cached is the part of Input that
// the provider served from its prompt cache, so Cached ≤ Input.
type Usage struct {
	Input  int64
	Output int64
	Cached int64
}
