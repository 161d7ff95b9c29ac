package config

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

// Render writes the settings as they hold, defaults included, as a TOML file
// that means the same. Secrets are shown as the references they came from.
func (f *File) Render() string {
	w := &writer{}
	w.gateway(f.Node.Gateway, f.Cluster.Window)
	w.cluster(f.Node.Cluster)
	w.table("[log]")
	w.text("level", levelName(f.Node.Log.Level))
	w.text("format", f.Node.Log.Format)
	if len(f.Cluster.Aliases) > 0 {
		w.table("[aliases]")
		for _, name := range sortedKeys(f.Cluster.Aliases) {
			w.text(join("", name), f.Cluster.Aliases[name])
		}
	}
	for _, m := range f.Cluster.Models {
		w.model(m)
	}
	w.reservation(f.Cluster)
	w.table("[limits]")
	w.text("on_no_quorum", string(f.Cluster.Limits.OnNoQuorum))
	w.text("token_accounting", f.Cluster.Limits.TokenAccounting)
	w.text("oversize", cmp.Or(f.Cluster.Limits.Oversize, fsm.OversizeReject))
	w.text("allocation", f.Cluster.Limits.Allocation)
	w.raw("hold_back", number(f.Cluster.Limits.HoldBack))
	w.duration("active_window", cmp.Or(f.Cluster.Limits.ActiveWindow, fsm.DefaultActiveWindow))
	w.text("token_rate_limit_type", f.Cluster.Limits.TokenRateLimitType)
	w.raw("count_cached_tokens", f.Cluster.Limits.CountCachedTokens)
	lease := fsm.DefaultLeaseTTL
	if l := f.Cluster.Limits.LeaseTTL; l != nil {
		lease = *l
	}
	w.duration("lease_ttl", lease)
	w.table("[upstream]")
	w.duration("connect_timeout", f.Cluster.Upstream.ConnectTimeout)
	w.duration("first_byte_timeout", f.Cluster.Upstream.FirstByteTimeout)
	w.duration("idle_timeout", f.Cluster.Upstream.IdleTimeout)
	w.retries(f.Cluster.Upstream.Retries())
	w.texts("default_fallbacks", f.Cluster.Upstream.DefaultFallbacks)
	return w.String()
}

// Changed returns the node-local settings in which f differs from before, in the order of the file.
func (f *File) Changed(before *File) []string {
	old := map[string]string{}
	for _, s := range before.nodeLocal() {
		old[s[0]] = s[1]
	}
	var keys []string
	for _, s := range f.nodeLocal() {
		if was, ok := old[s[0]]; !ok || was != s[1] {
			keys = append(keys, s[0])
		}
		delete(old, s[0])
	}
	return append(keys, sortedKeys(old)...)
}

// nodeLocal returns the node-local settings as pairs of path and value.
func (f *File) nodeLocal() (pairs [][2]string) {
	section := ""
	for line := range strings.Lines(f.Render()) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
			continue
		}
		key, value, ok := strings.Cut(line, " = ")
		local := section == "gateway" && key != "window" || section == "cluster" || section == "log"
		if ok && local {
			pairs = append(pairs, [2]string{section + "." + key, value})
		}
	}
	return pairs
}

// writer writes TOML line by line.
type writer struct {
	strings.Builder
	indent string
}

func (w *writer) table(header string) {
	w.indent = ""
	if w.Len() > 0 {
		w.WriteByte('\n')
	}
	w.WriteString(header + "\n")
}

func (w *writer) raw(key string, v any) { fmt.Fprintf(w, "%s%s = %v\n", w.indent, key, v) }

func (w *writer) text(key, v string) {
	if v != "" {
		w.raw(key, quote(v))
	}
}

// texts writes a list, unless it is empty.
func (w *writer) texts(key string, list []string) {
	if len(list) == 0 {
		return
	}
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	w.raw(key, "["+strings.Join(quoted, ", ")+"]")
}

// retries writes settings with their defaults filled in.
func (w *writer) retries(r fsm.RetrySettings) {
	w.raw("max_attempts", r.MaxAttempts)
	w.duration("base_delay", r.BaseDelay)
	w.duration("max_delay", r.MaxDelay)
	w.duration("min_delay", r.MinDelay)
	w.text("jitter", r.Jitter)
	w.duration("max_retry_after", r.MaxRetryAfter)
	w.raw("retry_budget", number(*r.RetryBudget))
}

func (w *writer) duration(key string, d time.Duration) { w.raw(key, quote(shortDuration(d))) }

func (w *writer) limit(key string, l limiter.Limit) {
	if n, ok := l.Get(); ok {
		w.raw(key, n)
	}
}

func (w *writer) gateway(g Gateway, window time.Duration) {
	w.table("[gateway]")
	w.text("listen", g.Listen)
	w.text("data_dir", g.DataDir)
	w.text("master_key", g.MasterKey.String())
	w.duration("window", window)
	w.duration("drain", g.Drain)
	w.duration("write_timeout", g.WriteTimeout)
	w.text("max_body", formatSize(g.MaxBody))
	w.text("max_body_memory", formatSize(g.BodyMemory))
	w.texts("cors_origins", g.CORSOrigins)
	w.raw("open_metrics", g.OpenMetrics)
}

func (w *writer) cluster(c Cluster) {
	w.table("[cluster]")
	w.text("node_id", c.NodeID)
	w.text("listen", c.Listen)
	w.text("advertise", c.Advertise)
	w.texts("join", c.Join)
	if c.BootstrapExpect > 0 {
		w.raw("bootstrap_expect", c.BootstrapExpect)
	}
	w.text("secret", c.Secret.String())
	w.text("cert_file", c.CertFile)
	w.text("key_file", c.KeyFile)
	w.text("ca_file", c.CAFile)
	w.raw("voter", !c.NonVoter)
	w.raw("raft_multiplier", c.RaftMultiplier)
	w.raw("snapshot_threshold", c.SnapshotThreshold)
	w.duration("snapshot_interval", c.SnapshotInterval)
}

func (w *writer) model(m fsm.Model) {
	w.table("[[models]]")
	w.text("name", m.Name)
	w.limit("rpm", m.RPM)
	w.limit("tpm", m.TPM)
	if m.PerName {
		w.raw("limits_per_name", true)
	}
	w.texts("fallbacks", m.Fallbacks)
	w.texts("context_window_fallbacks", m.ContextWindowFallbacks)
	w.texts("content_policy_fallbacks", m.ContentPolicyFallbacks)
	for _, d := range m.Deployments {
		w.WriteString("  [[models.deployments]]\n")
		w.indent = "  "
		w.text("id", d.ID)
		w.text("provider", d.Provider)
		w.text("model", d.Model)
		w.text("api_base", d.APIBase)
		w.text("api_key", d.APIKey)
		w.text("api_version", d.APIVersion)
		if d.Weight != nil {
			w.raw("weight", *d.Weight)
		}
		if d.Order != 0 {
			w.raw("order", d.Order)
		}
		w.text("quota_group", d.QuotaGroup)
		w.limit("rpm", d.RPM)
		w.limit("tpm", d.TPM)
		w.text("mock_response", d.MockResponse)
		if d.MockLatency > 0 {
			w.duration("mock_latency", d.MockLatency)
		}
		if d.NoStreamUsage {
			w.raw("no_stream_usage", true)
		}
	}
}

func (w *writer) reservation(c fsm.Config) {
	if len(c.Reservation.Shares) > 0 {
		w.table("[priority_reservation]")
		for _, name := range sortedKeys(c.Reservation.Shares) {
			s := c.Reservation.Shares[name]
			w.raw(join("", name), fmt.Sprintf("{ type = %q, value = %s }", s.Kind, number(s.Value)))
		}
	}
	w.table("[priority_reservation_settings]")
	w.raw("default_priority", number(c.Reservation.Default))
	w.raw("saturation_threshold", number(c.Reservation.Threshold))
	w.raw("saturation_check_cache_ttl", number(c.SaturationTTL))
}

// number writes a float without an exponent, which TOML spells otherwise than Go.
func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// quote writes a basic TOML string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
