package fsm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"sluice/limiter"
)

// testTime drives a state's two clocks apart from each other.
type testTime struct {
	mu   sync.Mutex
	wall time.Time
	mono time.Duration
}

func newTestTime() *testTime {
	return &testTime{wall: time.Date(2026, 10, 5, 12, 0, 0, 0, time.UTC)}
}

// pass lets time go by as it does for everybody.
func (c *testTime) pass(d time.Duration) { c.step(d); c.mu.Lock(); c.mono += d; c.mu.Unlock() }

// step sets the wall clock.
func (c *testTime) step(d time.Duration) { c.mu.Lock(); c.wall = c.wall.Add(d); c.mu.Unlock() }

func (c *testTime) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.wall }

func (c *testTime) elapsed() time.Duration { c.mu.Lock(); defer c.mu.Unlock(); return c.mono }

func (c *testTime) options() Options { return Options{Now: c.now, Mono: c.elapsed} }

// memLog is a log that applies to one state and keeps the entries.
type memLog struct {
	s       *State
	mu      sync.Mutex
	entries []*raft.Log
}

func (l *memLog) Apply(_ context.Context, cmd []byte) ([]byte, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	index := l.s.AppliedIndex() + 1
	answer, ok := l.apply(index, l.s.Prepare(cmd)).([]byte)
	if !ok {
		return nil, 0, errors.New("answer is not bytes")
	}
	return answer, index, nil
}

func (l *memLog) apply(index uint64, data []byte) any {
	e := &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: data}
	l.entries = append(l.entries, e)
	return l.s.Apply(e)
}

// rig is a state with a client and the log between them.
type rig struct {
	*Client
	s    *State
	log  *memLog
	time *testTime
}

func newRig(t testing.TB) *rig {
	t.Helper()
	c := newTestTime()
	return rigFor(t, openState(t, c.options()), c)
}

func rigFor(t testing.TB, s *State, c *testTime) *rig {
	t.Helper()
	log := &memLog{s: s}
	return &rig{Client: NewClient(log, s), s: s, log: log, time: c}
}

func openState(t testing.TB, o Options) *State {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// replay applies entries to a fresh state in memory.
func replay(t testing.TB, entries []*raft.Log) *State {
	t.Helper()
	s := openState(t, newTestTime().options())
	feed(s, entries)
	return s
}

func feed(s *State, entries []*raft.Log) {
	for _, e := range entries {
		s.Apply(e)
	}
}

func wantSameDigest(t testing.TB, got, want *State) {
	t.Helper()
	if got.AppliedIndex() != want.AppliedIndex() {
		t.Fatalf("applied index is %d, want %d", got.AppliedIndex(), want.AppliedIndex())
	}
	if got.Digest() != want.Digest() {
		t.Fatalf("digests differ at index %d\n%s\n%s", got.AppliedIndex(), dump(got), dump(want))
	}
}

func dump(s *State) string {
	var b bytes.Buffer
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := writeSnapshot(&b, s.capture()); err != nil {
		return err.Error()
	}
	return b.String()
}

// sink collects a snapshot in memory; it fails after limit bytes if limit > 0.
type sink struct {
	bytes.Buffer
	limit     int
	cancelled bool
	closed    bool
}

var errSink = errors.New("sink is full")

func (s *sink) Write(b []byte) (int, error) {
	if s.limit > 0 && s.Len()+len(b) > s.limit {
		return 0, errSink
	}
	return s.Buffer.Write(b)
}

func (s *sink) ID() string    { return "test" }
func (s *sink) Cancel() error { s.cancelled = true; return nil }
func (s *sink) Close() error  { s.closed = true; return nil }

func takeSnapshot(t testing.TB, s *State) []byte {
	t.Helper()
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	defer snap.Release()
	out := &sink{}
	if err := snap.Persist(out); err != nil || !out.closed {
		t.Fatalf("persist: %v (closed %v)", err, out.closed)
	}
	return out.Bytes()
}

func restore(s *State, b []byte) error { return s.Restore(io.NopCloser(bytes.NewReader(b))) }

func id(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func testKey(name string) Key { return Key{ID: id(name), Name: "sk-..." + name} }

func patchOf(t testing.TB, body string) Patch {
	t.Helper()
	var p Patch
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("patch %s: %v", body, err)
	}
	return p
}

func mustKey(t testing.TB, c *Client, k Key) *Key {
	t.Helper()
	out, err := c.CreateKey(t.Context(), k, WriteOptions{})
	if err != nil {
		t.Fatalf("create key: %v", err)
	}
	return out
}

func mustTeam(t testing.TB, c *Client, team Team) *Team {
	t.Helper()
	out, err := c.CreateTeam(t.Context(), team, WriteOptions{})
	if err != nil {
		t.Fatalf("create team: %v", err)
	}
	return out
}

func mustConfig(t testing.TB, c *Client, cfg Config) ConfigResult {
	t.Helper()
	out, err := c.ApplyConfig(t.Context(), cfg, "test", WriteOptions{})
	if err != nil {
		t.Fatalf("apply configuration: %v", err)
	}
	return out
}

func mockModel(name string, rpm, tpm int64) Model {
	m := Model{Name: name, Deployments: []Deployment{{Provider: ProviderMock}}}
	if rpm >= 0 {
		m.RPM = limiter.Of(rpm)
	}
	if tpm >= 0 {
		m.TPM = limiter.Of(tpm)
	}
	return m
}

func testConfig(models ...Model) Config {
	c := DefaultConfig()
	c.Models = models
	return c.Normalize()
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

func wantInvalid(t testing.TB, err error, field string) {
	t.Helper()
	var bad *InvalidError
	if !errors.As(err, &bad) || bad.Field != field {
		t.Fatalf("error is %v, want one about %s", err, field)
	}
}

// recorder is a logger that a test can read.
type recorder struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(b)
}
func (r *recorder) String() string       { r.mu.Lock(); defer r.mu.Unlock(); return r.b.String() }
func (r *recorder) logger() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

// eventually polls until ok, for at most five seconds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func nth(i int) string { return fmt.Sprintf("n%06d", i) }
