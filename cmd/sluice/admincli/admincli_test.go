package admincli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"sluice/admin"
	"sluice/admin/admintest"
	"sluice/fsm"
	"sluice/limiter"
)

func TestAKeysLife(t *testing.T) {
	r := newRig(t)
	r.ok("team", "new", "--id", "t1")
	out, stderr, err := r.run("key", "generate", "--priority", "prod", "--team", "t1", "--alias", "alice", "--models", "my-fake-model,fast",
		"--rpm", "0", "--tpm", "1000", "--max-parallel", "4", "--duration", "30d", "--metadata", "owner=al=ice", "--model-rpm", "openai/gpt=5")
	if err != nil {
		t.Fatal(err)
	}
	secret, hash := value(t, out, "key"), value(t, out, "hash")
	if !strings.Contains(stderr, "cannot be shown again") || strings.Contains(stderr, secret) {
		t.Errorf("stderr %q", stderr)
	}
	want := `
hash          ` + hash + `
name          sk-...` + secret[len(secret)-4:] + `
alias         alice
team          t1
user          -
priority      prod
models        my-fake-model,fast
rpm           0 (blocked)
tpm           1000
max parallel  4
state         active
expires       2026-11-01 12:00:00 UTC
created       2026-10-02 12:00:00 UTC
metadata      {"model_rpm_limit":{"openai/gpt":5},"owner":"al=ice"}`
	equal(t, r.ok("key", "info", secret), want)
	equal(t, r.ok("key", "info", hash), want)

	r.ok("key", "update", hash, "--rpm", "none", "--tpm", "null", "--duration", "none", "--priority", "dev", "--team", "none", "--models", "none")
	equal(t, r.ok("key", "list"), `
ALIAS  NAME        TEAM  PRIORITY  RPM   TPM   PARALLEL  MODELS  STATE   EXPIRES  HASH
alice  sk-...`+secret[len(secret)-4:]+`  -     dev       none  none  4         all     active  never    `+hash)
	if k, _ := r.state.View().Key(hash); k.Metadata["owner"] != "al=ice" || k.ModelRPM["openai/gpt"].String() != "5" {
		t.Errorf("an update of the priority lost %+v", k)
	}
	r.ok("key", "update", hash, "--priority", "none")
	if k, _ := r.state.View().Key(hash); k.Priority() != "" || k.Metadata["owner"] != "al=ice" {
		t.Errorf("%+v", k)
	}
	if out := r.ok("key", "block", secret); value(t, out, "state") != "blocked" {
		t.Error(out)
	}
	if out := r.ok("key", "unblock", secret); value(t, out, "state") != "active" {
		t.Error(out)
	}
	fresh := value(t, r.ok("key", "regenerate", secret), "key")
	if fresh == secret {
		t.Error("the secret is the same")
	}
	if out := r.ok("key", "delete", fresh); strings.Contains(out, fresh) {
		t.Error(out)
	}
	if _, _, err := r.run("key", "info", fresh); ExitCode(err) != 1 || err.Error() != "Key not found in database (404)" {
		t.Errorf("%v", err)
	}
}

func TestJSONIsTheStructsThatTablesShow(t *testing.T) {
	r := newRig(t)
	var created admin.KeyCreated
	decode(t, r.ok("key", "generate", "-o", "json", "--alias", "a<b"), &created)
	if created.Key == "" || *created.KeyAlias != "a<b" {
		t.Errorf("%+v", created)
	}
	out := r.ok("-o", "json", "key", "info", created.Key)
	var info admin.KeyInfoAnswer
	decode(t, out, &info)
	if info.Key != created.Token || strings.Contains(out, created.Key) || !strings.Contains(out, "a<b") {
		t.Errorf("%s", out)
	}
	var rows []admin.KeyRow
	decode(t, r.ok("key", "list", "-o", "json", "--team", "none-such"), &rows)
	if rows == nil || len(rows) != 0 {
		t.Errorf("%v", rows)
	}
	for _, args := range []string{"team list", "priority list", "model list", "limits", "cluster status", "cluster join-token", "config show", "config history"} {
		var any any
		decode(t, r.ok(append(strings.Fields(args), "-o", "json")...), &any)
	}
}

func decode(t *testing.T, out string, v any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
}

func TestATeamsLife(t *testing.T) {
	r := newRig(t)
	equal(t, r.ok("team", "new", "--id", "t1", "--alias", "search", "--priority", "prod", "--rpm", "9"), `
id            t1
alias         search
priority      prod
models        all
rpm           9
tpm           none
max parallel  none
state         active
created       2026-10-02 12:00:00 UTC
metadata      -`)
	r.ok("key", "generate", "--team", "t1", "--alias", "k")
	r.ok("team", "update", "t1", "--rpm", "none", "--metadata", "x=1")
	r.ok("team", "block", "t1")
	equal(t, r.ok("team", "list"), `
ALIAS   ID  PRIORITY  RPM   TPM   PARALLEL  MODELS  STATE    KEYS
search  t1  prod      none  none  none      all     blocked  1`)
	if out := r.ok("team", "info", "t1"); !strings.Contains(out, `{"x":"1"}`) || !strings.Contains(out, "\nk ") {
		t.Error(out)
	}
	r.ok("team", "unblock", "t1")
	equal(t, r.ok("team", "delete", "t1"), "DELETED\nt1")
	if r.state.View().KeyCount() != 0 {
		t.Error("its key is still there")
	}
}

func TestPrioritiesModelsAndLimits(t *testing.T) {
	r := newRig(t)
	equal(t, r.ok("priority", "set", "batch", "5%"), `
batch has 5.0% (configuration version 2, applied).
Warning: models my-fake-model, gpt-5.6-luna: priority_reservation adds up to 1.05; every share is divided by that`)
	equal(t, r.ok("priority", "unset", "batch"), "batch has no share of its own (configuration version 3, applied).")
	equal(t, r.ok("priority", "list"), `
PRIORITY      SHARE
dev           10.0%
prod          90.0%
(all others)  25.0%

Shares are enforced from a saturation of 50.0% on.`)
	equal(t, r.ok("model", "list"), `
MODEL          RPM   TPM   DEPLOYMENT  UPSTREAM                WEIGHT  BASE
my-fake-model  none  60    fake-1      mock/my-fake-model      1       -
gpt-5.6-luna   10    1000  luna-1      openai_compatible/luna  1       https://llm.example/v1`)
	admintest.Count(t, r.store, "n1", limiter.Ticket{Model: "gpt-5.6-luna", Priority: "dev"}, 528)
	equal(t, r.ok("limits", "fast"), `
MODEL         PRIORITY  SHARE  RPM   TPM       SATURATION  THRESHOLD  MODE    RESETS IN
gpt-5.6-luna  (all)     -      1/10  528/1000  52.8%       50.0%      strict  1m0s
gpt-5.6-luna  dev       10.0%  1/1   528/100   -           -          -       -
gpt-5.6-luna  prod      90.0%  0/9   0/900     -           -          -       -
gpt-5.6-luna  (others)  25.0%  0/2   0/250     -           -          -       -

Limits are held: exact`)
}

func TestWatchShowsUntilInterrupted(t *testing.T) {
	r := newRig(t)
	for _, args := range [][]string{{"limits", "--watch", "--interval", "100ms"}, {"limits", "-w", "--interval", "100ms", "-o", "json"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		r.interrupt = func(out string) {
			if strings.Count(out, "exact") == 3 {
				cancel()
			}
		}
		out, _, err := r.runContext(ctx, args...)
		if n := strings.Count(out, "exact"); err != nil || n != 3 || ctx.Err() != context.Canceled {
			t.Errorf("%v: shown %d times, %v\n%s", args, n, err, out)
		}
	}
	r.env[envServer] = "http://127.0.0.1:1"
	if _, _, err := r.run("limits", "--watch"); ExitCode(err) != 1 {
		t.Errorf("%v", err)
	}
}

func TestClusterCommands(t *testing.T) {
	r := newRig(t)
	equal(t, r.ok("cluster", "status"), `
asked node  n1 (follower, 0.1.0)
cluster     c-1
leader      n2 (host2:4100)
term        3
log         last 121, committed 120, applied 120
limits      exact

NODE  ADDRESS     ROLE     REACHABLE  APPLIED  VERSION
n1    host1:4100  voter    yes        120      0.1.0
n2    host2:4100  leader   yes        120      0.1.0
n3    host3:4100  replica  no         -        -`)
	out := r.ok("cluster", "join-token")
	if !strings.Contains(out, "--join host1:4100,host2:4100,host3:4100\n") || !strings.Contains(out, "cluster.secret") || strings.Contains(out, masterKey) {
		t.Error(out)
	}
	if strings.Contains(out, "loopback") {
		t.Error(out)
	}
	for addr, want := range map[string]bool{"127.0.0.1:4100": true, "[::1]:4100": true, "localhost:4100": true, "10.0.0.1:4100": false} {
		needs := newJoinToken(&admin.ClusterStatus{Nodes: []admin.NodeState{{Address: addr}}}).Needs
		if got := strings.Contains(strings.Join(needs, "\n"), "loopback"); got != want {
			t.Errorf("%s: %q", addr, needs)
		}
	}
	equal(t, r.ok("cluster", "remove", "n3"), "n3 is no longer a member.")
	equal(t, r.ok("cluster", "transfer"), "Another node leads now.")
	equal(t, r.ok("cluster", "transfer", "n1"), "n1 leads now.")
}

func TestConfigCommands(t *testing.T) {
	r := newRig(t)
	equal(t, r.ok("config", "show"), `
version                       1
window                        1m0s
limits.on_no_quorum           share
limits.lease_ttl              500ms
limits.allocation             saturation
limits.hold_back              0
limits.active_window          10s
limits.token_accounting       recorded
limits.oversize               reject
limits.token_rate_limit_type  total
limits.count_cached_tokens    true
upstream timeouts             connect 5s, first byte 2m0s, idle 1m0s

MODEL          RPM   TPM   DEPLOYMENTS
my-fake-model  none  60    1
gpt-5.6-luna   10    1000  1

ALIAS  STANDS FOR
fast   gpt-5.6-luna

PRIORITY      SHARE
dev           10.0%
prod          90.0%
(all others)  25.0%`)
	r.load = func(path string) (fsm.Config, error) {
		if path != "dir/new.toml" {
			return fsm.Config{}, errors.New("sluice.toml:3: models.rpm: unknown key\nsluice.toml:9: another")
		}
		return fsm.Config{Models: admintest.Config().Models[:1]}, nil
	}
	equal(t, r.ok("config", "apply", "dir/new.toml"), "Configuration version 2, applied.")
	equal(t, r.ok("config", "rollback", "1"), "Configuration version 3, applied.")
	equal(t, r.ok("config", "history"), `
VERSION  APPLIED                  SOURCE                 CURRENT
3        2026-10-02 12:00:00 UTC  rollback to version 1  yes
2        2026-10-02 12:00:00 UTC  new.toml               no
1        2026-10-02 12:00:00 UTC  test.toml              no`)
	if _, _, err := r.run("config", "apply", "bad.toml"); ExitCode(err) != 2 || !strings.Contains(err.Error(), "another") {
		t.Errorf("%v", err)
	}
}

func TestWrongUsageEndsWith2(t *testing.T) {
	r := newRig(t)
	for _, args := range []string{"", "key", "kye", "key lsit", "key info", "key info a b", "key delete", "key update", "key update K", "key generate x", "key generate --rpm -1",
		"key generate --rpm 1.5", "key generate --rpm x", "key generate --duration 1y", "key generate --metadata x", "key generate --model-rpm x",
		"key generate --no-such-flag", "priority set a", "priority set a 2", "priority set a x", "config rollback x", "limits a b", "limits --watch --interval 1ms",
		"limits -o yaml", "limits --timeout 0s", "limits --server localhost", "team", "team update T", "cluster", "config", "model"} {
		_, _, err := r.run(strings.Fields(args)...)
		if ExitCode(err) != 2 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %d, %v", args, ExitCode(err), err)
		}
	}
	delete(r.env, envMasterKey)
	if _, _, err := r.run("limits"); ExitCode(err) != 2 || !strings.Contains(err.Error(), envMasterKey) {
		t.Errorf("no master key: %v", err)
	}
	if r.state.View().KeyCount() != 0 {
		t.Error("a key was created")
	}
}

func TestFailedRequestsEndWith1AndSayWhatToDo(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct{ args, want string }{
		{"key info sk-not-there-1", "Key not found"},
		{"key generate --team none-such", "Create it with /team/new first"},
		{"team info none-such", "Team not found"},
		{"limits none-such", "Invalid model name"},
		{"priority unset none-such", "sluice admin priority list"},
		{"config rollback 77", "sluice admin config history"},
		{"limits --master-key sk-wrong-key-1", "check --master-key or SLUICE_MASTER_KEY"},
		{"limits --server http://127.0.0.1:1", "check that sluice runs there"},
		{"cluster remove n1", "its log says why"},
	} {
		out, _, err := r.run(strings.Fields(tt.args)...)
		if ExitCode(err) != 1 || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "sk-") || out != "" {
			t.Errorf("%s: %d, %v, %q", tt.args, ExitCode(err), err, out)
		}
	}
}

func TestHelpHidesTheMasterKey(t *testing.T) {
	r := newRig(t)
	out := r.ok("key", "generate", "--help")
	if strings.Contains(out, masterKey) || !strings.Contains(out, "--priority") || !strings.Contains(out, "--server") {
		t.Error(out)
	}
}

func TestCellsCannotSteerTheTerminal(t *testing.T) {
	var out bytes.Buffer
	o := &globalOptions{output: "table"}
	if err := o.print(&out, nil, func(p *printer) { p.row("a\x1b[31mb\tc\nd\u009be", "") }); err != nil || out.String() != "a?[31mb?c?d?e  -\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
