package fsm

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/limiter"
)

// Providers that deployments name.
const (
	ProviderOpenAI     = "openai"
	ProviderAnthropic  = "anthropic"
	ProviderAzure      = "azure"
	ProviderCompatible = "openai_compatible"
	ProviderMock       = "mock"
)

// providers is how their list reads in a message.
const providers = "openai, anthropic, azure, openai_compatible or mock"

const (
	maxName     = 255 // bytes of a model, alias, deployment or priority name
	maxDuration = 24 * time.Hour
	maxLease    = time.Minute
	maxActive   = time.Hour // the activity of names that clients make up is kept as long
	maxWeight   = 1_000_000
	maxLimit    = 1 << 53 // beyond this, shares of a limit are no longer exact
	refPrefix   = "os.environ/"
)

var refName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Validate returns every fault of a normalized configuration, nil if it can be
// used. Secrets are never repeated in it.
//
// The state machine runs it on replicated commands, so its verdict is part of
// the log's format: a version that judges otherwise needs a new command type.
func (c Config) Validate() []ConfigError {
	v := &validator{config: &c, names: map[string]bool{}, ids: map[string]string{}}
	v.settings()
	for i := range c.Models {
		v.model(i)
	}
	v.aliases()
	v.fallbacks()
	v.reservation()
	return v.problems
}

type validator struct {
	config   *Config
	names    map[string]bool   // models seen so far
	ids      map[string]string // deployment ID → path of its model
	problems []ConfigError
}

func (v *validator) add(path, remedy, format string, args ...any) {
	v.problems = append(v.problems, ConfigError{Path: path, Msg: fmt.Sprintf(format, args...), Remedy: remedy})
}

func (v *validator) settings() {
	c := v.config
	v.duration("gateway.window", c.Window)
	v.duration("upstream.connect_timeout", c.Upstream.ConnectTimeout)
	v.duration("upstream.first_byte_timeout", c.Upstream.FirstByteTimeout)
	v.duration("upstream.idle_timeout", c.Upstream.IdleTimeout)
	v.retries()
	if t := c.SaturationTTL; math.IsNaN(t) || t < 0 || t > maxDuration.Seconds() {
		v.add("priority_reservation_settings.saturation_check_cache_ttl", "use seconds, such as 60", "%v is outside 0..%v", t, maxDuration.Seconds())
	}
	if t := c.Limits.LeaseTTL; t != nil && (*t < 0 || *t > maxLease) {
		v.add("limits.lease_ttl", `use a short time such as "500ms", or 0 for no permits`, "%v is outside 0..%v", *t, maxLease)
	}
	v.oneOf("limits.on_no_quorum", string(c.Limits.OnNoQuorum), "share", "deny", "allow")
	v.oneOf("limits.token_accounting", c.Limits.TokenAccounting, AccountRecorded, AccountReserved)
	if c.Limits.Oversize != "" {
		v.oneOf("limits.oversize", c.Limits.Oversize, OversizeReject, OversizeAlone)
	}
	v.oneOf("limits.allocation", c.Limits.Allocation, AllocateBySaturation, AllocateConserving)
	v.conserving()
	v.oneOf("limits.token_rate_limit_type", c.Limits.TokenRateLimitType, "total", "input", "output")
}

// conserving checks what goes with allocation = "work_conserving".
func (v *validator) conserving() {
	l := &v.config.Limits
	if !(l.HoldBack >= 0 && l.HoldBack <= 1) { // NaN is in no range
		v.add("limits.hold_back", "use a part of the limit such as 0.1", "%v is outside 0..1", l.HoldBack)
	}
	if l.ActiveWindow < 0 || l.ActiveWindow > maxActive {
		v.add("limits.active_window", `use a duration such as "10s"`, "%v is not above 0 and at most %v", l.ActiveWindow, maxActive)
	}
}

func (v *validator) duration(path string, d time.Duration) {
	if d <= 0 || d > maxDuration {
		v.add(path, `use a duration such as "60s"`, "%v is not above 0 and at most %v", d, maxDuration)
	}
}

func (v *validator) oneOf(path, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		v.add(path, "use "+strings.Join(allowed, ", "), "%q is not known", value)
	}
}

func (v *validator) model(i int) {
	m := &v.config.Models[i]
	path := fmt.Sprintf("models[%d]", i)
	if v.name(path+".name", m.Name) {
		path = "models." + m.Name
	}
	if v.names[m.Name] && m.Name != "" {
		v.add(path+".name", "list several upstreams as [[models.deployments]] of one model", "model %q is defined twice", m.Name)
	}
	v.names[m.Name] = true
	if strings.Contains(strings.TrimSuffix(m.Name, "*"), "*") {
		v.add(path+".name", `write a prefix and one star, such as "openai/*"`, "a star may only be at the end")
	}
	if m.PerName && !isWildcard(m.Name) {
		v.add(path+".limits_per_name", "remove it", "it is meant for wildcard names only")
	}
	v.limit(path+".rpm", m.RPM)
	v.limit(path+".tpm", m.TPM)
	if len(m.Deployments) == 0 {
		v.add(path, `set provider, or add [[models.deployments]]`, "the model has no deployment")
	}
	for j := range m.Deployments {
		v.deployment(path, j, &m.Deployments[j])
	}
}

func (v *validator) deployment(model string, j int, d *Deployment) {
	path := fmt.Sprintf("%s.deployments[%d]", model, j)
	if v.name(path+".id", d.ID) {
		path = fmt.Sprintf("%s.deployments.%s", model, d.ID)
		if first, taken := v.ids[d.ID]; taken {
			v.add(path+".id", "give every deployment an id of its own", "the id %q is used by %s too", d.ID, first)
		}
		v.ids[d.ID] = model
	}
	v.limit(path+".rpm", d.RPM)
	v.limit(path+".tpm", d.TPM)
	if d.Weight != nil && (*d.Weight < 0 || *d.Weight > maxWeight) {
		v.add(path+".weight", "use 1 for an equal part, 0 for no traffic", "%d is outside 0..%d", *d.Weight, maxWeight)
	}
	if d.MockLatency < 0 || d.MockLatency > maxDuration {
		v.add(path+".mock_latency", `use a duration such as "50ms"`, "%v is outside 0..%v", d.MockLatency, maxDuration)
	}
	if d.APIKey != "" && !isReference(d.APIKey) {
		v.add(path+".api_key", `put the key into an environment variable and write "os.environ/NAME"`, "it must be a reference; the value is not shown here, because it may be a secret")
	}
	v.routing(path, d)
	v.provider(path, d)
}

func (v *validator) provider(path string, d *Deployment) {
	switch d.Provider {
	case ProviderMock:
		v.base(path, d, false)
	case ProviderOpenAI:
		v.base(path, d, true)
		if d.APIKey == "" && d.APIBase == openAIBase {
			v.add(path+".api_key", `write api_key = "os.environ/OPENAI_API_KEY"`, "openai needs a key")
		}
	case ProviderAnthropic:
		v.base(path, d, true)
		if d.APIKey == "" && d.APIBase == anthropicBase {
			v.add(path+".api_key", `write api_key = "os.environ/ANTHROPIC_API_KEY"`, "anthropic needs a key")
		}
	case ProviderCompatible, ProviderAzure:
		v.base(path, d, true)
	case "":
		v.add(path+".provider", "set "+providers, "the deployment has no provider")
	default:
		v.add(path+".provider", "use "+providers, "unknown provider %q", d.Provider)
	}
}

// base checks api_base. Its text is never repeated: it may hold credentials.
func (v *validator) base(path string, d *Deployment, needed bool) {
	path += ".api_base"
	remedy := `write api_base = "https://host/v1"`
	switch d.Provider {
	case ProviderAzure:
		remedy = `write api_base = "https://NAME.openai.azure.com"`
	case ProviderAnthropic:
		remedy = `write api_base = "` + anthropicBase + `"`
	}
	if d.APIBase == "" {
		if needed {
			v.add(path, remedy, "%s needs it", d.Provider)
		}
		return
	}
	u, err := url.Parse(d.APIBase)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.Opaque != "":
		v.add(path, remedy, "it is not an http or https URL")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		v.add(path, "put the key into api_key as a reference and leave only scheme, host and path", "it must not hold user, query or fragment")
	}
}

func (v *validator) limit(path string, l limiter.Limit) {
	if n, ok := l.Get(); ok && n > maxLimit {
		v.add(path, "leave it out for no limit", "%d is too large to be shared exactly", n)
	}
}

// name reports whether a name is usable, and says so if not.
func (v *validator) name(path, name string) bool {
	fault := nameFault(name)
	if fault != "" {
		v.add(path, "choose a plain name", "the name %s", fault)
	}
	return fault == ""
}

// nameFault says what is wrong with a name, "" if nothing is.
func nameFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxName:
		return fmt.Sprintf("is longer than %d bytes", maxName)
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	case strings.TrimSpace(name) != name:
		return "begins or ends with a blank"
	}
	for _, r := range name {
		if isInvisible(r) {
			return fmt.Sprintf("holds the invisible character U+%04X", r)
		}
	}
	return ""
}

func (v *validator) aliases() {
	for _, alias := range slices.Sorted(maps.Keys(v.config.Aliases)) {
		path := "aliases." + alias
		if !v.name(path, alias) {
			continue
		}
		target, ends := followAlias(v.config.Aliases, alias)
		switch {
		case strings.Contains(alias, "*"):
			v.add(path, "give every alias a name of its own", "an alias cannot be a wildcard")
		case v.names[alias]:
			v.add(path, "rename the alias or the model", "a model has the same name")
		case !ends:
			v.add(path, "let the chain end at a model", "the alias leads back to itself")
		case !v.serves(target):
			v.add(path, "name a model that exists", "no model serves %q", target)
		}
	}
}

// serves reports whether a concrete name meets a model.
func (v *validator) serves(name string) bool {
	if strings.Contains(name, "*") {
		return false
	}
	for i := range v.config.Models {
		m := v.config.Models[i].Name
		if m == name || isWildcard(m) && strings.HasPrefix(name, strings.TrimSuffix(m, "*")) {
			return true
		}
	}
	return false
}

// reservation checks the table by itself and against every model.
func (v *validator) reservation() {
	r := v.config.Reservation
	for _, name := range slices.Sorted(maps.Keys(r.Shares)) {
		if name != "" {
			v.name("priority_reservation."+name, name)
		}
	}
	faults := r.Validate()
	for _, err := range faults {
		path, msg, found := strings.Cut(err.Error(), ": ")
		if !found {
			path, msg = "priority_reservation", err.Error()
		}
		v.add(path, "", "%s", msg)
	}
	if len(faults) > 0 {
		return
	}
	for i := range v.config.Models {
		m := &v.config.Models[i]
		if _, _, err := limiter.NewModelPolicy(m.Name, m.capacity(), r); err != nil {
			v.add("priority_reservation", "", "%v", err)
		}
	}
}

func isReference(s string) bool {
	name, ok := strings.CutPrefix(s, refPrefix)
	return ok && refName.MatchString(name)
}
