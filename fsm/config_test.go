package fsm

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/limiter"
)

func propose(t testing.TB, c *Client, cfg Config) ConfigResult {
	t.Helper()
	out, err := c.ProposeConfig(t.Context(), cfg, "file")
	if err != nil {
		t.Fatalf("propose: %v", err)
	}
	return out
}

func TestNodeWithoutClusterWideSettingsTakesWhatTheClusterHas(t *testing.T) {
	r := newRig(t)
	if got, err := r.ProposeInitialConfig(t.Context(), DefaultConfig(), "first node"); err != nil || got.Version != 1 {
		t.Fatalf("an empty cluster: %+v, %v", got, err)
	}
	propose(t, r.Client, testConfig(mockModel("a", 1, 1)))
	other := DefaultConfig()
	other.Window = 2 * time.Minute
	if got, err := r.ProposeInitialConfig(t.Context(), other, "another node"); err != nil || got != (ConfigResult{2, StatusUnchanged}) {
		t.Errorf("a configured cluster: %+v, %v; want it unchanged", got, err)
	}
	if _, ok := r.s.View().Config().Resolve("a"); !ok {
		t.Error("the cluster's model is gone")
	}
}

func TestProposalIsNewUnchangedOrStale(t *testing.T) {
	r := newRig(t)
	a, b := testConfig(mockModel("a", 10, -1)), testConfig(mockModel("a", 60, -1))
	for i, step := range []struct {
		cfg  Config
		want ConfigResult
	}{
		{a, ConfigResult{1, StatusApplied}},
		{a, ConfigResult{1, StatusUnchanged}},
		{b, ConfigResult{2, StatusApplied}},
		{a, ConfigResult{2, StatusStale}},
		{b, ConfigResult{2, StatusUnchanged}},
	} {
		if got := propose(t, r.Client, step.cfg); got != step.want {
			t.Fatalf("step %d: %+v, want %+v", i, got, step.want)
		}
	}
	if got := r.s.View().Model0(t).RPM; got != limiter.Of(60) {
		t.Errorf("a stale file changed rpm to %v", got)
	}
	if got := mustConfig(t, r.Client, a); got != (ConfigResult{3, StatusApplied}) {
		t.Errorf("an explicit apply gave %+v", got)
	}
	if got := mustConfig(t, r.Client, a); got != (ConfigResult{4, StatusApplied}) {
		t.Errorf("an explicit apply of the same gave %+v", got)
	}
}

// Model0 returns the first configured model.
func (v *View) Model0(t testing.TB) *Model {
	t.Helper()
	return &v.Config().Models[0]
}

func TestAnEmptyProposalIsAVersionToo(t *testing.T) {
	r := newRig(t)
	if got := r.s.View(); got.ConfigVersion() != 0 || got.Config() == nil || got.Config().Window != DefaultWindow {
		t.Fatalf("at first the version is %d", got.ConfigVersion())
	}
	if got := propose(t, r.Client, DefaultConfig()); got != (ConfigResult{1, StatusApplied}) {
		t.Errorf("got %+v", got)
	}
}

func TestRollbackBringsBackAnEarlierVersionAsANewOne(t *testing.T) {
	r := newRig(t)
	propose(t, r.Client, testConfig(mockModel("a", 10, -1)))
	propose(t, r.Client, testConfig(mockModel("a", 60, -1)))
	got, err := r.RollbackConfig(t.Context(), 1, WriteOptions{})
	if err != nil || got != (ConfigResult{3, StatusApplied}) {
		t.Fatalf("%+v, %v", got, err)
	}
	h := r.s.View().ConfigHistory()
	if len(h) != 3 || h[2].Hash != h[0].Hash || h[2].Source != "rollback to version 1" || !h[2].AppliedAt.Equal(r.time.now()) {
		t.Errorf("history is %s", mustJSON(t, h))
	}
	if rpm := r.s.View().Model0(t).RPM; rpm != limiter.Of(10) {
		t.Errorf("rpm is %v", rpm)
	}
	_, err = r.RollbackConfig(t.Context(), 99, WriteOptions{})
	wantErr(t, err, ErrNotFound)
}

func TestHistoryIsBoundedAndStaleContentIsRememberedLonger(t *testing.T) {
	r := newRig(t)
	first := testConfig(mockModel("a", 0, -1))
	propose(t, r.Client, first)
	for i := range int64(maxHistory + 20) {
		propose(t, r.Client, testConfig(mockModel("a", i+1, -1)))
	}
	v := r.s.View()
	h := v.ConfigHistory()
	if len(h) != maxHistory || h[len(h)-1].Version != v.ConfigVersion() || v.ConfigVersion() != maxHistory+21 {
		t.Fatalf("history holds %d, newest %d of %d", len(h), h[len(h)-1].Version, v.ConfigVersion())
	}
	if got := propose(t, r.Client, first); got.Status != StatusStale {
		t.Errorf("content beyond the history is %s", got.Status)
	}
}

func TestSharesAreSetAndUnsetAsVersions(t *testing.T) {
	r := newRig(t)
	file := testConfig(mockModel("a", 10, -1))
	propose(t, r.Client, file)
	got, err := r.SetShare(t.Context(), "prod", limiter.Share{Kind: limiter.SharePercent, Value: 0.9}, WriteOptions{})
	if err != nil || got != (ConfigResult{2, StatusApplied}) {
		t.Fatalf("%+v, %v", got, err)
	}
	if p := r.s.View().Policy().Model("a").Pool("prod"); p == nil || p.Limits.Requests != limiter.Of(9) {
		t.Errorf("pool is %+v", p)
	}
	if got := propose(t, r.Client, file); got.Status != StatusStale {
		t.Errorf("the file before the change is %s", got.Status)
	}
	for _, tc := range []struct {
		name, priority string
		share          limiter.Share
	}{
		{"over 1", "dev", limiter.Share{Kind: limiter.SharePercent, Value: 90}},
		{"unknown kind", "dev", limiter.Share{Kind: "x", Value: 1}},
		{"tpm where no model has one", "dev", limiter.Share{Kind: limiter.ShareTPM, Value: 1}},
		{"no name", "", limiter.Share{Kind: limiter.SharePercent, Value: 0.1}},
		{"invisible name", "a\u200b", limiter.Share{Kind: limiter.SharePercent, Value: 0.1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := r.SetShare(t.Context(), tc.priority, tc.share, WriteOptions{})
			var bad *InvalidError
			if !errors.As(err, &bad) || r.s.View().ConfigVersion() != 2 {
				t.Errorf("error is %v, version %d", err, r.s.View().ConfigVersion())
			}
		})
	}
	if _, err = r.UnsetShare(t.Context(), "prod", WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if p := r.s.View().Policy().Model("a"); p.Pools != nil {
		t.Errorf("pools are %+v", p.Pools)
	}
	_, err = r.UnsetShare(t.Context(), "prod", WriteOptions{})
	wantErr(t, err, ErrNotFound)
}

func TestInvalidConfigurationChangesNothingAndSaysEverything(t *testing.T) {
	r := newRig(t)
	mustConfig(t, r.Client, testConfig(mockModel("a", 10, -1)))
	bad := testConfig(mockModel("a", 10, -1), mockModel("a", 10, -1), Model{Name: "b"})
	_, err := r.ApplyConfig(t.Context(), bad, "test", WriteOptions{})
	var problems *InvalidConfigError
	if !errors.As(err, &problems) || len(problems.Problems) != 3 {
		t.Fatalf("error is %v", err)
	}
	if v := r.s.View(); v.ConfigVersion() != 1 || len(v.Config().Models) != 1 {
		t.Error("it was applied")
	}
}

func TestStateMachineRefusesAnInvalidConfigurationByItself(t *testing.T) {
	r := newRig(t)
	cmd := command{kind: cmdApplyConfig, payload: []byte(`{"config":{"window_ns":-1,"models":null,"priority_reservation":{"default_priority":0,"saturation_threshold":0},"saturation_check_cache_ttl":0,"limits":{"on_no_quorum":"","token_accounting":"","allocation":"","token_rate_limit_type":"","count_cached_tokens":false},"upstream":{"connect_timeout_ns":0,"first_byte_timeout_ns":0,"idle_timeout_ns":0}}}`)}
	answer, _, err := r.log.Apply(t.Context(), cmd.encode())
	if err != nil {
		t.Fatal(err)
	}
	_, err = decodeAnswer(answer)
	var problems *InvalidConfigError
	if !errors.As(err, &problems) {
		t.Fatalf("answer is %v", err)
	}
	if r.s.View().ConfigVersion() != 0 {
		t.Error("it was applied")
	}
}

func TestCountersSurviveConfigurationChanges(t *testing.T) {
	r := newRig(t)
	mustConfig(t, r.Client, testConfig(mockModel("a", 10, -1)))
	g := newGateNode(t, r, "n1")
	for range 6 {
		if !g.admit(t, limiter.Ticket{Model: "a"}) {
			t.Fatal("refused below the limit")
		}
	}
	mustConfig(t, r.Client, testConfig(mockModel("a", 7, -1)))
	if !g.admit(t, limiter.Ticket{Model: "a"}) || g.admit(t, limiter.Ticket{Model: "a"}) {
		t.Error("the new limit does not hold from the next request on")
	}
	mustConfig(t, r.Client, testConfig(mockModel("a", 8, -1)))
	if !g.admit(t, limiter.Ticket{Model: "a"}) || g.admit(t, limiter.Ticket{Model: "a"}) {
		t.Error("a raised limit gives exactly what was added")
	}
	if got := r.s.Limits("a"); len(got) != 1 || got[0].Used.Requests != 8 {
		t.Errorf("used is %+v", got)
	}
}

func TestALongerWindowDoesNotReviveWindowsThatAreOver(t *testing.T) {
	r := newRig(t)
	cfg := testConfig(mockModel("a", 10, -1))
	cfg.Window = time.Minute
	mustConfig(t, r.Client, cfg)
	g := newGateNode(t, r, "n1")
	g.admit(t, limiter.Ticket{Model: "a"})
	r.time.pass(70 * time.Second)
	restored := openState(t, r.time.options())
	mustConfig(t, r.Client, cfg) // moves the time on without a batch
	if err := restore(restored, takeSnapshot(t, r.s)); err != nil {
		t.Fatal(err)
	}
	n := len(r.log.entries)
	cfg.Window = 2 * time.Minute
	mustConfig(t, r.Client, cfg)
	g.admit(t, limiter.Ticket{Model: "a"})
	feed(restored, r.log.entries[n:])
	wantSameDigest(t, restored, r.s)
	if got := r.s.Limits("a")[0].Used.Requests; got != 1 {
		t.Errorf("used is %d", got)
	}
}

// gateNode stands for a node's Gate.
type gateNode struct {
	applier limiter.Applier
	batch   limiter.Batch
}

func newGateNode(t testing.TB, r *rig, node string) *gateNode {
	t.Helper()
	g := &gateNode{applier: r.Applier(node, "nonce-"+node)}
	epoch, err := g.applier.Register(t.Context())
	if err != nil {
		t.Fatalf("register: %v", err)
	}
	g.batch = limiter.Batch{Node: node, Epoch: epoch}
	return g
}

func (g *gateNode) send(t testing.TB, settles []limiter.Settle, reserves ...limiter.Ticket) *limiter.Answer {
	t.Helper()
	g.batch.Seq++
	g.batch.Settles, g.batch.Reserves = settles, reserves
	a, err := g.applier.ApplyBatch(t.Context(), &g.batch)
	if err != nil {
		t.Fatalf("apply batch: %v", err)
	}
	return a
}

func (g *gateNode) admit(t testing.TB, ticket limiter.Ticket) bool {
	t.Helper()
	return g.send(t, nil, ticket).Decisions[0].Admitted
}

func TestLimitsShowEveryConfiguredModel(t *testing.T) {
	r := newRig(t)
	mustConfig(t, r.Client, testConfig(mockModel("b", 10, -1), mockModel("a", -1, 5)))
	got := r.s.Limits("")
	if len(got) != 2 || got[0].Model != "b" || got[1].Model != "a" || got[1].Limits.Tokens != limiter.Of(5) {
		t.Errorf("limits are %s", fmt.Sprint(got))
	}
}
