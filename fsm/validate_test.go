package fsm

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/limiter"
)

func TestDefaultConfigIsValidAndNormalizeIsIdempotent(t *testing.T) {
	c := DefaultConfig()
	if problems := c.Validate(); problems != nil {
		t.Fatalf("problems: %v", problems)
	}
	if !c.Limits.CountCachedTokens || c.Reservation.Default != 0.25 || c.Reservation.Threshold != 0.5 || c.SaturationTTL != 60 || c.Limits.OnNoQuorum != limiter.NoQuorumShare {
		t.Errorf("defaults are %+v", c)
	}
	if again := c.Normalize(); !reflect.DeepEqual(again, c) {
		t.Errorf("twice normalized: %+v", again)
	}
	c.Reservation.Threshold, c.Reservation.Default, c.Limits.CountCachedTokens = 0, 0, false
	c.Reservation.Shares = map[string]limiter.Share{"a": {Kind: limiter.SharePercent, Value: 1}}
	if again := c.Normalize(); !reflect.DeepEqual(again, c) {
		t.Errorf("chosen zeros were replaced: %+v", again)
	}
}

func TestNormalizeGivesDeploymentsTheirIDsAndBase(t *testing.T) {
	in := Config{Models: []Model{
		{Name: "one", Deployments: []Deployment{{Provider: ProviderOpenAI}}},
		{Name: "two", Deployments: []Deployment{{Provider: ProviderMock}, {ID: "x", Provider: ProviderMock}}},
	}}
	out := in.Normalize()
	if d := out.Models[0].Deployments[0]; d.ID != "one" || d.APIBase != openAIBase {
		t.Errorf("deployment is %+v", d)
	}
	if d := out.Models[1].Deployments; d[0].ID != "two-1" || d[1].ID != "x" {
		t.Errorf("deployments are %+v", d)
	}
	if in.Models[0].Deployments[0].ID != "" {
		t.Error("the argument was changed")
	}
}

func TestEveryFaultIsReportedWithItsPath(t *testing.T) {
	minus, huge := int64(-1), int64(math.MaxInt64)
	deployment := func(d Deployment) func(*Config) {
		return func(c *Config) {
			if d.ID == "" {
				d.ID = "d"
			}
			c.Models[0].Deployments = []Deployment{d}
		}
	}
	alias := func(pairs ...string) func(*Config) {
		return func(c *Config) {
			c.Aliases = map[string]string{}
			for i := 0; i < len(pairs); i += 2 {
				c.Aliases[pairs[i]] = pairs[i+1]
			}
		}
	}
	for _, tc := range []struct {
		name, path string
		change     func(*Config)
	}{
		{"window zero after normalizing", "gateway.window", func(c *Config) { c.Window = -time.Second }},
		{"window of a year", "gateway.window", func(c *Config) { c.Window = 365 * 24 * time.Hour }},
		{"cache ttl is not a number", "priority_reservation_settings.saturation_check_cache_ttl", func(c *Config) { c.SaturationTTL = math.NaN() }},
		{"cache ttl negative", "priority_reservation_settings.saturation_check_cache_ttl", func(c *Config) { c.SaturationTTL = -1 }},
		{"quorum rule", "limits.on_no_quorum", func(c *Config) { c.Limits.OnNoQuorum = "maybe" }},
		{"token accounting", "limits.token_accounting", func(c *Config) { c.Limits.TokenAccounting = "guessed" }},
		{"oversize", "limits.oversize", func(c *Config) { c.Limits.Oversize = "cut" }},
		{"allocation", "limits.allocation", func(c *Config) { c.Limits.Allocation = "fair" }},
		{"hold back", "limits.hold_back", func(c *Config) { c.Limits.HoldBack = 1.5 }},
		{"hold back of nothing", "limits.hold_back", func(c *Config) { c.Limits.HoldBack = math.NaN() }},
		{"active window", "limits.active_window", func(c *Config) { c.Limits.ActiveWindow = -time.Second }},
		{"active for a day", "limits.active_window", func(c *Config) { c.Limits.ActiveWindow = 24 * time.Hour }},
		{"token type", "limits.token_rate_limit_type", func(c *Config) { c.Limits.TokenRateLimitType = "both" }},
		{"connect timeout", "upstream.connect_timeout", func(c *Config) { c.Upstream.ConnectTimeout = -1 }},
		{"first byte timeout", "upstream.first_byte_timeout", func(c *Config) { c.Upstream.FirstByteTimeout = 48 * time.Hour }},
		{"idle timeout", "upstream.idle_timeout", func(c *Config) { c.Upstream.IdleTimeout = -1 }},
		{"model without a name", "models[0].name", func(c *Config) { c.Models[0].Name = "" }},
		{"model name with a blank", "models[0].name", func(c *Config) { c.Models[0].Name = " m" }},
		{"model name with a zero-width space", "models[0].name", func(c *Config) { c.Models[0].Name = "m\u200b" }},
		{"model twice", "models.m.name", func(c *Config) {
			c.Models = append(c.Models, c.Models[0])
			c.Models[1].Deployments = []Deployment{{ID: "other", Provider: ProviderMock}}
		}},
		{"star in the middle", "models.a*b.name", func(c *Config) { c.Models[0].Name = "a*b" }},
		{"two stars", "models.a**.name", func(c *Config) { c.Models[0].Name = "a**" }},
		{"limits per name without a wildcard", "models.m.limits_per_name", func(c *Config) { c.Models[0].PerName = true }},
		{"absurd limit", "models.m.rpm", func(c *Config) { c.Models[0].RPM = limiter.Of(huge) }},
		{"absurd limit of a deployment", "models.m.deployments.d.tpm", deployment(Deployment{Provider: ProviderMock, TPM: limiter.Of(huge)})},
		{"no deployment", "models.m", func(c *Config) { c.Models[0].Deployments = nil }},
		{"deployment id twice", "models.n.deployments.m.id", func(c *Config) {
			c.Models = append(c.Models, Model{Name: "n", Deployments: []Deployment{{ID: "m", Provider: ProviderMock}}})
		}},
		{"unknown provider", "models.m.deployments.d.provider", deployment(Deployment{Provider: "open-ai"})},
		{"no provider", "models.m.deployments.d.provider", deployment(Deployment{})},
		{"anthropic without a key", "models.m.deployments.d.api_key", deployment(Deployment{Provider: ProviderAnthropic, APIBase: anthropicBase})},
		{"anthropic without a base", "models.m.deployments.d.api_base", deployment(Deployment{Provider: ProviderAnthropic, APIKey: "os.environ/A"})},
		{"negative weight", "models.m.deployments.d.weight", deployment(Deployment{Provider: ProviderMock, Weight: &minus})},
		{"absurd weight", "models.m.deployments.d.weight", deployment(Deployment{Provider: ProviderMock, Weight: &huge})},
		{"negative latency", "models.m.deployments.d.mock_latency", deployment(Deployment{Provider: ProviderMock, MockLatency: -1})},
		{"literal key", "models.m.deployments.d.api_key", deployment(Deployment{Provider: ProviderMock, APIKey: "sk-SECRET"})},
		{"reference without a name", "models.m.deployments.d.api_key", deployment(Deployment{Provider: ProviderMock, APIKey: "os.environ/"})},
		{"reference with a literal behind", "models.m.deployments.d.api_key", deployment(Deployment{Provider: ProviderMock, APIKey: "os.environ/A sk-SECRET"})},
		{"openai without a key", "models.m.deployments.d.api_key", deployment(Deployment{Provider: ProviderOpenAI, APIBase: openAIBase})},
		{"azure without a base", "models.m.deployments.d.api_base", deployment(Deployment{Provider: ProviderAzure})},
		{"compatible without a base", "models.m.deployments.d.api_base", deployment(Deployment{Provider: ProviderCompatible})},
		{"base is no URL", "models.m.deployments.d.api_base", deployment(Deployment{Provider: ProviderCompatible, APIBase: "localhost:8080"})},
		{"base of another scheme", "models.m.deployments.d.api_base", deployment(Deployment{Provider: ProviderCompatible, APIBase: "ftp://host/v1"})},
		{"password in the base", "models.m.deployments.d.api_base", deployment(Deployment{Provider: ProviderCompatible, APIBase: "https://u:SECRET@host/v1"})},
		{"key in the query", "models.m.deployments.d.api_base", deployment(Deployment{Provider: ProviderCompatible, APIBase: "https://host/v1?key=SECRET"})},
		{"alias of nothing", "aliases.a", alias("a", "nobody")},
		{"alias of itself", "aliases.a", alias("a", "a")},
		{"alias in a circle", "aliases.a", alias("a", "b", "b", "a")},
		{"alias into a circle", "aliases.x", alias("x", "a", "a", "b", "b", "a")},
		{"alias named like a model", "aliases.m", alias("m", "m")},
		{"alias with a star", "aliases.a*", alias("a*", "m")},
		{"alias of a wildcard", "aliases.a", alias("a", "w/*")},
		{"alias with a control character", "aliases.a\x00", alias("a\x00", "m")},
		{"share over 1", "priority_reservation.prod", func(c *Config) {
			c.Reservation.Shares = map[string]limiter.Share{"prod": {Kind: limiter.SharePercent, Value: 90}}
		}},
		{"default over 1", "priority_reservation_settings.default_priority", func(c *Config) { c.Reservation.Default = 1.5 }},
		{"threshold is not a number", "priority_reservation_settings.saturation_threshold", func(c *Config) { c.Reservation.Threshold = math.NaN() }},
		{"rpm share on a model without rpm", "priority_reservation", func(c *Config) {
			c.Reservation.Shares = map[string]limiter.Share{"prod": {Kind: limiter.ShareRPM, Value: 1}}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := testConfig(mockModel("m", -1, 60), mockModel("w/*", -1, 60))
			tc.change(&c)
			problems := c.Validate()
			found := false
			for _, p := range problems {
				found = found || p.Path == tc.path
				if p.Msg == "" || strings.Contains(p.Error(), "SECRET") {
					t.Errorf("message is %q", p.Error())
				}
			}
			if !found {
				t.Errorf("no problem at %s, but %v", tc.path, problems)
			}
		})
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	c := testConfig(mockModel("m", 1, 1), mockModel("m", 1, 1))
	c.Window = -1
	c.Limits.Allocation = "x"
	c.Aliases = map[string]string{"a": "b"}
	if n := len(c.Validate()); n != 5 { // the second m repeats name and deployment id
		t.Errorf("%d problems: %v", n, c.Validate())
	}
}

func TestUsualConfigurationsAreValid(t *testing.T) {
	zero := int64(0)
	c := testConfig(
		Model{Name: "gpt", RPM: limiter.Of(10), Deployments: []Deployment{
			{ID: "o", Provider: ProviderOpenAI, APIKey: "os.environ/OPENAI_API_KEY", Weight: &zero},
			{ID: "z", Provider: ProviderAzure, APIBase: "https://x.openai.azure.com", APIKey: "os.environ/AZ", APIVersion: "2024-06-01"},
			{ID: "l", Provider: ProviderCompatible, APIBase: "http://localhost:8080/v1"},
			{ID: "own", Provider: ProviderOpenAI, APIBase: "http://127.0.0.1:1/v1"},
		}},
		mockModel("openai/*", 5, -1), mockModel("*", 5, -1), mockModel("blocked", 0, 0),
	)
	c.Aliases = map[string]string{"fast": "quick", "quick": "gpt", "any": "openai/gpt-4o"}
	c.Reservation.Shares = map[string]limiter.Share{"prod": {Kind: limiter.SharePercent, Value: 0.9}, "dev": {Kind: limiter.ShareRPM, Value: 1}}
	if problems := c.Validate(); problems != nil {
		t.Errorf("problems: %v", problems)
	}
}
