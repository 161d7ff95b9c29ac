package fsm

import (
	"time"

	"sluice/limiter"
)

// Config is the cluster-wide configuration as it is replicated and shown: the
// same on every node, versioned, free of secrets (only references to them).
type Config struct {
	Window      time.Duration       `json:"window_ns"` // gateway.window: replicated, because all nodes must count in the same windows
	Models      []Model             `json:"models"`
	Aliases     map[string]string   `json:"aliases,omitempty"` // alias → model name or next alias
	Reservation limiter.Reservation `json:"priority_reservation"`
	// SaturationTTL is saturation_check_cache_ttl in seconds.
	SaturationTTL float64          `json:"saturation_check_cache_ttl"`
	Limits        LimitSettings    `json:"limits"`
	Upstream      UpstreamSettings `json:"upstream"`
}

// Model is one public model name and what serves it.
type Model struct {
	Name        string        `json:"name"` // may end in a wildcard: "openai/*", "*"
	RPM         limiter.Limit `json:"rpm,omitzero"`
	TPM         limiter.Limit `json:"tpm,omitzero"`
	PerName     bool          `json:"limits_per_name,omitempty"` // wildcard: every concrete name has counters of its own
	Deployments []Deployment  `json:"deployments"`

	// What is asked instead, in this order, when the model cannot serve a
	// request: names of models or aliases, at most MaxFallbacks each.
	Fallbacks              []string `json:"fallbacks,omitempty"`                // after failures of the upstreams
	ContextWindowFallbacks []string `json:"context_window_fallbacks,omitempty"` // for prompts that are too long
	ContentPolicyFallbacks []string `json:"content_policy_fallbacks,omitempty"` // for what the provider's filter refused
}

// Deployment is one upstream of a model.
type Deployment struct {
	ID           string        `json:"id"`
	Provider     string        `json:"provider"`        // openai | anthropic | azure | openai_compatible | mock
	Model        string        `json:"model,omitempty"` // the name sent upstream; "" or "*": the name the client asked for
	APIBase      string        `json:"api_base,omitempty"`
	APIKey       string        `json:"api_key,omitempty"`     // a reference: os.environ/NAME
	APIVersion   string        `json:"api_version,omitempty"` // azure
	Weight       *int64        `json:"weight,omitempty"`      // nil: 1; 0: no traffic
	Order        int64         `json:"order,omitempty"`       // lower ones take the traffic while any of them can
	QuotaGroup   string        `json:"quota_group,omitempty"` // deployments that name the same pause together after a 429
	RPM          limiter.Limit `json:"rpm,omitzero"`
	TPM          limiter.Limit `json:"tpm,omitzero"`
	MockResponse string        `json:"mock_response,omitempty"`
	MockLatency  time.Duration `json:"mock_latency_ns,omitempty"`
	// NoStreamUsage: the upstream rejects stream_options; do not ask for usage.
	NoStreamUsage bool `json:"no_stream_usage,omitempty"`
}

// LimitSettings is [limits]. Zero values stand for the documented defaults
// until Normalize has filled them in.
type LimitSettings struct {
	OnNoQuorum         limiter.NoQuorum `json:"on_no_quorum"`
	TokenAccounting    string           `json:"token_accounting"` // recorded | reserve
	Allocation         string           `json:"allocation"`       // saturation | work_conserving
	TokenRateLimitType string           `json:"token_rate_limit_type"`
	CountCachedTokens  bool             `json:"count_cached_tokens"`
	// LeaseTTL is how long a node may hold permits; nil: DefaultLeaseTTL, 0: it
	// holds none, and every request is decided in the log.
	LeaseTTL *time.Duration `json:"lease_ttl_ns,omitempty"`
	// HoldBack and ActiveWindow belong to work_conserving; no ActiveWindow is DefaultActiveWindow.
	HoldBack     float64       `json:"hold_back,omitempty"`
	ActiveWindow time.Duration `json:"active_window_ns,omitempty"`
	// Oversize belongs to reserve: reject | alone; "" is reject.
	Oversize string `json:"oversize,omitempty"`
}

// Lease returns how long permits may be held: a node acts on what it was
// granted no longer than on what it believes of the saturation.
func (c *Config) Lease() time.Duration {
	lease := DefaultLeaseTTL
	if c.Limits.LeaseTTL != nil {
		lease = *c.Limits.LeaseTTL
	}
	return min(lease, time.Duration(c.SaturationTTL*float64(time.Second)))
}

// UpstreamSettings is [upstream].
type UpstreamSettings struct {
	ConnectTimeout   time.Duration `json:"connect_timeout_ns"`
	FirstByteTimeout time.Duration `json:"first_byte_timeout_ns"`
	IdleTimeout      time.Duration `json:"idle_timeout_ns"`
	RetrySettings
	DefaultFallbacks []string `json:"default_fallbacks,omitempty"` // for models without fallbacks of their own
}
