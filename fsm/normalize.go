package fsm

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/limiter"
)

// Defaults of the cluster-wide configuration.
const (
	DefaultWindow           = 60 * time.Second
	DefaultPriorityShare    = 0.25
	DefaultThreshold        = 0.5
	DefaultSaturationTTL    = 60.0 // seconds
	DefaultLeaseTTL         = 500 * time.Millisecond
	DefaultActiveWindow     = 10 * time.Second
	DefaultConnectTimeout   = 5 * time.Second
	DefaultFirstByteTimeout = 120 * time.Second
	DefaultIdleTimeout      = 60 * time.Second
	openAIBase              = "https://api.openai.com/v1"
	anthropicBase           = "https://api.anthropic.com" // its clients append /v1 themselves
)

// DefaultConfig returns the configuration of an empty file. Loaders start from
// it, because a zero share, threshold or flag is a choice and not an absence.
func DefaultConfig() Config { return Config{}.Normalize() }

// Normalize returns a copy with defaults in place of what is absent: every
// setting whose zero value means nothing, and the sections Limits and
// Reservation (with SaturationTTL) where they are zero as a whole. It is
// idempotent. What is proposed to the cluster is always normalized.
func (c Config) Normalize() Config {
	setDefault(&c.Window, DefaultWindow)
	c.Aliases = maps.Clone(c.Aliases)
	c.Reservation.Shares = maps.Clone(c.Reservation.Shares)
	if len(c.Reservation.Shares) == 0 && c.Reservation.Default == 0 && c.Reservation.Threshold == 0 && c.SaturationTTL == 0 {
		c.Reservation.Default, c.Reservation.Threshold = DefaultPriorityShare, DefaultThreshold
		c.SaturationTTL = DefaultSaturationTTL
	}
	if c.Limits == (LimitSettings{}) {
		c.Limits.CountCachedTokens = true
	}
	setDefault(&c.Limits.OnNoQuorum, limiter.NoQuorumShare)
	setDefault(&c.Limits.TokenAccounting, "recorded")
	setDefault(&c.Limits.Allocation, "saturation")
	setDefault(&c.Limits.TokenRateLimitType, "total")
	setDefault(&c.Upstream.ConnectTimeout, DefaultConnectTimeout)
	setDefault(&c.Upstream.FirstByteTimeout, DefaultFirstByteTimeout)
	setDefault(&c.Upstream.IdleTimeout, DefaultIdleTimeout)
	c.Upstream.DefaultFallbacks = slices.Clone(c.Upstream.DefaultFallbacks)
	c.Models = slices.Clone(c.Models)
	for i := range c.Models {
		c.Models[i].normalize()
	}
	return c
}

func (m *Model) normalize() {
	m.Fallbacks = slices.Clone(m.Fallbacks)
	m.ContextWindowFallbacks = slices.Clone(m.ContextWindowFallbacks)
	m.ContentPolicyFallbacks = slices.Clone(m.ContentPolicyFallbacks)
	m.Deployments = slices.Clone(m.Deployments)
	for i := range m.Deployments {
		d := &m.Deployments[i]
		if d.Weight != nil {
			w := *d.Weight
			d.Weight = &w
		}
		switch d.Provider {
		case ProviderOpenAI:
			setDefault(&d.APIBase, openAIBase)
		case ProviderAnthropic:
			setDefault(&d.APIBase, anthropicBase)
		}
		switch {
		case d.ID != "":
		case len(m.Deployments) == 1:
			d.ID = m.Name
		default:
			d.ID = fmt.Sprintf("%s-%d", m.Name, i+1)
		}
	}
}

func setDefault[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}
