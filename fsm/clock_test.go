package fsm

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"sluice/limiter"
)

func near(t testing.TB, what string, got limiter.Time, want time.Duration) {
	t.Helper()
	if time.Duration(got) != want {
		t.Errorf("%s is %v, want %v", what, time.Duration(got), want)
	}
}

func TestWallClockStepsChangeNothingWhileRunning(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			r := newRig(t)
			mustConfig(t, r.Client, testConfig(mockModel("a", 1, -1)))
			g := newGateNode(t, r, "n1")
			if !g.admit(t, limiter.Ticket{Model: "a"}) {
				t.Fatal("refused in an empty window")
			}
			r.time.step(step)
			near(t, "clock", r.s.ClockNow(), 0)
			r.time.pass(59 * time.Second)
			if g.admit(t, limiter.Ticket{Model: "a"}) {
				t.Error("the step freed the window")
			}
			r.time.pass(time.Second)
			if !g.admit(t, limiter.Ticket{Model: "a"}) {
				t.Error("the step locked the window")
			}
		})
	}
}

func TestClockRunsOnUnderConstantLoad(t *testing.T) {
	r := newRig(t)
	for range 100 {
		data := r.s.Prepare(command{kind: cmdRegister, payload: []byte(`{"node":"n","nonce":"x"}`)}.encode())
		r.time.pass(10 * time.Millisecond) // the commit
		r.log.apply(r.s.AppliedIndex()+1, data)
	}
	near(t, "clock after a second of back-to-back commits", r.s.ClockNow(), time.Second)
}

// Nodes that form a cluster were not started at one moment. If one that waited
// long kept its own count, windows would end early as soon as it led.
func TestANodeThatWaitedForOthersTakesTheClusterClock(t *testing.T) {
	cmd := command{kind: cmdRegister, payload: []byte(`{"node":"n","nonce":"x"}`)}.encode()
	r := newRig(t)
	r.time.pass(time.Hour)
	r.log.apply(1, appendEntry(limiter.Time(time.Second), 1, cmd))
	near(t, "clock after the first entry of another's", r.s.ClockNow(), time.Second)
	r.time.pass(time.Minute)
	r.log.apply(2, appendEntry(limiter.Time(2*time.Second), 1, cmd))
	near(t, "clock that is only raised from then on", r.s.ClockNow(), time.Minute+time.Second)

	from, fresh := newRig(t), newRig(t)
	from.log.apply(1, appendEntry(limiter.Time(time.Second), 1, cmd))
	fresh.time.pass(time.Hour)
	if err := restore(fresh.s, takeSnapshot(t, from.s)); err != nil {
		t.Fatal(err)
	}
	near(t, "clock after another's snapshot", fresh.s.ClockNow(), time.Second)
}

func TestStampsNeverGoBack(t *testing.T) {
	r := newRig(t)
	cmd := command{kind: cmdRegister, payload: []byte(`{"node":"n","nonce":"x"}`)}.encode()
	r.log.apply(1, appendEntry(limiter.Time(time.Minute), 0, cmd))
	r.log.apply(2, appendEntry(limiter.Time(time.Second), 0, cmd))
	near(t, "time of the state", r.s.position.Now, time.Minute)
	r.time.pass(time.Second)
	e, err := decodeEntry(r.s.Prepare(cmd))
	if err != nil {
		t.Fatal(err)
	}
	near(t, "stamp of the next entry", e.stamp, time.Minute+time.Second)
	if e.wall != r.time.now().UnixNano() {
		t.Error("wall time is not the leader's")
	}
}

func TestSeedRaisesAndNeverLowers(t *testing.T) {
	r := newRig(t)
	if r.s.ClockLive() {
		t.Error("a clock that nobody set is live")
	}
	r.s.SeedClock(limiter.Time(time.Hour))
	near(t, "clock", r.s.ClockNow(), time.Hour)
	r.s.SeedClock(limiter.Time(time.Minute))
	near(t, "clock", r.s.ClockNow(), time.Hour)
	if !r.s.ClockLive() {
		t.Error("a seeded clock is not live")
	}
}

// stopped returns what a state machine leaves behind whose last entry was
// applied at ledger time 100 s.
func stoppedLog(t testing.TB, clock *testTime) []*raft.Log {
	t.Helper()
	r := rigFor(t, openState(t, clock.options()), clock)
	mustConfig(t, r.Client, testConfig(mockModel("a", 1, -1)))
	clock.pass(100 * time.Second)
	newGateNode(t, r, "n1").admit(t, limiter.Ticket{Model: "a"})
	return r.log.entries
}

func TestFullStopCountsTheWallTimeThatPassed(t *testing.T) {
	for _, tc := range []struct {
		name       string
		down, want time.Duration
	}{
		{"20 seconds", 20 * time.Second, 120 * time.Second},
		{"not at all", 0, 100 * time.Second},
		{"a day is at most one window", 24 * time.Hour, 160 * time.Second},
		{"a clock set back is nothing", -time.Hour, 100 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			clock := newTestTime()
			entries := stoppedLog(t, clock)
			clock.step(tc.down)
			for _, order := range []string{"replay first", "replay afterwards"} {
				o := clock.options()
				o.ReplayEnd = func() uint64 { return uint64(len(entries)) }
				s := openState(t, o)
				if order == "replay first" {
					feed(s, entries)
				}
				s.UseWallClock()
				if order != "replay first" {
					feed(s, entries)
				}
				near(t, order, s.ClockNow()-limiter.Time(0), tc.want)
			}
		})
	}
}

// After a stop of all nodes the first to start knows no more than the others.
func TestClockByTheWallIsNotToldToOthersBeforeTheLogIsBack(t *testing.T) {
	clock := newTestTime()
	entries := stoppedLog(t, clock)
	clock.step(20 * time.Second)
	o := clock.options()
	o.ReplayEnd = func() uint64 { return uint64(len(entries)) }
	s := openState(t, o)
	s.UseWallClock()
	if s.ClockLive() {
		t.Errorf("a clock that knows no entry yet is live, at %v", s.ClockNow())
	}
	feed(s, entries)
	if s.ClockLive() {
		t.Error("a clock of old entries is live")
	}
	near(t, "clock", s.ClockNow(), 120*time.Second)
	cmd := command{kind: cmdRegister, payload: []byte(`{"node":"n","nonce":"x"}`)}.encode()
	s.Apply(&raft.Log{Index: uint64(len(entries) + 1), Data: appendEntry(s.ClockNow(), clock.now().UnixNano(), cmd)})
	if !s.ClockLive() {
		t.Error("a clock that follows new entries is not live")
	}
}

func TestRestartOfOneNodeDoesNotLookAtTheWall(t *testing.T) {
	clock := newTestTime()
	entries := stoppedLog(t, clock)
	clock.step(20 * time.Second)
	o := clock.options()
	o.ReplayEnd = func() uint64 { return uint64(len(entries)) }
	s := openState(t, o)
	feed(s, entries)
	near(t, "clock", s.ClockNow(), 100*time.Second)
	if s.ClockLive() {
		t.Error("a clock of old entries is live")
	}
	s.SeedClock(limiter.Time(115 * time.Second))
	near(t, "clock", s.ClockNow(), 115*time.Second)
}

func TestNewEntriesEndTheUseOfTheWallClock(t *testing.T) {
	clock := newTestTime()
	entries := stoppedLog(t, clock)
	o := clock.options()
	o.ReplayEnd = func() uint64 { return uint64(len(entries)) }
	s := openState(t, o)
	s.UseWallClock()
	feed(s, entries)
	near(t, "clock", s.ClockNow(), 100*time.Second)
	cmd := command{kind: cmdRegister, payload: []byte(`{"node":"n","nonce":"x"}`)}.encode()
	skewed := clock.now().Add(-time.Hour).UnixNano() // the new leader's wall clock is an hour behind
	for i := range 2 {
		index := uint64(len(entries) + 1 + i)
		s.Apply(&raft.Log{Index: index, Data: appendEntry(limiter.Time(101*time.Second), skewed, cmd)})
	}
	near(t, "clock after entries of a skewed leader", s.ClockNow(), 101*time.Second)
	if !s.ClockLive() {
		t.Error("a clock that follows new entries is not live")
	}
}
