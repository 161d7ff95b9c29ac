package config

import (
	"fmt"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

// readCluster reads the cluster-wide tables over their defaults.
func (r *reader) readCluster(root *table) fsm.Config {
	c := fsm.DefaultConfig()
	c.Window = newTable(r, "gateway", asTable(root.vals["gateway"])).duration("window", c.Window, time.Millisecond)
	c.Aliases = r.readAliases(root.table("aliases"))
	for _, t := range root.tables("models") {
		c.Models = append(c.Models, r.readModel(t))
	}
	r.readReservation(root, &c)
	r.readLimits(root.table("limits"), &c.Limits)
	t := root.table("upstream")
	u := &c.Upstream
	u.ConnectTimeout = t.duration("connect_timeout", u.ConnectTimeout, time.Millisecond)
	u.FirstByteTimeout = t.duration("first_byte_timeout", u.FirstByteTimeout, time.Millisecond)
	u.IdleTimeout = t.duration("idle_timeout", u.IdleTimeout, time.Millisecond)
	readRetries(t, &u.RetrySettings)
	u.DefaultFallbacks = t.texts("default_fallbacks", `"my-model"`)
	t.close()
	return c
}

// readRetries reads what differs from the defaults: to write a default down
// changes nothing.
func readRetries(t *table, r *fsm.RetrySettings) {
	def := r.Retries()
	duration := func(key string, field *time.Duration, def time.Duration) {
		if d := t.duration(key, def, time.Millisecond); d != def {
			*field = d
		}
	}
	if n := t.whole("max_attempts", def.MaxAttempts, 1, 100); n != def.MaxAttempts {
		r.MaxAttempts = n
	}
	duration("base_delay", &r.BaseDelay, def.BaseDelay)
	duration("max_delay", &r.MaxDelay, def.MaxDelay)
	duration("min_delay", &r.MinDelay, def.MinDelay)
	duration("max_retry_after", &r.MaxRetryAfter, def.MaxRetryAfter)
	if j := t.choice("jitter", def.Jitter, fsm.JitterFull, fsm.JitterEqual, fsm.JitterDecorrelated, fsm.JitterNone); j != def.Jitter {
		r.Jitter = j
	}
	if b := t.number("retry_budget", *def.RetryBudget, 0, 1); b != *def.RetryBudget {
		r.RetryBudget = &b
	}
}

// saysClusterWide reports whether a document has a table of the cluster-wide
// half. gateway.window alone does not count: the file of one node, which sets
// it in a table of that node, must not replace the models of all.
func saysClusterWide(vals map[string]any) bool {
	for _, name := range []string{"models", "aliases", "priority_reservation", "priority_reservation_settings", "limits", "upstream"} {
		if _, ok := vals[name]; ok {
			return true
		}
	}
	return false
}

func asTable(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func (r *reader) readAliases(t *table) map[string]string {
	aliases := make(map[string]string, len(t.vals))
	for _, name := range sortedKeys(t.vals) {
		if to := t.text(name, "", `"model name"`); to != "" {
			aliases[name] = to
		}
	}
	return aliases
}

func (r *reader) readModel(t *table) fsm.Model {
	m := fsm.Model{
		Name:    t.text("name", "", `"my-model"`),
		RPM:     t.limit("rpm"),
		TPM:     t.limit("tpm"),
		PerName: t.boolean("limits_per_name", false),

		Fallbacks:              t.texts("fallbacks", `"another-model"`),
		ContextWindowFallbacks: t.texts("context_window_fallbacks", `"a-longer-model"`),
		ContentPolicyFallbacks: t.texts("content_policy_fallbacks", `"another-model"`),
	}
	listed := t.tables("deployments")
	for _, d := range listed {
		dep := r.readDeployment(d)
		dep.RPM, dep.TPM = d.limit("rpm"), d.limit("tpm")
		d.close()
		m.Deployments = append(m.Deployments, dep)
	}
	before := len(t.known)
	inline := r.readDeployment(t)
	for _, key := range t.known[before:] {
		if !t.has(key) {
			continue
		}
		if len(listed) > 0 {
			t.problem(t.at(key), "a model has either one deployment inline or a list of them, not both",
				"move it into a [[models.deployments]] of its own")
			continue
		}
		m.Deployments = []fsm.Deployment{inline}
	}
	t.close()
	return m
}

// readDeployment reads what a deployment has wherever it is written.
func (r *reader) readDeployment(t *table) fsm.Deployment {
	d := fsm.Deployment{
		ID:            t.text("id", "", `"openai-1"`),
		Provider:      t.choice("provider", "", "openai", "anthropic", "azure", "openai_compatible", "mock"),
		Model:         t.text("model", "", `"gpt-5.6-luna"`),
		APIBase:       t.text("api_base", "", `"https://api.openai.com/v1"`),
		APIKey:        t.reference("api_key", "os.environ/OPENAI_API_KEY"),
		APIVersion:    t.text("api_version", "", `"2024-10-21"`),
		Order:         t.whole("order", 0, 0, 1_000_000),
		QuotaGroup:    t.text("quota_group", "", `"openai-main"`),
		MockResponse:  t.text("mock_response", "", `"hello-world"`),
		MockLatency:   t.duration("mock_latency", 0, 0),
		NoStreamUsage: t.boolean("no_stream_usage", false),
	}
	if t.has("weight") {
		w := t.whole("weight", 1, 0, 1_000_000)
		d.Weight = &w
	} else {
		t.get("weight")
	}
	if name, ok := reference(d.APIKey); ok && !r.unresolved {
		t.variable("api_key", name)
	}
	return d
}

func (r *reader) readReservation(root *table, c *fsm.Config) {
	t := root.table("priority_reservation")
	if len(t.vals) > 0 {
		c.Reservation.Shares = make(map[string]limiter.Share, len(t.vals))
	}
	for _, name := range sortedKeys(t.vals) {
		c.Reservation.Shares[name] = r.readShare(t, name)
	}
	s := root.table("priority_reservation_settings")
	c.Reservation.Default = s.number("default_priority", c.Reservation.Default, 0, 1)
	c.Reservation.Threshold = s.number("saturation_threshold", c.Reservation.Threshold, 0, 1)
	c.SaturationTTL = s.number("saturation_check_cache_ttl", c.SaturationTTL, 0, 86400)
	s.close()
}

// readShare reads 0.9 or {type = "rpm", value = 9}.
func (r *reader) readShare(t *table, name string) limiter.Share {
	switch v := t.vals[name].(type) {
	case map[string]any:
	case string: // as the commands take it; a remedy that says 0 would block the priority
		t.get(name)
		t.wrongType(name, v, "a number", fmt.Sprintf(`0.9, or %s = {type = "rpm", value = 9}`, name))
		return limiter.Share{Kind: limiter.SharePercent}
	default:
		return limiter.Share{Kind: limiter.SharePercent, Value: t.number(name, 0, 0, 1)}
	}
	e := t.table(name)
	kind := limiter.ShareKind(e.choice("type", "percent", "percent", "rpm", "tpm"))
	hi := 1.0
	if kind != limiter.SharePercent {
		hi = 1 << 53
	}
	if !e.has("value") {
		t.problem(e.at("value"), "the reservation has no value", `write value = 0.9`)
	}
	value := e.number("value", 0, 0, hi)
	e.close()
	return limiter.Share{Kind: kind, Value: value}
}

func (r *reader) readLimits(t *table, l *fsm.LimitSettings) {
	l.OnNoQuorum = limiter.NoQuorum(t.choice("on_no_quorum", string(l.OnNoQuorum), "share", "deny", "allow"))
	l.TokenAccounting = t.choice("token_accounting", l.TokenAccounting, fsm.AccountRecorded, fsm.AccountReserved)
	l.Allocation = t.choice("allocation", l.Allocation, fsm.AllocateBySaturation, fsm.AllocateConserving)
	l.HoldBack = t.number("hold_back", l.HoldBack, 0, 1)
	// A default that is written out is the same content as one that is left out.
	if active := t.duration("active_window", fsm.DefaultActiveWindow, time.Millisecond); active != fsm.DefaultActiveWindow {
		l.ActiveWindow = active
	}
	l.TokenRateLimitType = t.choice("token_rate_limit_type", l.TokenRateLimitType, "total", "input", "output")
	l.CountCachedTokens = t.boolean("count_cached_tokens", l.CountCachedTokens)
	if o := t.choice("oversize", fsm.OversizeReject, fsm.OversizeReject, fsm.OversizeAlone); o != fsm.OversizeReject {
		l.Oversize = o
	}
	if lease := t.duration("lease_ttl", fsm.DefaultLeaseTTL, 0); lease != fsm.DefaultLeaseTTL {
		l.LeaseTTL = &lease
	}
	t.close()
}
