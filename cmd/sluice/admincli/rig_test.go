package admincli

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/admin"
	"sluice/admin/admintest"
	"sluice/fsm"
)

const masterKey = "sk-master-0123456789abcdef"

var start = time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC)

// rig is a server with a real state machine, and the process that the commands run in.
type rig struct {
	t     *testing.T
	state *fsm.State
	log   *admintest.Log
	store *fsm.Client
	url   string
	env   map[string]string
	now   time.Time
	load  func(string) (fsm.Config, error)
	// interrupt, if not nil, sees the output so far after every write.
	interrupt func(out string)
}

// watched is an output that somebody looks at.
type watched struct {
	bytes.Buffer
	look func(string)
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if w.look != nil {
		w.look(w.String())
	}
	return n, err
}

// fixedCluster is a cluster of two nodes.
type fixedCluster struct{}

func (fixedCluster) Status(context.Context) admin.ClusterStatus {
	applied, version := uint64(120), "0.1.0"
	return admin.ClusterStatus{NodeID: "n1", ClusterID: "c-1", Version: version, State: "follower", Term: 3, Leader: &admin.NodeRef{ID: "n2", Address: "host2:4100"},
		LastLogIndex: 121, CommitIndex: 120, AppliedIndex: 120, Nodes: []admin.NodeState{
			{ID: "n1", Address: "host1:4100", Voter: true, Reachable: true, AppliedIndex: &applied, Version: &version},
			{ID: "n2", Address: "host2:4100", Voter: true, Leader: true, Reachable: true, AppliedIndex: &applied, Version: &version},
			{ID: "n3", Address: "host3:4100"}}}
}

func (fixedCluster) Remove(_ context.Context, id string) error {
	if id != "n3" {
		return errors.New("test: cannot")
	}
	return nil
}

func (fixedCluster) Transfer(context.Context, string) error { return nil }

var _ admin.Cluster = fixedCluster{}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, now: start, load: func(string) (fsm.Config, error) { return admintest.Config(), nil }}
	now := func() time.Time { return r.now }
	r.state, r.log, r.store = admintest.Open(t, now)
	h, err := admin.New(admin.Options{Store: r.store, State: r.state, Cluster: fixedCluster{}, MasterKey: masterKey, NodeID: "n1", Now: now,
		Ready: func() admin.Readiness { return admin.Readiness{Ready: true} },
		Authenticate: func(req *http.Request) (admin.Caller, error) {
			if req.Header.Get("Authorization") != "Bearer "+masterKey {
				return admin.Caller{}, errors.New("unknown key")
			}
			return admin.Caller{Master: true}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	r.url = srv.URL
	r.env = map[string]string{envServer: srv.URL, envMasterKey: masterKey}
	if _, err := r.store.ApplyConfig(t.Context(), admintest.Config(), "test.toml", fsm.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return r
}

// run runs `admin args…` as the process would.
func (r *rig) run(args ...string) (stdout, stderr string, err error) {
	r.t.Helper()
	return r.runContext(r.t.Context(), args...)
}

func (r *rig) runContext(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	r.t.Helper()
	out, errOut := watched{look: r.interrupt}, bytes.Buffer{}
	cmd := New(Env{Getenv: func(name string) string { return r.env[name] }, LoadConfig: func(path string) (fsm.Config, error) { return r.load(path) },
		Now: func() time.Time { return r.now }})
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	err = cmd.ExecuteContext(ctx)
	return out.String(), errOut.String(), err
}

// ok runs a command that must succeed and returns its output.
func (r *rig) ok(args ...string) string {
	r.t.Helper()
	out, _, err := r.run(args...)
	if err != nil {
		r.t.Fatalf("%v: %v", args, err)
	}
	return out
}

// value returns what a line of a table says after its label.
func value(t *testing.T, table, label string) string {
	t.Helper()
	for line := range strings.Lines(table) {
		if rest, ok := strings.CutPrefix(line, label+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	t.Fatalf("no %q in\n%s", label, table)
	return ""
}

// equal compares tables without the blanks at the ends of lines.
func equal(t *testing.T, got, want string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(got) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	if trimmed := strings.Join(lines, "\n"); trimmed != strings.Trim(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", trimmed, want)
	}
}
