package fsm

import (
	"testing"
	"time"

	"sluice/limiter"
)

// used returns the requests of model a's window as it is now, and until when it runs.
func used(t testing.TB, r *rig) (requests int64, left time.Duration) {
	t.Helper()
	st := r.s.Limits("a")[0]
	return st.Used.Requests, st.ResetsIn
}

func TestRunningWindowsGoOnWhereTheyWere(t *testing.T) {
	for name, tt := range map[string]struct {
		ahead   time.Duration // of the old cluster's ledger clock to the new one's, about
		after   time.Duration // between backup and restore, by the wall clock
		clock   time.Duration // by which the new cluster's wall clock is wrong
		want    int64
		resetIn time.Duration
	}{
		"an older cluster":            {ahead: time.Hour, after: 10 * time.Second, want: 1, resetIn: 50 * time.Second},
		"a younger cluster":           {ahead: -time.Hour, after: 10 * time.Second, want: 1, resetIn: 50 * time.Second},
		"after the window":            {ahead: time.Hour, after: 61 * time.Second},
		"after a year":                {ahead: time.Hour, after: 365 * 24 * time.Hour},
		"wall clocks that go back":    {ahead: time.Hour, after: 10 * time.Second, clock: -time.Hour, want: 1, resetIn: time.Minute},
		"wall clocks that go forward": {ahead: time.Hour, after: 10 * time.Second, clock: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			old := newRig(t)
			old.time.mono += max(tt.ahead, 0)
			mustConfig(t, old.Client, testConfig(mockModel("a", 10, 100)))
			newGateNode(t, old, "n1").admit(t, limiter.Ticket{Model: "a"})
			b := parse(t, backupOf(t, old.s))

			r := fresh(t)
			r.time.mono += max(-tt.ahead, 0)
			r.time.step(old.time.now().Sub(r.time.now()))
			r.time.pass(tt.after)
			r.time.step(tt.clock)
			if _, err := r.Restore(t.Context(), b, WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			if n, left := used(t, r); n != tt.want || left != tt.resetIn {
				t.Errorf("%d requests used, window ends in %v", n, left)
			}
			wantSameDigest(t, replay(t, r.log.entries), r.s)
		})
	}
}

func TestWhatTheFreshClusterServedIsNotForgotten(t *testing.T) {
	old := newRig(t)
	mustConfig(t, old.Client, testConfig(mockModel("a", 10, 100)))
	gate := newGateNode(t, old, "n1")
	gate.admit(t, limiter.Ticket{Model: "a"})
	gate.admit(t, limiter.Ticket{Model: "a"})
	b := parse(t, backupOf(t, old.s))
	r := fresh(t, "a")
	r.time.pass(20 * time.Second)
	newGateNode(t, r, "n1").admit(t, limiter.Ticket{Model: "a"})
	if _, err := r.Restore(t.Context(), b, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if n, left := used(t, r); n != 3 || left != time.Minute {
		t.Errorf("%d requests used, window ends in %v", n, left)
	}
}

func TestARunningNodeRegistersAgain(t *testing.T) {
	old := filled(t)
	for i := range 5 { // the old cluster has given out more epochs
		if _, err := old.Applier("n1", nth(i)).Register(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b := parse(t, backupOf(t, old.s))
	r := fresh(t, "a")
	watcher := &forgetful{}
	r.s.o.Observer = func() Observer { return watcher }
	gate := newGateNode(t, r, "n1")
	stale := gate.batch.Epoch
	if _, err := r.Restore(t.Context(), b, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if watcher.forgotten != 1 {
		t.Error("the gate keeps its permits")
	}
	_, err := r.Applier("n1", "any").ApplyBatch(t.Context(), &limiter.Batch{Node: "n1", Epoch: stale, Seq: 9})
	wantErr(t, err, limiter.ErrOldEpoch)
	epoch, err := r.Applier("n1", "any").Register(t.Context())
	if err != nil || epoch <= 6 {
		t.Errorf("epoch %d, %v: it was somebody's in the old cluster", epoch, err)
	}
	if k, _ := r.s.View().KeyByAlias(nth(0)); k == nil {
		t.Fatal("no key")
	}
	// The old cluster's request in flight holds no slot here: both are free.
	gate = newGateNode(t, r, "n1")
	for range 2 {
		gate.admit(t, limiter.Ticket{Model: "a", Key: id(nth(0)), Team: "red", Priority: "prod"})
	}
}

// forgetful counts how often it was told to forget.
type forgetful struct{ forgotten int }

func (f *forgetful) Observe(limiter.Time, *limiter.Batch, *limiter.Answer, *limiter.Ledger, limiter.Policy) {
}
func (f *forgetful) Forget() { f.forgotten++ }

func TestAnswersOfTheOldClusterAreLeftBehind(t *testing.T) {
	old := filled(t) // created its keys with idempotency keys
	r := fresh(t)
	if _, err := r.Restore(t.Context(), parse(t, backupOf(t, old.s)), WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := r.CreateKey(t.Context(), testKey(nth(0)), WriteOptions{IdempotencyKey: nth(0)})
	wantErr(t, err, ErrExists)
}
