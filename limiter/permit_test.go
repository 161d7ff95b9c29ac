package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// sharedLog is one Ledger that several Gates write to, with a commit time. Every
// batch is shown to all Gates, as replicas would.
type sharedLog struct {
	mu      sync.Mutex
	ledger  *Ledger
	policy  *tablePolicy
	start   time.Time
	commit  time.Duration
	gates   []*Gate
	batches int
	silent  atomic.Bool
	spend   Usage // of every request that play sends
}

type sharedApplier struct {
	*sharedLog
	node string
}

func (l *sharedLog) now() Time { return Time(time.Since(l.start)) }

func (a *sharedApplier) ApplyBatch(ctx context.Context, b *Batch) (*Answer, error) {
	if a.silent.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(a.commit)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.batches++
	answer, err := a.ledger.Apply(a.now(), b, a.policy)
	if err != nil {
		return nil, err
	}
	out := &Answer{slices.Clone(answer.Decisions), slices.Clone(answer.Grants)}
	for _, g := range a.gates {
		g.Observe(a.now(), b, out, a.ledger, a.policy)
	}
	return out, nil
}

func (a *sharedApplier) Register(context.Context) (uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ledger.Register(a.now(), a.node, "run"), nil
}

// newCluster starts n Gates over one Ledger. At the end every permit must have
// been returned or spent: what the ledger counts is what was admitted.
func newCluster(t testing.TB, n int, p *tablePolicy, lease time.Duration) *sharedLog {
	t.Helper()
	l := &sharedLog{ledger: NewLedger(), policy: p, start: time.Now(), commit: 1500 * time.Microsecond}
	var gates []*Gate
	for i := range n {
		g, err := New(Options{
			Node: fmt.Sprint("n", i), Applier: &sharedApplier{l, fmt.Sprint("n", i)},
			Policy: func() Policy { return p }, OnNoQuorum: func() NoQuorum { return NoQuorumDeny },
			Lease: func() time.Duration { return lease }, Parts: func() int { return n },
		})
		if err != nil {
			t.Fatal(err)
		}
		gates = append(gates, g)
	}
	l.mu.Lock()
	l.gates = gates
	l.mu.Unlock()
	return l
}

func (l *sharedLog) close(t testing.TB) {
	t.Helper()
	l.silent.Store(false)
	for _, g := range l.gates {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := g.Close(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

func (l *sharedLog) used(model string) Used {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ledger.Inspect(l.now(), l.policy, model).Used
}

// play lets every gate be asked at its own rate for d, request after request
// with exponential pauses, and returns how many were admitted on each.
func (l *sharedLog) play(t testing.TB, d time.Duration, perSecond []float64, ask func(node int) Ticket) []int64 {
	t.Helper()
	served := make([]int64, len(perSecond))
	var wg sync.WaitGroup
	for i, rate := range perSecond {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for end := time.Now().Add(d); ; {
				time.Sleep(time.Duration(r.ExpFloat64() / rate * float64(time.Second)))
				if !time.Now().Before(end) {
					return
				}
				wg.Go(func() {
					rc, err := l.gates[i].Admit(context.Background(), ask(i))
					if err == nil {
						atomic.AddInt64(&served[i], 1)
						rc.Settle(l.spend)
					} else if !errors.As(err, new(*Refusal)) {
						t.Error(err)
					}
				})
			}
		})
	}
	wg.Wait()
	return served
}

func sum(ns []int64) (total int64) {
	for _, n := range ns {
		total += n
	}
	return total
}

func TestSmallLimitsServeExactlyTheLimit(t *testing.T) {
	for _, nodes := range []int{1, 3, 5} {
		for _, limit := range []int64{1, 2, 5, 10, 30} {
			t.Run(fmt.Sprintf("%d of %d nodes", limit, nodes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newCluster(t, nodes, newTable().model("m", Limits{Requests: Of(limit)}, Reservation{}), 500*time.Millisecond)
					rates := make([]float64, nodes)
					for i := range rates {
						rates[i] = 3
					}
					served := l.play(t, 59*time.Second, rates, func(int) Ticket { return Ticket{Model: "m"} })
					if got := sum(served); got != limit {
						t.Errorf("served %d %v", got, served)
					}
					l.close(t)
				})
			})
		}
	}
}

func TestDemandIsServedToTheLastRequestInFewEntries(t *testing.T) {
	for _, c := range []struct {
		limit   int64
		rates   []float64
		atLeast float64
	}{
		{180, []float64{10, 10, 10}, 0.99},
		{1000, []float64{400, 50, 50}, 0.97},
		{6000, []float64{1600, 200, 200}, 0.97},
		{60000, []float64{900, 900, 900}, 0.99},
		{60000, []float64{2000, 250, 250}, 0.97},
		{3000, []float64{300, 300, 10, 10, 10}, 0.97},
	} {
		t.Run(fmt.Sprint(c.limit, c.rates), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newCluster(t, len(c.rates), newTable().model("m", Limits{Requests: Of(c.limit)}, Reservation{}), 500*time.Millisecond)
				began := time.Now()
				served := l.play(t, 59*time.Second, c.rates, func(int) Ticket { return Ticket{Model: "m"} })
				demand := 0.0
				for _, r := range c.rates {
					demand += r * 59
				}
				possible := min(float64(c.limit), demand*0.97)
				if got := sum(served); got > c.limit || float64(got) < possible*c.atLeast {
					t.Errorf("served %d of %d %v", got, c.limit, served)
				}
				perNode := float64(l.batches) / time.Since(began).Seconds() / float64(len(c.rates))
				t.Logf("served %d of %d, %.1f entries a second and node", sum(served), c.limit, perNode)
				if perNode > 30 {
					t.Errorf("%.1f entries a second and node", perNode)
				}
				l.close(t)
			})
		})
	}
}

func TestStrictSharesHoldWithPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shares := map[string]Share{"p1": share(0.5), "p2": share(0.3), "p3": share(0.2)}
		l := newCluster(t, 3, newTable().model("m", Limits{Requests: Of(1800)}, Reservation{Shares: shares, Threshold: 0}), 500*time.Millisecond)
		var byPool [3]atomic.Int64
		var wg sync.WaitGroup
		for node := range 3 {
			for p := range 3 {
				wg.Go(func() {
					for end := time.Now().Add(50 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
						if r, err := l.gates[node].Admit(context.Background(), Ticket{Model: "m", Priority: fmt.Sprint("p", p+1)}); err == nil {
							byPool[p].Add(1)
							r.Settle(Usage{})
						}
					}
				})
			}
		}
		wg.Wait()
		for p, want := range []int64{900, 540, 360} {
			if got := byPool[p].Load(); got != want {
				t.Errorf("p%d served %d, want %d", p+1, got, want)
			}
		}
		l.close(t)
	})
}

// warmUp makes the first gate hold permits for the ticket.
func (l *sharedLog) warmUp(t testing.TB, tk Ticket) {
	t.Helper()
	for range 300 {
		if r, err := l.gates[0].Admit(context.Background(), tk); err == nil {
			r.Settle(Usage{})
		}
		time.Sleep(time.Millisecond)
	}
}

func TestWarmAdmissionsNeedNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTable().model("m", Limits{Requests: Of(1_000_000)}, Reservation{Shares: map[string]Share{"a": share(1)}})
		l := newCluster(t, 1, p, time.Hour)
		tk := Ticket{Model: "m", Key: "quiet", Priority: "a"}
		for range 3 {
			admitAll(l.gates[0], 20_000, tk)
			time.Sleep(10 * time.Millisecond)
		}
		l.silent.Store(true)
		rs, errs := admitAll(l.gates[0], 10_000, tk)
		if len(rs) != 10_000 {
			t.Errorf("%d of 10000 admitted while the log is silent: %v", len(rs), errs[0])
		}
		l.close(t)
	})
}

func TestUnusedPermitsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t, 3, newTable().model("m", Limits{Requests: Of(10_000)}, Reservation{}), 500*time.Millisecond)
		l.warmUp(t, Ticket{Model: "m"})
		lent := l.used("m").Requests - 300
		time.Sleep(time.Second)
		if back := l.used("m").Requests - 300; lent <= 0 || back != 0 {
			t.Errorf("%d permits were out, %d still are after their time", lent, back)
		}
		l.close(t)
	})
}

func TestChangedLimitRevokesPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTable().model("m", Limits{Requests: Of(10_000)}, Reservation{})
		l := newCluster(t, 1, p, time.Minute)
		l.warmUp(t, Ticket{Model: "m"})
		l.mu.Lock()
		p.model("m", Limits{Requests: Of(300)}, Reservation{})
		p.version++
		l.mu.Unlock()
		if rs, _ := admitAll(l.gates[0], 50, Ticket{Model: "m"}); len(rs) != 0 {
			t.Errorf("%d admitted over the new limit", len(rs))
		}
		l.close(t)
	})
}

func TestPermitsEndWithTheirWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t, 1, newTable().model("m", Limits{Requests: Of(1000)}, Reservation{}), time.Hour)
		l.warmUp(t, Ticket{Model: "m"})
		time.Sleep(time.Minute)
		rs, _ := admitAll(l.gates[0], 2000, Ticket{Model: "m"})
		if len(rs) != 1000 {
			t.Errorf("the next window served %d of 1000", len(rs))
		}
		l.close(t)
	})
}

func TestTokenLimitHoldsWithPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t, 1, newTable().model("m", Limits{Tokens: Of(1000)}, Reservation{}), time.Minute)
		served := 0
		for range 500 {
			r, err := l.gates[0].Admit(context.Background(), Ticket{Model: "m"})
			if err != nil {
				continue
			}
			served++
			r.Settle(Usage{Input: 10})
		}
		if served != 100 {
			t.Errorf("served %d answers of 10 tokens within 1000", served)
		}
		l.close(t)
	})
}

func TestNodesDecideTheWorkedCasesWithPermits(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			eachWorkedCase(t, func(t *testing.T, p *tablePolicy, play func(decide, func(time.Duration))) {
				synctest.Test(t, func(t *testing.T) {
					l := newCluster(t, nodes, p, 500*time.Millisecond)
					began, turn := time.Now(), 0
					play(func(tk Ticket, tokens int64) *Refusal {
						turn++
						r, err := l.gates[turn%nodes].Admit(context.Background(), tk)
						if err == nil {
							r.Settle(Usage{Input: tokens})
							if tokens > 0 && nodes > 1 {
								time.Sleep(2 * permitLinger) // for the others to learn of them
							}
							return nil
						}
						var ref *Refusal
						if !errors.As(err, &ref) {
							t.Fatal(err)
						}
						time.Sleep(time.Duration(nodes-1) * time.Millisecond) // refusals are remembered for a moment
						return ref
					}, func(at time.Duration) { time.Sleep(time.Until(began.Add(at))) })
					l.close(t)
				})
			})
		})
	}
}

func TestOneBurstOverThreeNodesIsServedExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shares := map[string]Share{"p1": share(0.5), "p2": share(0.3), "p3": share(0.2)}
		l := newCluster(t, 3, newTable().model("m", Limits{Requests: Of(180)}, Reservation{Shares: shares, Threshold: 0}), 500*time.Millisecond)
		var byPool [3]atomic.Int64
		var wg sync.WaitGroup
		for i := range 600 {
			wg.Go(func() {
				time.Sleep(time.Duration(i%97) * 100 * time.Microsecond)
				if r, err := l.gates[i%3].Admit(context.Background(), Ticket{Model: "m", Priority: fmt.Sprint("p", i/3%3+1)}); err == nil {
					byPool[i/3%3].Add(1)
					r.Settle(Usage{})
				}
			})
		}
		wg.Wait()
		for p, want := range []int64{90, 54, 36} {
			if got := byPool[p].Load(); got != want {
				t.Errorf("p%d served %d, want %d", p+1, got, want)
			}
		}
		l.close(t)
	})
}

func TestMadeUpNamesDoNotFillTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTable()
		l := newCluster(t, 1, p, 500*time.Millisecond)
		b := l.gates[0].bank
		m, _, err := NewModelPolicy("any", Limits{Requests: Of(1000)}, Reservation{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range maxAccounts + 1000 {
			name := fmt.Sprint("openai/", i)
			p.models[name] = m
			b.path(&Ticket{Model: name}, p)
			delete(p.models, name)
		}
		n := 0
		b.accounts.Range(func(any, any) bool { n++; return true })
		if n > 2000 {
			t.Errorf("%d accounts after the bound was reached", n)
		}
		p.models["openai/x"] = m
		if rs, errs := admitAll(l.gates[0], 5, Ticket{Model: "openai/x"}); len(rs) != 5 {
			t.Errorf("refused afterwards: %v", errs)
		}
		l.close(t)
	})
}

func TestWindowsAreShownAsTheyWereServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shares := map[string]Share{"a": share(0.9)}
		l := newCluster(t, 1, newTable().model("m", Limits{Requests: Of(1000)}, Reservation{Shares: shares, Threshold: 1}), 500*time.Millisecond)
		lent := false
		for n := range int64(100) {
			r, err := l.gates[0].Admit(t.Context(), Ticket{Model: "m", Priority: "a"})
			if err != nil {
				t.Fatal(err)
			}
			r.Settle(Usage{Input: 7})
			l.mu.Lock()
			ms := l.ledger.Inspect(l.now(), l.policy, "m")
			l.mu.Unlock()
			lent = lent || ms.Used.Requests > n+1
			if held := l.gates[0].Permits("m"); ms.Used.Requests != n+1+held {
				t.Fatalf("after %d requests: %d counted, %d permits held", n+1, ms.Used.Requests, held)
			}
			if ms = l.gates[0].AsServed(ms); ms.Used.Requests != n+1 || ms.Pools[0].Used.Requests != n+1 {
				t.Fatalf("after %d requests: %d shown, %d in the pool", n+1, ms.Used.Requests, ms.Pools[0].Used.Requests)
			}
			if want := 7 * (n + 1); ms.Used.Tokens != want || ms.Pools[0].Used.Tokens != want {
				t.Fatalf("after %d tokens: %d shown, %d in the pool", want, ms.Used.Tokens, ms.Pools[0].Used.Tokens)
			}
		}
		if !lent {
			t.Error("no permit was ever out: this shows nothing")
		}
		l.close(t)
	})
}
