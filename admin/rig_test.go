package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/admin"
	"sluice/admin/admintest"
	"sluice/fsm"
)

const masterKey = "sk-master-0123456789abcdef"

// Errors that stand for those of the node package.
var (
	errNoLeader       = errors.New("test: no leader")
	errUnknown        = errors.New("test: outcome unknown")
	errNotMember      = errors.New("test: not a member")
	errLastVoter      = errors.New("test: last voter")
	errNotVoter       = errors.New("test: not a voter")
	errNotTransferred = errors.New("test: not transferred")
	errNoMajority     = errors.New("test: no majority")
)

func classify(err error) admin.Failure {
	for target, f := range map[error]admin.Failure{errNoLeader: admin.FailureNoLeader, errUnknown: admin.FailureOutcomeUnknown,
		errNotMember: admin.FailureNotMember, errLastVoter: admin.FailureLastVoter, errNotVoter: admin.FailureNotVoter, errNoMajority: admin.FailureNoMajority, errNotTransferred: admin.FailureNotTransferred} {
		if errors.Is(err, target) {
			return f
		}
	}
	return admin.FailureOther
}

// rig is an Admin before a real state machine. Whatever it answers is kept, and
// at the end of the test searched for secrets.
type rig struct {
	t     *testing.T
	state *fsm.State
	log   *admintest.Log
	store *fsm.Client
	admin *admin.Admin
	now   time.Time
	ready admin.Readiness
	stale error // what Refresh returns
	nodes cluster
	logs  *lockedBuffer

	mu      sync.Mutex
	secrets []string
	seen    []string // responses and what they must not hold is checked in Cleanup
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type cluster struct {
	status admin.ClusterStatus
	calls  []string
	err    error
}

func (c *cluster) Status(context.Context) admin.ClusterStatus { return c.status }
func (c *cluster) Remove(_ context.Context, id string) error {
	c.calls = append(c.calls, "remove "+id)
	return c.err
}
func (c *cluster) Transfer(_ context.Context, id string) error {
	c.calls = append(c.calls, "transfer "+id)
	return c.err
}

var _ admin.Cluster = (*cluster)(nil)

func newRig(t *testing.T, change ...func(*admin.Options)) *rig {
	t.Helper()
	r := &rig{t: t, now: time.Date(2026, 10, 2, 12, 0, 0, 123456000, time.UTC), ready: admin.Readiness{Ready: true}, logs: &lockedBuffer{}}
	r.state, r.log, r.store = admintest.Open(t, func() time.Time { return r.now })
	o := admin.Options{Store: r.store, State: r.state, Cluster: &r.nodes, Authenticate: r.authenticate,
		Ready: func() admin.Readiness { return r.ready }, Refresh: func(context.Context) error { return r.stale },
		Classify: classify, MasterKey: masterKey, NodeID: "n1", Now: func() time.Time { return r.now },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "sluice_up 1\n") }),
		Logger:  slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, f := range change {
		f(&o)
	}
	var err error
	if r.admin, err = admin.New(o); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.ApplyConfig(t.Context(), admintest.Config(), "test", fsm.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.noSecrets)
	return r
}

// authenticate knows the master key and every stored key.
func (r *rig) authenticate(req *http.Request) (admin.Caller, error) {
	key := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	switch {
	case key == masterKey:
		return admin.Caller{Master: true}, nil
	case key == "":
		return admin.Caller{}, &admin.Error{Status: 401, Type: "auth_error", Param: "None", Message: "Authentication Error, No api key passed in."}
	}
	if k, ok := r.state.View().Key(hash(key)); ok {
		return admin.Caller{KeyID: k.ID, TeamID: k.TeamID}, nil
	}
	return admin.Caller{}, errors.New("unknown key " + key)
}

// secret marks a value that no response may hold but that of its creation.
func (r *rig) secret(s string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, s)
	return s
}

func (r *rig) noSecrets() {
	for _, s := range append(r.secrets, masterKey) {
		for _, seen := range r.seen {
			if strings.Contains(seen, s) {
				r.t.Errorf("secret %s in response %s", s, seen)
			}
		}
		if strings.Contains(r.logs.String(), s) {
			r.t.Errorf("secret %s in log %s", s, r.logs)
		}
	}
}

type reply struct {
	status int
	header http.Header
	body   string
}

// json decodes the reply's object.
func (p reply) json(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(p.body), &m); err != nil {
		t.Fatalf("%s: %v", p.body, err)
	}
	return m
}

// errorOf returns message, type, param and code of OpenAI's envelope.
func (p reply) errorOf(t *testing.T) (message, kind string, param any, code string) {
	t.Helper()
	e, ok := p.json(t)["error"].(map[string]any)
	if !ok {
		t.Fatalf("no envelope in %d %s", p.status, p.body)
	}
	if got := slices.Sorted(maps.Keys(e)); !slices.Equal(got, []string{"code", "message", "param", "type"}) {
		t.Fatalf("envelope has %v", got)
	}
	message, _ = e["message"].(string)
	kind, _ = e["type"].(string)
	code, ok = e["code"].(string)
	if !ok || message == "" || kind == "" {
		t.Fatalf("envelope %s", p.body)
	}
	return message, kind, e["param"], code
}

// raw sends a request and keeps nothing.
func (r *rig) raw(method, path, key, body string, header ...string) reply {
	r.t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	r.admin.ServeHTTP(w, req)
	if w.Header().Get("X-Sluice-Node") != "n1" || w.Header().Get("X-Litellm-Call-Id") == "" {
		r.t.Errorf("%s %s: headers %v", method, path, w.Header())
	}
	return reply{w.Code, w.Header(), w.Body.String()}
}

// send sends a request with the master key; its response must hold no secret.
func (r *rig) send(method, path, body string, header ...string) reply {
	r.t.Helper()
	p := r.raw(method, path, masterKey, body, header...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, p.body)
	return p
}

// ok sends a request that must succeed.
func (r *rig) ok(method, path, body string, header ...string) map[string]any {
	r.t.Helper()
	p := r.send(method, path, body, header...)
	if p.status != 200 {
		r.t.Fatalf("%s %s %s: %d %s", method, path, body, p.status, p.body)
	}
	return p.json(r.t)
}

// generate creates a key and returns its secret and the answer.
func (r *rig) generate(body string, header ...string) (string, map[string]any) {
	r.t.Helper()
	p := r.raw("POST", "/key/generate", masterKey, body, header...)
	if p.status != 200 {
		r.t.Fatalf("generate %s: %d %s", body, p.status, p.body)
	}
	m := p.json(r.t)
	key, _ := m["key"].(string)
	return r.secret(key), m
}
