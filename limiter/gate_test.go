package limiter

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// logOf is an Applier over one in-process Ledger with a commit time, that
// tests can make fail. It checks the invariants of every Gate test.
type logOf struct {
	mu      sync.Mutex
	ledger  *Ledger
	policy  Policy
	start   time.Time
	commit  time.Duration
	node    string
	nonce   string
	fail    func(applied bool) error // asked before and after applying
	batches int
	flying  int
}

func newLog(p Policy) *logOf {
	return &logOf{ledger: NewLedger(), policy: p, start: time.Now(), commit: time.Millisecond, node: "n1", nonce: "run"}
}

func (l *logOf) now() Time { return Time(time.Since(l.start)) }

func (l *logOf) ApplyBatch(ctx context.Context, b *Batch) (*Answer, error) {
	l.mu.Lock()
	l.flying++
	if l.flying > 1 {
		panic("two batches in flight")
	}
	fail := l.fail
	l.mu.Unlock()
	defer func() { l.mu.Lock(); l.flying--; l.mu.Unlock() }()
	select {
	case <-time.After(l.commit):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if fail != nil {
		if err := fail(false); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches++
	a, err := l.ledger.Apply(l.now(), b, l.policy)
	if err != nil {
		return nil, err
	}
	if fail != nil {
		if err := fail(true); err != nil {
			return nil, err
		}
	}
	return &Answer{slices.Clone(a.Decisions), slices.Clone(a.Grants)}, nil
}

func (l *logOf) Register(ctx context.Context) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		if err := l.fail(false); err != nil {
			return 0, err
		}
	}
	return l.ledger.Register(l.now(), l.node, l.nonce), nil
}

func (l *logOf) setFail(f func(bool) error) { l.mu.Lock(); l.fail = f; l.mu.Unlock() }

func (l *logOf) applied() int { l.mu.Lock(); defer l.mu.Unlock(); return l.batches }

func (l *logOf) tokens(model string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ledger.Inspect(l.now(), l.policy, model).Used.Tokens
}

func (l *logOf) used(model string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ledger.Inspect(l.now(), l.policy, model).Used.Requests
}

func (l *logOf) slots() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.ledger.keys.byID {
		n += s.parallel
	}
	return n
}

var _ Applier = (*logOf)(nil)

var errDown = errors.New("no leader")

func newGate(t *testing.T, l *logOf, mode NoQuorum) *Gate {
	t.Helper()
	g, err := New(Options{Node: l.node, Applier: l, Policy: func() Policy { return l.policy }, OnNoQuorum: func() NoQuorum { return mode }})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func closeGate(t *testing.T, g *Gate) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := g.Close(ctx); err != nil {
		t.Error(err)
	}
}

// admitAll asks n times at once and returns the receipts and the errors.
func admitAll(g *Gate, n int, tk Ticket) (rs []*Receipt, errs []error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			r, err := g.Admit(context.Background(), tk)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			} else {
				rs = append(rs, r)
			}
		})
	}
	wg.Wait()
	return rs, errs
}

func TestGateAdmitsExactlyTheLimitInFewBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(newTable().model("m", Limits{Requests: Of(100)}, Reservation{}))
		g := newGate(t, l, NoQuorumDeny)
		rs, errs := admitAll(g, 500, Ticket{Model: "m"})
		if len(rs) != 100 || len(errs) != 400 {
			t.Errorf("%d admitted, %d refused", len(rs), len(errs))
		}
		var ref *Refusal
		if !errors.As(errs[0], &ref) || ref.Error() != "Model capacity reached for m. Priority: None, Rate limit type: requests, Model TPM: not configured, Model RPM: 100, Remaining: 0" {
			t.Errorf("refusal %v", errs[0])
		}
		if s := ref.RetryAfterSeconds(); s != 60 {
			t.Errorf("retry after %d s", s)
		}
		if l.batches > 4 {
			t.Errorf("%d batches for 500 waiters", l.batches)
		}
		closeGate(t, g)
	})
}

func TestGateSettlesOnceAndFreesSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTable().model("m", Limits{Tokens: Of(1000)}, Reservation{})
		p.keys["k"] = &SubjectPolicy{Limits: Limits{Parallel: Of(2)}}
		l := newLog(p)
		g := newGate(t, l, NoQuorumDeny)
		rs, errs := admitAll(g, 5, Ticket{Model: "m", Key: "k"})
		if len(rs) != 2 || len(errs) != 3 {
			t.Fatalf("%d admitted, %d refused by two slots", len(rs), len(errs))
		}
		for _, r := range rs {
			for range 3 {
				r.Settle(Usage{Input: 10, Output: -5})
			}
		}
		closeGate(t, g)
		if n := l.slots(); n != 0 {
			t.Errorf("%d slots leaked", n)
		}
		if got := l.ledger.Inspect(l.now(), p, "m").Used.Tokens; got != 20 {
			t.Errorf("%d tokens settled, want 20", got)
		}
	})
}

func TestGateRetriesAnUnknownOutcomeWithoutCountingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(newTable().model("m", Limits{Requests: Of(10)}, Reservation{}))
		g := newGate(t, l, NoQuorumDeny)
		synctest.Wait()
		lost := 3
		l.setFail(func(applied bool) error {
			if applied && lost > 0 {
				lost--
				return errDown // leadership lost after the commit
			}
			return nil
		})
		rs, errs := admitAll(g, 1, Ticket{Model: "m"})
		if len(rs) != 1 {
			t.Fatalf("not admitted: %v", errs)
		}
		if used := l.used("m"); used != 1 {
			t.Errorf("counted %d times", used)
		}
		closeGate(t, g)
	})
}

func TestGateWithoutQuorum(t *testing.T) {
	for _, c := range []struct {
		mode     NoQuorum
		admitted int
		header   string
	}{
		{NoQuorumDeny, 0, "exact"},
		{NoQuorumAllow, 10, "allow"},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLog(newTable().model("m", Limits{Requests: Of(10)}, Reservation{}).model("n", Limits{Requests: Of(1)}, Reservation{}))
				g := newGate(t, l, c.mode)
				synctest.Wait()
				l.setFail(func(bool) error { return errDown })
				began := time.Now()
				rs, errs := admitAll(g, 30, Ticket{Model: "m"})
				if waited := time.Since(began); waited > DefaultPatience+100*time.Millisecond {
					t.Errorf("waited %v", waited)
				}
				if len(rs) != c.admitted {
					t.Errorf("%d admitted, want %d", len(rs), c.admitted)
				}
				if c.mode == NoQuorumDeny && !errors.Is(errs[0], ErrNoQuorum) {
					t.Errorf("error %v", errs[0])
				}
				if g.Mode() != c.header || !g.Degraded() {
					t.Errorf("mode %q, degraded %v", g.Mode(), g.Degraded())
				}
				began = time.Now()
				if _, err := g.Admit(context.Background(), Ticket{Model: "m"}); err == nil || time.Since(began) > 0 {
					t.Errorf("a known outage took %v to answer %v", time.Since(began), err)
				}
				l.setFail(nil)
				time.Sleep(time.Second)
				if g.Degraded() || g.Mode() != "exact" {
					t.Error("still degraded after the log came back")
				}
				for _, r := range rs {
					r.Settle(Usage{Input: 1})
				}
				// Of the model m the log may have counted requests that were in
				// flight when the patience ended; n nobody has asked for.
				if rs, errs := admitAll(g, 1, Ticket{Model: "n"}); len(rs) != 1 {
					t.Errorf("refused after recovery: %v", errs)
				}
				closeGate(t, g)
			})
		})
	}
}

func TestSettlementTravelsWithTheNextReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTable().model("m", Limits{Tokens: Of(1000)}, Reservation{})
		p.keys["k"] = &SubjectPolicy{Limits: Limits{Parallel: Of(1)}}
		l := newLog(p)
		g := newGate(t, l, NoQuorumDeny)
		for range 10 { // one client, request after request
			r, err := g.Admit(t.Context(), Ticket{Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			r.Settle(Usage{Input: 1})
		}
		if n := l.applied(); n != 10 {
			t.Errorf("%d batches for ten requests in a row", n)
		}
		time.Sleep(settleLinger + 2*l.commit)
		if got, n := l.tokens("m"), l.applied(); got != 10 || n != 11 {
			t.Errorf("%d tokens in %d batches after the linger, want all 10 in one more", got, n)
		}
		r, err := g.Admit(t.Context(), Ticket{Model: "m", Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		r.Settle(Usage{})
		time.Sleep(l.commit + 1)
		if n := l.slots(); n != 0 {
			t.Error("a slot waits for a reservation that may not come")
		}
		closeGate(t, g)
	})
}

func TestTicketThatNoEntryHasRoomForIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(newTable().model("m", Limits{}, Reservation{}))
		g := newGate(t, l, NoQuorumDeny)
		if _, err := g.Admit(t.Context(), Ticket{Model: strings.Repeat("x", 300_000)}); !errors.Is(err, ErrTicketTooLong) {
			t.Errorf("error %v", err)
		}
		if rs, errs := admitAll(g, 1, Ticket{Model: "m"}); len(rs) != 1 {
			t.Errorf("the next request: %v", errs)
		}
		closeGate(t, g)
	})
}

func TestAbandonedAdmissionIsSettledWhenTheLogGrantsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTable().model("m", Limits{Requests: Of(10)}, Reservation{})
		p.keys["k"] = &SubjectPolicy{Limits: Limits{Parallel: Of(1)}}
		l := newLog(p)
		g := newGate(t, l, NoQuorumDeny)
		l.commit = 100 * time.Millisecond
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if _, err := g.Admit(ctx, Ticket{Model: "m", Key: "k"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v, want the deadline", err)
		}
		time.Sleep(time.Second)
		if n := l.slots(); n != 0 {
			t.Errorf("an abandoned admission holds %d slots", n)
		}
		if rs, errs := admitAll(g, 1, Ticket{Model: "m", Key: "k"}); len(rs) != 1 {
			t.Errorf("refused: %v", errs)
		} else {
			rs[0].Settle(Usage{})
		}
		closeGate(t, g)
		if n := l.slots(); n != 0 {
			t.Errorf("%d slots leaked", n)
		}
	})
}

func TestCloseFlushesAndRefusesNewcomers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTable().model("m", Limits{Tokens: Of(1000)}, Reservation{})
		l := newLog(p)
		g := newGate(t, l, NoQuorumAllow)
		rs, _ := admitAll(g, 3, Ticket{Model: "m"})
		for _, r := range rs {
			r.Settle(Usage{Output: 5})
		}
		closeGate(t, g)
		if got := l.ledger.Inspect(l.now(), p, "m").Used.Tokens; got != 15 {
			t.Errorf("%d tokens flushed, want 15", got)
		}
		if _, err := g.Admit(context.Background(), Ticket{Model: "m"}); !errors.Is(err, ErrClosed) {
			t.Errorf("error %v, want ErrClosed", err)
		}
	})
}

func TestCloseIsBoundedWhenTheLogIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(newTable())
		l.fail = func(bool) error { return errDown }
		g := newGate(t, l, NoQuorumDeny)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := g.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
	})
}

func TestReplacedProcessRunRegistersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(newTable().model("m", Limits{Requests: Of(10)}, Reservation{}))
		g := newGate(t, l, NoQuorumDeny)
		synctest.Wait()
		l.mu.Lock()
		l.ledger = NewLedger() // restored from before the registration
		l.mu.Unlock()
		if rs, errs := admitAll(g, 2, Ticket{Model: "m"}); len(rs) != 2 {
			t.Errorf("refused: %v", errs)
		}
		closeGate(t, g)
	})
}

// TestGateUnderRace hammers one Gate from many goroutines; the race detector
// and the invariants at the end do the checking.
func TestGateUnderRace(t *testing.T) {
	p := newTable().model("m", Limits{Requests: Of(1500)}, Reservation{Shares: map[string]Share{"a": share(0.5)}, Threshold: 1})
	p.keys["k"] = &SubjectPolicy{Limits: Limits{Parallel: Of(20)}}
	l := newLog(p)
	l.commit = 0
	g := newGate(t, l, NoQuorumDeny)
	var admitted sync.Map
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for j := range 40 {
				ctx, cancel := context.WithCancel(context.Background())
				if j%7 == 0 {
					go cancel()
				}
				if r, err := g.Admit(ctx, Ticket{Model: "m", Key: "k", Priority: "a"}); err == nil {
					admitted.Store(i*1000+j, true)
					go r.Settle(Usage{Input: 1})
					r.Settle(Usage{Input: 1})
				}
				cancel()
			}
		})
	}
	wg.Wait()
	closeGate(t, g)
	n := int64(0)
	admitted.Range(func(any, any) bool { n++; return true })
	if used := l.used("m"); used < n || used > 1500 {
		t.Errorf("%d admitted, %d counted of 1500", n, used)
	}
	if s := l.slots(); s != 0 {
		t.Errorf("%d slots leaked", s)
	}
}

// What a node refused, because it had no quorum, is counted nowhere when the
// quorum is back, although its reservation was on the way; nor does it open a window.
func TestWhatWasGivenUpIsCountedNowhere(t *testing.T) {
	for _, mode := range []NoQuorum{NoQuorumDeny, NoQuorumShare, NoQuorumAllow} {
		synctest.Test(t, func(t *testing.T) {
			p := newTable().model("m", Limits{Requests: Of(30)}, Reservation{Shares: map[string]Share{"a": share(.5)}})
			p.keys["k"] = &SubjectPolicy{Limits: Limits{Requests: Of(9), Parallel: Of(3)}}
			l := newLog(p)
			g := newGate(t, l, mode)
			synctest.Wait()
			l.setFail(func(applied bool) error { // it is applied, and nobody hears of it
				if applied {
					return errDown
				}
				return nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			for range 3 { // and a client that left
				go g.Admit(ctx, Ticket{Model: "m", Key: "k", Priority: "a"}) // it is given up
			}
			time.Sleep(2 * DefaultPatience)
			l.setFail(nil)
			time.Sleep(time.Second)
			l.mu.Lock()
			ms := l.ledger.Inspect(l.now(), p, "m")
			o := l.ledger.Look(l.now(), &Ticket{Model: "m", Key: "k", Priority: "a"}, p)
			l.mu.Unlock()
			if ms.Live || ms.Used != (Used{}) || ms.Pools[0].Used != (Used{}) || o.Standings[ScopeKey].Used != (Used{}) {
				t.Errorf("%s: %+v, key %+v", mode, ms, o.Standings[ScopeKey])
			}
			closeGate(t, g)
		})
	}
}
