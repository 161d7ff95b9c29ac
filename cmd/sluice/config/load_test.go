package config

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

// environment is a Lookup over a map.
func environment(vars map[string]string) Lookup {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

var testVars = map[string]string{
	"MASTER": "sk-master", "SECRET": "cluster-secret-of-some-length", "PROVIDER": "sk-provider",
	"TEMPLATE": "${MASTER}", "KUBE": "$(MASTER)", "REFERENCE": "os.environ/MASTER", "INNER": "a b", "FOREIGN": "sk-schlüssel",
	"EMPTY": "", "BLANK": "  ", "LINES": "a\nb", "TRAILING": "a ", "BELL": "a\ab",
}

const base = "[gateway]\nmaster_key = \"os.environ/MASTER\"\n"

// parse reads a document that must be right.
func parse(t *testing.T, doc string) *File {
	t.Helper()
	f, problems := Parse("f.toml", []byte(doc), Options{Lookup: environment(testVars)})
	problems = append(problems, f.Check()...)
	if len(problems) > 0 {
		t.Fatalf("unexpected problems:\n%v", problems)
	}
	return f
}

func TestEverySettingArrives(t *testing.T) {
	f := parse(t, `
[gateway]
listen = "0.0.0.0:80"
data_dir = "/var/lib/x"
master_key = "os.environ/MASTER"
window = "6s"
drain = "5s"
write_timeout = "7s"
max_body = "1KiB"
max_body_memory = "2MiB"
cors_origins = ["https://a.example:8443", "*"]
open_metrics = true
[aliases]
fast = "m"
[cluster]
node_id = "n1"
listen = "10.0.0.1:4100"
advertise = "n1.example.com:4100"
join = ["a:1", "b:2"]
bootstrap_expect = 3
secret = "os.environ/SECRET"
voter = false
raft_multiplier = 2.5
snapshot_threshold = 100
snapshot_interval = "9s"
[log]
level = "warn"
format = "json"
[[models]]
name = "m"
rpm = 6e1
tpm = 1_000
provider = "mock"
fallbacks = ["o"]
context_window_fallbacks = ["o"]
content_policy_fallbacks = ["o"]
mock_response = "hi"
mock_latency = "3ms"
[[models]]
name = "o"
  [[models.deployments]]
  id = "o-1"
  provider = "azure"
  model = "gpt"
  api_base = "https://example.com"
  api_key = "os.environ/PROVIDER"
  api_version = "2024-10-21"
  weight = 0
  rpm = 0
  tpm = 60.0
  no_stream_usage = true
  order = 2
  quota_group = "azure-main"
[priority_reservation]
prod = 0.9
"low prio" = {type = "rpm", value = 1}
[priority_reservation_settings]
default_priority = 0
saturation_threshold = 1
saturation_check_cache_ttl = 0
[limits]
on_no_quorum = "deny"
token_accounting = "reserve"
allocation = "work_conserving"
hold_back = 0.1
active_window = "3s"
lease_ttl = "0s"
token_rate_limit_type = "input"
count_cached_tokens = false
oversize = "alone"
[upstream]
connect_timeout = "1s"
first_byte_timeout = "2s"
idle_timeout = "3s"
max_attempts = 4
base_delay = "2s"
max_delay = "30s"
min_delay = "1ms"
jitter = "equal"
max_retry_after = "5s"
retry_budget = 0
default_fallbacks = ["o"]
`)
	wantNode := Settings{
		Gateway: Gateway{Listen: "0.0.0.0:80", DataDir: "/var/lib/x", MasterKey: Secret{"os.environ/MASTER", "sk-master"},
			Drain: 5 * time.Second, WriteTimeout: 7 * time.Second, MaxBody: 1024, BodyMemory: 2 << 20,
			CORSOrigins: []string{"https://a.example:8443", "*"}, OpenMetrics: true},
		Cluster: Cluster{NodeID: "n1", Listen: "10.0.0.1:4100", Advertise: "n1.example.com:4100", Join: []string{"a:1", "b:2"},
			BootstrapExpect: 3, Secret: Secret{"os.environ/SECRET", "cluster-secret-of-some-length"}, NonVoter: true, RaftMultiplier: 2.5,
			SnapshotThreshold: 100, SnapshotInterval: 9 * time.Second},
		Log: Log{Level: slog.LevelWarn, Format: "json"},
	}
	if !reflect.DeepEqual(f.Node, wantNode) {
		t.Errorf("node-local settings differ:\n got %#v\nwant %#v", f.Node, wantNode)
	}
	c := f.Cluster
	m, d := c.Models[0], c.Models[1].Deployments[0]
	for name, same := range map[string]bool{
		"window":       c.Window == 6*time.Second,
		"aliases":      reflect.DeepEqual(c.Aliases, map[string]string{"fast": "m"}),
		"model":        m.Name == "m" && m.RPM == limiter.Of(60) && m.TPM == limiter.Of(1000),
		"inline":       m.Deployments[0].MockResponse == "hi" && m.Deployments[0].MockLatency == 3*time.Millisecond && m.Deployments[0].Provider == "mock",
		"no own limit": !m.Deployments[0].RPM.IsSet() && !m.Deployments[0].TPM.IsSet(),
		"deployment": d.ID == "o-1" && d.Provider == "azure" && d.Model == "gpt" && d.APIBase == "https://example.com" &&
			d.APIKey == "os.environ/PROVIDER" && d.APIVersion == "2024-10-21" && *d.Weight == 0 && d.RPM == limiter.Of(0) && d.TPM == limiter.Of(60) && d.NoStreamUsage,
		"shares": reflect.DeepEqual(c.Reservation, limiter.Reservation{Shares: map[string]limiter.Share{
			"prod": {Kind: "percent", Value: .9}, "low prio": {Kind: "rpm", Value: 1}}, Default: 0, Threshold: 1}),
		"ttl":      c.SaturationTTL == 0,
		"limits":   c.Limits.OnNoQuorum == "deny" && c.Limits.Allocation == "work_conserving" && c.Limits.HoldBack == 0.1 && c.Limits.TokenAccounting == "reserve" && c.Limits.Oversize == "alone" && c.Limits.ActiveWindow == 3*time.Second && c.Limits.TokenRateLimitType == "input" && !c.Limits.CountCachedTokens,
		"timeouts": c.Upstream.ConnectTimeout == time.Second && c.Upstream.FirstByteTimeout == 2*time.Second && c.Upstream.IdleTimeout == 3*time.Second,
		"routing": d.Order == 2 && d.QuotaGroup == "azure-main" && reflect.DeepEqual(m.Fallbacks, []string{"o"}) && reflect.DeepEqual(m.ContextWindowFallbacks, []string{"o"}) &&
			reflect.DeepEqual(m.ContentPolicyFallbacks, []string{"o"}) && reflect.DeepEqual(c.Upstream.DefaultFallbacks, []string{"o"}),
		"retries": reflect.DeepEqual(c.Upstream.RetrySettings, fsm.RetrySettings{MaxAttempts: 4, BaseDelay: 2 * time.Second, MaxDelay: 30 * time.Second,
			MinDelay: time.Millisecond, Jitter: "equal", MaxRetryAfter: 5 * time.Second, RetryBudget: new(float64)}),
	} {
		if !same {
			t.Errorf("%s did not arrive: %+v", name, c)
		}
	}
}

func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	f := parse(t, base)
	g, c := f.Node.Gateway, f.Cluster
	got := fmt.Sprint(g.Listen, g.DataDir, g.Drain, g.WriteTimeout, g.MaxBody, g.OpenMetrics, f.Node.Cluster.Listen, c.Window,
		c.Reservation.Default, c.Reservation.Threshold, c.SaturationTTL, c.Limits.OnNoQuorum, c.Limits.TokenAccounting,
		c.Limits.Allocation, c.Limits.TokenRateLimitType, c.Limits.CountCachedTokens,
		c.Upstream.ConnectTimeout, c.Upstream.FirstByteTimeout, c.Upstream.IdleTimeout)
	want := fmt.Sprint("127.0.0.1:4000", "data", 30*time.Second, 30*time.Second, 20<<20, false, "127.0.0.1:4100", time.Minute,
		.25, .5, 60, "share", "recorded", "saturation", "total", true, 5*time.Second, 120*time.Second, 60*time.Second)
	if got != want {
		t.Errorf("defaults differ:\n got %s\nwant %s", got, want)
	}
}

func TestBOMAndCRLFAreAccepted(t *testing.T) {
	f := parse(t, "\ufeff"+strings.ReplaceAll(base+"listen = \"127.0.0.1:1\"\n", "\n", "\r\n"))
	if f.Node.Gateway.Listen != "127.0.0.1:1" {
		t.Errorf("listen is %q", f.Node.Gateway.Listen)
	}
}

func TestProblemsNameLineKeyAndRemedy(t *testing.T) {
	const model = "[[models]]\nname = \"m\"\nprovider = \"mock\"\n"
	for _, c := range []struct{ name, doc, want string }{
		{"no master key", "", "f.toml: gateway.master_key: there is no master key"},
		{"unknown key", base + "tmp_limit = 1\n", "f.toml:3: gateway.tmp_limit: unknown key; remove it"},
		{"near miss", base + "max-boby = 1\n", "f.toml:3: gateway.max-boby: unknown key; did you mean max_body?"},
		{"unknown table", base + "[gatway]\nx = 1\n", "f.toml:3: gatway: unknown key; did you mean gateway?"},
		{"misplaced", "rpm = 60\n" + base, "f.toml:1: rpm: unknown key"},
		{"repeated key", base + "drain = \"1s\"\ndrain = \"2s\"\n", "f.toml:4: gateway.drain: is written twice; keep one"},
		{"repeated table", base + "[gateway]\n", "f.toml:3: gateway: is written twice"},
		{"repeated model", base + model + model, `f.toml:7: models[1].name: model "m" is defined twice; list several`},
		{"syntax", base + "listen = \n", "f.toml:3: gateway.listen: is not TOML"},
		{"number as text", base + model + "rpm = \"60\"\n", "f.toml:6: models[0].rpm: is text, not a whole number; write rpm = 60"},
		{"bare word", base + model + "rpm = on\n", "f.toml:6: models.rpm: is not TOML"},
		{"too big", base + model + "rpm = 9223372036854775808\n", "f.toml:6: models.rpm: is not TOML"},
		{"fraction", base + model + "rpm = 1.5\n", "f.toml:6: models[0].rpm: 1.5 is not a whole number"},
		{"negative", base + model + "tpm = -1\n", "f.toml:6: models[0].tpm: -1 is negative; use 0 to block, or leave it out"},
		{"NaN limit", base + model + "tpm = nan\n", "f.toml:6: models[0].tpm: NaN is not a whole number"},
		{"text as number", base + "listen = 4000\n", "f.toml:3: gateway.listen: is a whole number, not text"},
		{"table as text", base + "[cluster.listen]\n", "f.toml:3: cluster.listen: is a table, not text"},
		{"value as table", "log = 1\n" + base, "f.toml:1: log: is a whole number, not a table; write [log]"},
		{"single brackets", base + "[models]\nname = \"m\"\n", "f.toml:3: models: is a table, not a list of tables; write [[models]]"},
		{"list of numbers", "models = [1]\n" + base, "f.toml:1: models[0]: is a whole number, not a table"},
		{"text as list", base + "[cluster]\njoin = \"a:1\"\n", "f.toml:4: cluster.join: is text, not a list"},
		{"number in list", base + "[cluster]\njoin = [\"a:1\",\n 2]\n", "f.toml:5: cluster.join[1]: is a whole number, not text"},
		{"duration without unit", base + "drain = 30\n", "f.toml:3: gateway.drain: is a whole number, not a duration in quotes; write drain = \"30s\""},
		{"bad duration", base + "drain = \"soon\"\n", `f.toml:3: gateway.drain: "soon" is not a duration`},
		{"negative duration", base + "drain = \"-1s\"\n", "f.toml:3: gateway.drain: -1s is negative"},
		{"window of nothing", base + "window = \"0s\"\n", "f.toml:3: gateway.window: 0s is too short"},
		{"bad size", base + "max_body = \"20 apples\"\n", "f.toml:3: gateway.max_body: 20 apples is not a size; write max_body = \"20MiB\""},
		{"memory for less than a body", base + "max_body_memory = \"1MiB\"\n", "f.toml:3: gateway.max_body_memory: is less than max_body"},
		{"no origin", base + "cors_origins = [\"https://a.example/\"]\n", "f.toml:3: gateway.cors_origins[0]: https://a.example/ is not an origin"},
		{"pattern of origins", base + "cors_origins = [\"https://*.example\"]\n", "f.toml:3: gateway.cors_origins[0]: https://*.example is not an origin"},
		{"size of nothing", base + "max_body = 0\n", "f.toml:3: gateway.max_body: 0 is not a size"},
		{"truth as text", base + "open_metrics = \"yes\"\n", "f.toml:3: gateway.open_metrics: is text, not true or false"},
		{"bad word", base + "[log]\nlevel = \"loud\"\n", `f.toml:4: log.level: unknown value "loud"; use debug | info | warn | error`},
		{"empty text", base + "listen = \"\"\n", "f.toml:3: gateway.listen: is empty"},
		{"bad address", base + "listen = \"4000\"\n", `f.toml:3: gateway.listen: "4000" is not an address; write host:port`},
		{"bad join address", base + "[cluster]\njoin = [\"node1\"]\n", `f.toml:4: cluster.join[0]: "node1" is not an address`},
		{"share over 1", base + "[priority_reservation]\nprod = 90\n", "f.toml:4: priority_reservation.prod: 90 is out of range; use a number from 0 to 1"},
		{"share of what is not limited", base + model + "tpm = 10\n[priority_reservation]\nprod = 0.5\n\"a b\" = {type = \"rpm\", value = 1}\n", `f.toml:9: priority_reservation."a b": is given in rpm, but model m has no rpm; set it there`},
		{"alias of nothing", base + "[aliases]\n\"x y\" = \"nope\"\n", `f.toml:4: aliases."x y": no model serves "nope"; name a model that exists`},
		{"no provider key", base + "[[models]]\nname = \"m\"\nprovider = \"openai\"\n", "f.toml:3: models[0].api_key: openai needs a key; write api_key"},
		{"bad base", base + model + "api_base = \"localhost\"\n", "f.toml:6: models[0].api_base: it is not an http or https URL"},
		{"share NaN", base + "[priority_reservation]\nprod = nan\n", "f.toml:4: priority_reservation.prod: NaN is not a number"},
		{"share negative", base + "[priority_reservation]\nprod = -0.5\n", "f.toml:4: priority_reservation.prod: -0.5 is negative"},
		{"share infinite", base + "[priority_reservation]\nprod = {type = \"rpm\", value = inf}\n", "f.toml:4: priority_reservation.prod.value: +Inf is out of range"},
		{"share text", base + "[priority_reservation]\nprod = \"90%\"\n", `f.toml:4: priority_reservation.prod: is text, not a number; write prod = 0.9, or prod = {type = "rpm", value = 9}`},
		{"azure without a base", base + "[[models]]\nname = \"m\"\nprovider = \"azure\"\n", `f.toml:3: models[0].api_base: azure needs it; write api_base = "https://NAME.openai.azure.com"`},
		{"share type", base + "[priority_reservation]\nprod = {type = \"tokens\", value = 1}\n", `f.toml:4: priority_reservation.prod.type: unknown value "tokens"`},
		{"share without value", base + "[priority_reservation]\nprod = {type = \"rpm\"}\n", "f.toml:4: priority_reservation.prod.value: the reservation has no value"},
		{"threshold", base + "[priority_reservation_settings]\nsaturation_threshold = 1.5\n", "f.toml:4: priority_reservation_settings.saturation_threshold: 1.5 is out of range"},
		{"no deployment", base + "[[models]]\nname = \"m\"\n", "f.toml:3: models[0]: the model has no deployment"},
		{"no name", base + "[[models]]\nprovider = \"mock\"\n", "f.toml:3: models[0].name: the name is empty"},
		{"inline and listed", base + model + "[[models.deployments]]\nprovider = \"mock\"\n", "f.toml:5: models[0].provider: a model has either one deployment inline or a list of them"},
		{"variable not set", "[gateway]\nmaster_key = \"os.environ/NOPE\"\n", "f.toml:2: gateway.master_key: environment variable NOPE is not set; set NOPE"},
		{"variable empty", "[gateway]\nmaster_key = \"os.environ/EMPTY\"\n", "f.toml:2: gateway.master_key: environment variable EMPTY is empty"},
		{"variable blank", "[gateway]\nmaster_key = \"os.environ/BLANK\"\n", "f.toml:2: gateway.master_key: environment variable BLANK is blank"},
		{"variable of two lines", "[gateway]\nmaster_key = \"os.environ/LINES\"\n", "f.toml:2: gateway.master_key: environment variable LINES has more than one line"},
		{"variable with blanks", "[gateway]\nmaster_key = \"os.environ/TRAILING\"\n", "f.toml:2: gateway.master_key: environment variable TRAILING begins or ends"},
		{"variable with control", "[gateway]\nmaster_key = \"os.environ/BELL\"\n", "f.toml:2: gateway.master_key: environment variable BELL holds a control"},
		{"variable with a placeholder", "[gateway]\nmaster_key = \"os.environ/TEMPLATE\"\n", "f.toml:2: gateway.master_key: environment variable TEMPLATE holds a reference that nothing has replaced; set TEMPLATE"},
		{"variable with a pod's placeholder", base + model + "api_key = \"os.environ/KUBE\"\n", "f.toml:6: models[0].api_key: environment variable KUBE holds a reference"},
		{"variable with a reference", "[gateway]\nmaster_key = \"os.environ/REFERENCE\"\n", "f.toml:2: gateway.master_key: environment variable REFERENCE holds a reference"},
		{"master key with a blank", "[gateway]\nmaster_key = \"os.environ/INNER\"\n", "f.toml:2: gateway.master_key: the value of os.environ/INNER cannot be sent as a key; use at most 4096 visible ASCII"},
		{"master key of other letters", "[gateway]\nmaster_key = \"os.environ/FOREIGN\"\n", "f.toml:2: gateway.master_key: the value of os.environ/FOREIGN cannot be sent as a key"},
		{"nobody can dial it", base + "[cluster]\nlisten = \"0.0.0.0:4100\"\nsecret = \"os.environ/SECRET\"\n", "f.toml:3: cluster.advertise: other nodes cannot dial 0.0.0.0:4100; set it to this node's own host name"},
		{"node id", base + "[cluster]\nnode_id = \"../n1\"\n", "f.toml:4: cluster.node_id: \"../n1\" is not a node id; use 1 to 64 letters"},
		{"address with a blank", base + "[cluster]\njoin = [\" a:1\"]\n", "f.toml:4: cluster.join[0]: \" a:1\" is not an address"},
		{"empty text in list", base + "[cluster]\njoin = [\"\"]\n", "f.toml:4: cluster.join[0]: is empty; write"},
		{"weight", base + "[[models]]\nname = \"m\"\nprovider = \"mock\"\nweight = 1000001\n", "f.toml:6: models[0].weight: 1000001 is out of range; use a whole number from 0 to 1000000"},
		{"rate of shares", base + "[priority_reservation]\nprod = {type = \"rpm\", value = -1}\n", "f.toml:4: priority_reservation.prod.value: -1 is negative; use a number from 0 to 9007199254740992"},
		{"invisible name", base + "[[models]]\nname = \"a\\tb\"\nprovider = \"mock\"\n", "f.toml:4: models[0].name: the name holds the invisible character U+0009"},
		{"provider key not set", base + model + "api_key = \"os.environ/NOPE\"\n", "f.toml:6: models[0].api_key: environment variable NOPE is not set"},
		{"base not set", base + model + "api_base = \"os.environ/NOPE\"\n", "f.toml:6: models[0].api_base: environment variable NOPE is not set"},
		{"cluster secret", base + "[cluster]\nlisten = \"10.0.0.1:4100\"\n", "f.toml:3: cluster.secret: cluster.listen is 10.0.0.1:4100, which others can reach"},
		{"alone beside others", base + "[cluster]\njoin = [\"127.0.0.1:4100\", \"a:1\"]\nbootstrap_expect = 1\n", "f.toml:5: cluster.bootstrap_expect: 1 would give this node a cluster of its own"},
		{"replica of nobody", base + "[cluster]\nvoter = false\n", "f.toml:4: cluster.voter: a node without a vote needs others"},
		{"half a certificate", base + "[cluster]\ncert_file = \"a\"\n", "f.toml:4: cluster.cert_file: cert_file, key_file and ca_file belong together"},
		{"anthropic without a key", base + "[[models]]\nname = \"m\"\nprovider = \"anthropic\"\n", `f.toml:3: models[0].api_key: anthropic needs a key; write api_key = "os.environ/ANTHROPIC_API_KEY"`},
		{"token accounting", base + "[limits]\ntoken_accounting = \"guessed\"\n", `f.toml:4: limits.token_accounting: unknown value "guessed"; use recorded | reserve`},
		{"oversize", base + "[limits]\noversize = \"cut\"\n", `f.toml:4: limits.oversize: unknown value "cut"; use reject | alone`},
		{"allocation", base + "[limits]\nallocation = \"fair\"\n", `f.toml:4: limits.allocation: unknown value "fair"; use saturation | work_conserving`},
		{"held back", base + "[limits]\nhold_back = 1.5\n", "f.toml:4: limits.hold_back: 1.5 is out of range; use a number from 0 to 1"},
		{"never active", base + "[limits]\nactive_window = \"0s\"\n", "f.toml:4: limits.active_window: 0s is too short; use at least 1ms"},
		{"active for ever", base + "[limits]\nactive_window = \"24h\"\n", "f.toml:4: limits.active_window: 24h0m0s is not above 0 and at most 1h0m0s; use a duration such as"},
		{"no attempt", base + "[upstream]\nmax_attempts = 0\n", "f.toml:4: upstream.max_attempts: 0 is out of range; use a whole number from 1 to 100"},
		{"retry budget", base + "[upstream]\nretry_budget = 10\n", "f.toml:4: upstream.retry_budget: 10 is out of range; use a number from 0 to 1"},
		{"jitter", base + "[upstream]\njitter = \"some\"\n", `f.toml:4: upstream.jitter: unknown value "some"; use full | equal | decorrelated | none`},
		{"delays", base + "[upstream]\nmax_delay = \"50ms\"\n", "f.toml:3: upstream.min_delay: 100ms is above upstream.max_delay, which is 50ms; use less than max_delay"},
		{"fallback to itself", base + "[aliases]\nfast = \"m\"\n[[models]]\nname = \"m\"\nprovider = \"mock\"\nfallbacks = [\"fast\"]\n", "f.toml:8: models[0].fallbacks[0]: the model falls back to itself; name another model"},
		{"fallback to nothing", base + "[[models]]\nname = \"m\"\nprovider = \"mock\"\ncontext_window_fallbacks = [\"long\"]\n", `f.toml:6: models[0].context_window_fallbacks[0]: no model serves "long"; name a model or an alias that exists`},
		{"default fallback to nothing", base + "[upstream]\ndefault_fallbacks = [\"long\"]\n", `f.toml:4: upstream.default_fallbacks[0]: no model serves "long"; name a model or an alias that exists`},
		{"fallback twice", base + "[[models]]\nname = \"m\"\nprovider = \"mock\"\nfallbacks = [\"x/1\", \"x/1\"]\n[[models]]\nname = \"x/*\"\nprovider = \"mock\"\n", `f.toml:6: models[0].fallbacks[1]: "x/1" is there twice; name every model once`},
		{"six fallbacks", base + "[[models]]\nname = \"m\"\nprovider = \"mock\"\ncontent_policy_fallbacks = [\"x/1\", \"x/2\", \"x/3\", \"x/4\", \"x/5\", \"x/6\"]\n[[models]]\nname = \"x/*\"\nprovider = \"mock\"\n", "f.toml:6: models[0].content_policy_fallbacks: 6 are more than the 5 that a request may try; leave the last ones out"},
		{"order", base + "[[models]]\nname = \"m\"\nprovider = \"mock\"\norder = -1\n", "f.toml:6: models[0].order: -1 is negative; use a whole number from 0 to 1000000"},
		{"queue", base + "[upstream.queue]\nmax_depth = 6\n", "f.toml:3: upstream.queue: is not supported by this version yet; remove it"},
		{"groups", base + "[[upstream.groups]]\nname = \"a\"\n", "f.toml:3: upstream.groups: is not supported by this version yet; remove it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, ps := Parse("f.toml", []byte(c.doc), Options{Lookup: environment(testVars)})
			ps = append(ps, f.Check()...)
			if !slices.ContainsFunc(ps, func(p Problem) bool { return strings.HasPrefix(p.String(), c.want) }) {
				t.Errorf("want a problem that begins\n  %s\ngot\n  %v", c.want, ps)
			}
			if c.name != "repeated table" && c.name != "single brackets" && len(ps) != 1 {
				t.Errorf("want that one problem, got\n%v", ps)
			}
			for _, p := range ps {
				if p.Remedy == "" && !strings.Contains(p.Problem, "; ") {
					t.Errorf("no remedy in %q", p)
				}
			}
		})
	}
}

func TestEveryLaterKeyIsRefused(t *testing.T) {
	for entry := range later {
		path, value, ok := strings.Cut(entry, "=")
		if !ok {
			value = "1"
		} else {
			value = fmt.Sprintf("%q", value)
		}
		table, key := path[:strings.LastIndex(path, ".")], lastKey(path)
		header := map[string]string{
			"models[]": "[[models]]", "models[].deployments[]": "[[models]]\n[[models.deployments]]",
		}[table]
		if header == "" {
			header = "[" + table + "]"
		}
		_, ps := Parse("f.toml", []byte(header+"\n"+key+" = "+value+"\n"), Options{})
		if !strings.Contains(ps.Error(), "is not supported by this version yet; remove it") {
			t.Errorf("%s is not refused: %v", entry, ps)
		}
	}
}

func TestAllProblemsAreReportedAtOnceInOrder(t *testing.T) {
	_, ps := Parse("f.toml", []byte("[gateway]\nlisten = 1\nlisten = 2\nlisten = 3\ndrain = \"x\"\n[[models]]\nname = \"m\"\nprovider = \"mock\"\nrpm = -1\ntpm = \"a\"\n[nope]\n"),
		Options{Lookup: environment(testVars)})
	var at []int
	for _, p := range ps {
		at = append(at, p.Line)
	}
	if want := []int{2, 3, 4, 5, 9, 10, 11}; !reflect.DeepEqual(at, want) {
		t.Errorf("problems on lines %v, want %v:\n%v", at, want, ps)
	}
}

func TestWhatOnlyTheWholeShowsStandsInItsPlace(t *testing.T) {
	f, ps := Parse("f.toml", []byte(base+"listen = \"4000\"\ndrain = \"x\"\n"), Options{Lookup: environment(testVars)})
	lines := strings.Split(append(ps, f.Check()...).Err().Error(), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "f.toml:3: gateway.listen") || !strings.HasPrefix(lines[1], "f.toml:4: gateway.drain") {
		t.Errorf("not in the order of the file: %q", lines)
	}
}

func TestRenderMeansTheSame(t *testing.T) {
	f := parse(t, base+`
window = "90s"
[aliases]
"a b" = "m\"\\"
[cluster]
join = ["a:1"]
bootstrap_expect = 2
[[models]]
name = "m\"\\"
tpm = 0
provider = "mock"
mock_response = "tab\tü"
[[models]]
name = "two"
[[models.deployments]]
id = "x"
provider = "mock"
weight = 0
[[models.deployments]]
id = "y"
provider = "mock"
rpm = 7
[priority_reservation]
"p q" = 0.123456789
"r" = {value = 0}
`)
	again := parse(t, f.Render())
	f.lines, again.lines = nil, nil
	if !reflect.DeepEqual(f, again) {
		t.Errorf("rendered\n%s\nwhich means\n%+v\nnot\n%+v", f.Render(), again, f)
	}
}

func TestReadReportsTheFile(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.toml")
	if err := os.WriteFile(big, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "none.toml"), dir, big} {
		_, ps := Read(path, Options{})
		if len(ps) != 1 || !strings.HasPrefix(ps.Error(), path+": ") || strings.Count(ps.Error(), path) != 1 {
			t.Errorf("%s: %v", path, ps)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "2B": 2, "3 KiB": 3072, "1kb": 1000, "20MiB": 20 << 20, "1GB": 1e9} {
		if got, ok := parseSize(text); !ok || got != want {
			t.Errorf("%s is %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "B", "1.5MiB", "-1", "1TiB", "9223372036854775807GiB", "1 1"} {
		if got, ok := parseSize(text); ok {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
	for _, n := range []int64{1, 1023, 1024, 20 << 20, 3 << 30, math.MaxInt64 / 2} {
		if got, ok := parseSize(formatSize(n)); !ok || got != n {
			t.Errorf("%d is written %s", n, formatSize(n))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("")
	f.Add(base + "[[models]]\nname='m'\nprovider='mock'\nrpm=1\n[priority_reservation]\na={type='rpm',value=1}\n")
	f.Add("[gateway]\nlisten=1\nlisten=2\n[cluster]\njoin=['a']\n[[models.deployments]]\n")
	f.Add("models=[{name='a',deployments=[{}]},3]\naliases={a='b',b='a'}\nlimits=1\nupstream.queue.x=nan")
	f.Fuzz(func(t *testing.T, doc string) {
		file, ps := Parse("f.toml", []byte(doc), Options{Lookup: environment(testVars)})
		if file == nil {
			t.Fatal("no file")
		}
		all := append(ps, file.Check()...)
		for _, p := range all {
			if p.Problem == "" || p.Line < 0 || p.Line > strings.Count(doc, "\n")+1 {
				t.Errorf("odd problem %#v", p)
			}
		}
		if len(all) > 0 {
			return
		}
		if _, again := Parse("f.toml", []byte(file.Render()), Options{Lookup: environment(testVars)}); len(again) > 0 {
			t.Errorf("the rendered file has problems: %v\n%s", again, file.Render())
		}
	})
}
