package admin_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/admin"
	"sluice/admin/admintest"
	"sluice/limiter"
)

func TestLimitsShowWindowsAndPools(t *testing.T) {
	r := newRig(t)
	lapsed := `{"limits":"exact","upstream":[],"models":[{"model":"gpt-5.6-luna","window_seconds":60,"window_started_at":null,"resets_at":null,
		"rpm":{"limit":10,"used":0},"tpm":{"limit":1000,"used":0},"saturation":0,"threshold":0.5,"mode":"generous",
		"pools":[{"priority":"dev","share":0.1,"rpm":{"limit":1,"used":0},"tpm":{"limit":100,"used":0}},
		{"priority":"prod","share":0.9,"rpm":{"limit":9,"used":0},"tpm":{"limit":900,"used":0}},
		{"priority":null,"share":0.25,"rpm":{"limit":2,"used":0},"tpm":{"limit":250,"used":0}}]}]}`
	p := r.send("GET", "/limits?model=gpt-5.6-luna", "")
	if !sameJSON(t, p.body, lapsed) {
		t.Errorf("lapsed: %s", p.body)
	}
	admintest.Count(t, r.store, "n1", limiter.Ticket{Model: "gpt-5.6-luna", Priority: "prod"}, 600)
	m := r.ok("GET", "/limits?model=fast", "")["models"].([]any)[0].(map[string]any) // by its alias
	started, _ := m["window_started_at"].(string)
	resets, _ := m["resets_at"].(string)
	if started != "2026-10-02T12:00:00.123456Z" || resets != "2026-10-02T12:01:00.123456Z" {
		t.Errorf("from %s to %s", started, resets)
	}
	if m["mode"] != "strict" || m["saturation"] != 0.6 || m["tpm"].(map[string]any)["used"] != 600.0 || m["rpm"].(map[string]any)["used"] != 1.0 {
		t.Errorf("%v", m)
	}
	if pool := m["pools"].([]any)[1].(map[string]any); pool["tpm"].(map[string]any)["used"] != 600.0 {
		t.Errorf("%v", pool)
	}
	r.now = r.now.Add(45 * time.Second)
	if m := r.ok("GET", "/limits?model=fast", "")["models"].([]any)[0].(map[string]any); m["window_started_at"] != started || m["resets_at"] != resets {
		t.Errorf("the window moved: %v", m)
	}
	r.now = r.now.Add(15 * time.Second)
	if p := r.send("GET", "/limits?model=gpt-5.6-luna", ""); !sameJSON(t, p.body, lapsed) {
		t.Errorf("lapsed: %s", p.body)
	}
	all := r.ok("GET", "/limits", "")["models"].([]any)
	if len(all) != 2 {
		t.Errorf("%v", all)
	}
	fake := r.ok("GET", "/limits?model=my-fake-model", "")["models"].([]any)[0].(map[string]any)
	if limit, ok := fake["rpm"].(map[string]any)["limit"]; !ok || limit != nil {
		t.Errorf("no rpm limit is shown as %v", limit)
	}
	if p := r.send("GET", "/limits?model=none", ""); p.status != 404 || !strings.Contains(p.body, "Invalid model name passed in model=none") {
		t.Errorf("%d %s", p.status, p.body)
	}
}

func TestClusterStatusHasTheDocumentedShape(t *testing.T) {
	r := newRig(t)
	applied, version := uint64(120), "0.1.0"
	r.nodes.status = admin.ClusterStatus{NodeID: "n1", ClusterID: "c", Version: "0.1.0", State: "follower", Term: 3,
		Leader: &admin.NodeRef{ID: "n2", Address: "127.0.0.1:4101"}, LastLogIndex: 120, CommitIndex: 120, AppliedIndex: 120,
		Nodes: []admin.NodeState{{ID: "n1", Address: "127.0.0.1:4100", Voter: true, Reachable: true, AppliedIndex: &applied, Version: &version}}}
	p := r.send("GET", "/cluster/status", "")
	if !sameJSON(t, p.body, `{"node_id":"n1","cluster_id":"c","version":"0.1.0","state":"follower","term":3,"leader":{"id":"n2","address":"127.0.0.1:4101"},
		"last_log_index":120,"commit_index":120,"applied_index":120,"limits":"exact",
		"nodes":[{"id":"n1","address":"127.0.0.1:4100","voter":true,"leader":false,"reachable":true,"applied_index":120,"version":"0.1.0"}]}`) {
		t.Errorf("%s", p.body)
	}
	r.nodes.status = admin.ClusterStatus{}
	if got := r.ok("GET", "/cluster/status", ""); got["leader"] != nil || len(got["nodes"].([]any)) != 0 {
		t.Errorf("%v", got)
	}
}

// A read may wait for the leader first; a window's times are counted from the
// moment at which the window was looked at.
func TestTimesOfAWindowAreNotThoseOfTheQuestion(t *testing.T) {
	var r *rig
	wait := time.Duration(0)
	r = newRig(t, func(o *admin.Options) {
		o.Refresh = func(context.Context) error { r.now = r.now.Add(wait); return nil }
	})
	shown := func() any {
		return r.ok("GET", "/limits?model=fast", "")["models"].([]any)[0].(map[string]any)["window_started_at"]
	}
	admintest.Count(t, r.store, "n1", limiter.Ticket{Model: "gpt-5.6-luna"}, 30)
	started := shown()
	wait = 700 * time.Millisecond
	if got := shown(); got != started || started == nil {
		t.Errorf("the window began at %v, and at %v when the leader took %s to answer", started, got, wait)
	}
}

func TestADigestIsShownToWhoAsksForIt(t *testing.T) {
	r := newRig(t)
	if got := r.ok("GET", "/cluster/status", ""); got["digest"] != nil {
		t.Errorf("nobody asked: %v", got["digest"])
	}
	got, _ := r.ok("GET", "/cluster/status?digest=1", "")["digest"].(map[string]any)
	if index, sum := r.state.DigestAt(); got["sha256"] != sum || got["applied_index"] != float64(index) || len(sum) != 64 {
		t.Errorf("%v, the state has %s at %d", got, sum, index)
	}
}

func TestNodesAreRemovedAndLeadershipHandedOver(t *testing.T) {
	r := newRig(t)
	r.ok("POST", "/cluster/remove", `{"node":"n3"}`)
	r.ok("POST", "/cluster/transfer", `{"node":"n2"}`)
	r.ok("POST", "/cluster/transfer", ``)
	if want := []string{"remove n3", "transfer n2", "transfer "}; !slices.Equal(r.nodes.calls, want) {
		t.Errorf("%q", r.nodes.calls)
	}
	for err, status := range map[error]int{errNotMember: 404, errLastVoter: 409, errNotVoter: 409, errNoMajority: 409, errNotTransferred: 503, errNoLeader: 503, errUnknown: 503} {
		r.nodes.err = err
		for _, path := range []string{"/cluster/remove", "/cluster/transfer"} {
			if p := r.send("POST", path, `{"node":"n9"}`); p.status != status {
				t.Errorf("%s %v: %d %s", path, err, p.status, p.body)
			}
		}
	}
	if p := r.send("POST", "/cluster/remove", `{}`); p.status != 422 {
		t.Errorf("%d %s", p.status, p.body)
	}
}

func TestHealthIsOpen(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/health/liveliness", "/health/liveness"} {
		if p := r.raw("GET", path, "", ""); p.status != 200 || p.body != "\"I'm alive!\"\n" || p.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %q", path, p.status, p.body)
		}
	}
	for _, tt := range []struct {
		ready  admin.Readiness
		status int
		body   string
	}{
		{admin.Readiness{Ready: true}, 200, `{"status":"healthy","db":"connected","degraded":false,"reasons":[],"limits":"exact"}`},
		{admin.Readiness{Ready: true, Degraded: true, Reasons: []string{"no leader"}}, 200, `{"status":"healthy","db":"connected","degraded":true,"reasons":["no leader"],"limits":"exact"}`},
		{admin.Readiness{Reasons: []string{"draining"}}, 503, `{"status":"unhealthy","db":"Not connected","degraded":false,"reasons":["draining"],"limits":"exact"}`},
	} {
		r.ready = tt.ready
		if p := r.raw("GET", "/health/readiness", "", ""); p.status != tt.status || !sameJSON(t, p.body, tt.body) {
			t.Errorf("%+v: %d %s", tt.ready, p.status, p.body)
		}
	}
}

func TestMetricsAreOpenOnlyOnRequest(t *testing.T) {
	closed, open := newRig(t), newRig(t, func(o *admin.Options) { o.OpenMetrics = true })
	if p := closed.raw("GET", "/metrics", "", ""); p.status != 401 {
		t.Errorf("closed: %d", p.status)
	}
	if p := closed.raw("GET", "/metrics", masterKey, ""); p.status != 200 || p.body != "sluice_up 1\n" {
		t.Errorf("master: %d %s", p.status, p.body)
	}
	if p := open.raw("GET", "/metrics", "", ""); p.status != 200 {
		t.Errorf("open: %d", p.status)
	}
	if p := newRig(t, func(o *admin.Options) { o.Metrics = nil }).send("GET", "/metrics", ""); p.status != 404 {
		t.Errorf("none: %d", p.status)
	}
}
