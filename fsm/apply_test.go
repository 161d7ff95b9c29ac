package fsm

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"sluice/limiter"
)

func TestEntryThatMustNotBeSkippedStopsTheStateMachine(t *testing.T) {
	good := command{kind: cmdRegister, payload: []byte(`{"node":"n","nonce":"x"}`)}
	for _, tc := range []struct {
		name string
		data []byte
	}{
		{"empty", nil},
		{"noise", []byte("this is not an entry at all")},
		{"entry of another version", append([]byte{2}, appendEntry(0, 0, good.encode())[1:]...)},
		{"impossible time", appendEntry(-1, 0, good.encode())},
		{"command of another version", appendEntry(0, 0, append([]byte{9}, good.encode()[1:]...))},
		{"unknown flag", appendEntry(0, 0, []byte{1, 0x80, byte(cmdRegister), 0})},
		{"ends in its key", appendEntry(0, 0, []byte{1, 0, byte(cmdRegister), 9, 'a'})},
		{"unknown type", appendEntry(0, 0, command{kind: 200}.encode())},
		{"unknown field", appendEntry(0, 0, command{kind: cmdRegister, payload: []byte(`{"node":"n","zone":"eu"}`)}.encode())},
		{"no JSON", appendEntry(0, 0, command{kind: cmdCreateKey, payload: []byte(`{`)}.encode())},
		{"two values", appendEntry(0, 0, command{kind: cmdRegister, payload: []byte(`{} {}`)}.encode())},
		{"damaged batch", appendEntry(0, 0, command{kind: cmdBatch, payload: []byte{9}}.encode())},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var calls atomic.Int32
			fatal := make(chan error, 2)
			o := newTestTime().options()
			o.OnFatal = func(err error) { calls.Add(1); fatal <- err }
			s := openState(t, o)
			r := rigFor(t, s, newTestTime())
			mustKey(t, r.Client, testKey("before"))
			before := s.Digest()
			wait := make(chan error, 1)
			go func() { wait <- s.WaitApplied(context.Background(), 3) }()

			answers := []any{
				s.Apply(&raft.Log{Index: 2, Data: tc.data}),
				s.Apply(&raft.Log{Index: 3, Data: appendEntry(0, 0, good.encode())}),
			}
			for i, a := range answers {
				_, err := decodeAnswer(a.([]byte))
				if !errors.Is(err, ErrStopped) {
					t.Errorf("answer %d is %v", i, err)
				}
			}
			if err := <-fatal; !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "index 2") {
				t.Errorf("fatal error is %v", err)
			}
			wantErr(t, <-wait, ErrStopped)
			if s.AppliedIndex() != 1 || s.Digest() != before {
				t.Error("something was applied")
			}
			_, err := s.Snapshot()
			wantErr(t, err, ErrStopped)
			if n := calls.Load(); n != 1 {
				t.Errorf("OnFatal was called %d times", n)
			}
		})
	}
}

func TestUnknownIgnorableCommandIsSkippedByAllAlike(t *testing.T) {
	r := newRig(t)
	r.time.pass(time.Second)
	answer, index, err := r.log.Apply(t.Context(), command{kind: 200, ignorable: true, payload: []byte("?")}.encode())
	if err != nil {
		t.Fatal(err)
	}
	_, err = decodeAnswer(answer)
	wantErr(t, err, errSkipped)
	if r.s.AppliedIndex() != index || r.s.position.Now != limiter.Time(time.Second) {
		t.Error("index and time do not move on")
	}
	mustKey(t, r.Client, testKey("after"))
	wantSameDigest(t, replay(t, r.log.entries), r.s)
}

func TestEntriesThatTheStateHoldsAlreadyAreSkipped(t *testing.T) {
	r := newRig(t)
	mustKey(t, r.Client, testKey("a"))
	mustKey(t, r.Client, testKey("b"))
	before := r.s.Digest()
	a, ok := r.s.Apply(r.log.entries[0]).([]byte)
	if !ok {
		t.Fatal("answer is not bytes")
	}
	_, err := decodeAnswer(a)
	wantErr(t, err, errReplayed)
	if r.s.Digest() != before || r.s.AppliedIndex() != 2 {
		t.Error("the state changed")
	}
}

func TestBusinessRefusalsOfTheLedgerReachTheGate(t *testing.T) {
	r := newRig(t)
	a := r.Applier("n1", "x")
	_, err := a.ApplyBatch(t.Context(), &limiter.Batch{Node: "n1", Epoch: 1, Seq: 1})
	wantErr(t, err, limiter.ErrOldEpoch)
	epoch, err := a.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := a.Register(t.Context()); err != nil || again != epoch {
		t.Errorf("the same run got epoch %d after %d, %v", again, epoch, err)
	}
	for _, seq := range []uint64{5, 4} {
		_, err = a.ApplyBatch(t.Context(), &limiter.Batch{Node: "n1", Epoch: epoch, Seq: seq})
	}
	wantErr(t, err, limiter.ErrOldBatch)
}

func TestWaitAppliedReturnsWhenTheEntryIsThere(t *testing.T) {
	r := newRig(t)
	var wg sync.WaitGroup
	for i := range uint64(20) {
		wg.Go(func() {
			if err := r.s.WaitApplied(t.Context(), i+1); err != nil {
				t.Errorf("wait for %d: %v", i+1, err)
			}
			if got := r.s.View().Index(); got < i+1 {
				t.Errorf("view is of %d after waiting for %d", got, i+1)
			}
		})
	}
	for i := range 20 {
		mustKey(t, r.Client, testKey(nth(i)))
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, r.s.WaitApplied(ctx, 99), context.Canceled)
}

func TestWaitAppliedEndsWithTheState(t *testing.T) {
	s := openState(t, Options{})
	done := make(chan error, 1)
	go func() { done <- s.WaitApplied(context.Background(), 1) }()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, <-done, ErrClosed)
}

type failingLog struct{ err error }

func (l failingLog) Apply(context.Context, []byte) ([]byte, uint64, error) { return nil, 0, l.err }

func TestErrorsOfTheReplicatorPassThrough(t *testing.T) {
	lost := errors.New("leadership lost")
	c := NewClient(failingLog{lost}, openState(t, Options{}))
	_, err := c.CreateKey(t.Context(), testKey("a"), WriteOptions{})
	wantErr(t, err, lost)
	_, err = c.Applier("n", "x").ApplyBatch(t.Context(), &limiter.Batch{})
	wantErr(t, err, lost)
	_, err = c.Applier("n", "x").Register(t.Context())
	wantErr(t, err, lost)
}

// TestReadersSeeConsistentViewsDuringApplies reads without locks while keys,
// teams, configuration and counters change. The race detector watches.
func TestReadersSeeConsistentViewsDuringApplies(t *testing.T) {
	r := newRig(t)
	mustConfig(t, r.Client, testConfig(mockModel("a", 10, -1)))
	g := newGateNode(t, r, "n1")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { readViews(t, r.s, stop) })
	}
	for i := range 150 {
		team := Team{ID: nth(i)}
		mustTeam(t, r.Client, team)
		k := testKey(nth(i))
		k.TeamID, k.Alias, k.RPM = team.ID, nth(i), limiter.Of(int64(i))
		mustKey(t, r.Client, k)
		g.admit(t, limiter.Ticket{Model: "a", Key: k.ID, Team: team.ID})
		if i%3 == 0 {
			mustConfig(t, r.Client, testConfig(mockModel("a", int64(i), -1)))
			takeSnapshot(t, r.s)
		}
		if i%2 == 0 {
			if _, err := r.DeleteTeams(t.Context(), []string{team.ID}, WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
}

func readViews(t *testing.T, s *State, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		v := s.View()
		for k := range v.Keys {
			if _, ok := v.Team(k.TeamID); !ok {
				t.Errorf("key %s is without its team", k.Alias)
			}
			if got, ok := v.KeyByAlias(k.Alias); !ok || got != k {
				t.Errorf("alias %s leads elsewhere", k.Alias)
			}
		}
		if h := v.ConfigHistory(); h[len(h)-1].Version != v.ConfigVersion() {
			t.Errorf("history ends at %d, version is %d", h[len(h)-1].Version, v.ConfigVersion())
		}
		s.Limits("")
		s.Prepare(nil)
	}
}
