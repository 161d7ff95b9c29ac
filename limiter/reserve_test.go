package limiter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// reserving returns a table with one model of 100 tokens where tokens are reserved.
func reserving(alone bool) *tablePolicy {
	p := newTable().model("m", Limits{Tokens: Of(100)}, Reservation{})
	p.rules.Reserve, p.rules.Alone = true, alone
	return p
}

func estimated(in, out int64) Ticket {
	return Ticket{Model: "m", Key: "k", Estimate: Usage{Input: in, Output: out}}
}

func (d *driver) tokens() int64 { return d.ledger.Inspect(d.now, d.policy, "m").Used.Tokens }

func TestReservedTokensAreReplacedByWhatWasUsed(t *testing.T) {
	for _, c := range []struct {
		name   string
		rules  Rules
		usage  Usage
		taken  int64
		after  int64
		passed time.Duration // before it is settled
	}{
		{"less was used", Rules{}, Usage{Input: 10, Output: 5}, 40, 15, time.Second},
		{"more was used", Rules{}, Usage{Input: 30, Output: 50}, 40, 80, time.Second},
		{"nothing was used", Rules{}, Usage{}, 40, 0, time.Second},
		{"only the output counts", Rules{TokenType: OutputTokens}, Usage{Input: 30, Output: 7}, 30, 7, time.Second},
		{"cached tokens do not count", Rules{IgnoreCached: true}, Usage{Input: 30, Cached: 20, Output: 1}, 40, 11, time.Second},
		{"its window is over", Rules{}, Usage{Input: 30}, 40, 0, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := reserving(false)
			c.rules.Window, c.rules.Reserve = p.rules.Window, true
			p.rules = c.rules
			p.keys["k"] = &SubjectPolicy{Limits: Limits{Tokens: Of(1000)}, PerModel: map[string]Limits{"m": {Tokens: Of(1000)}}}
			d := newDriver(t, p)
			tk := estimated(10, 30)
			dec := d.ask(tk)
			if !dec.Admitted || dec.Need != c.taken || d.tokens() != c.taken {
				t.Fatalf("%+v, %d tokens are counted, want %d", dec, d.tokens(), c.taken)
			}
			for _, s := range []Scope{ScopeKey, ScopeKeyModel, ScopeModel} {
				if n := dec.Standings[s].Used.Tokens; n != c.taken {
					t.Errorf("%v shows %d used, want %d", s, n, c.taken)
				}
			}
			d.now = d.now.Add(c.passed)
			d.settle(tk, dec, c.usage)
			if d.tokens() != c.after {
				t.Errorf("%d tokens are counted, want %d", d.tokens(), c.after)
			}
			d.ledger = reload(t, d.ledger, d.now, p.rules.Window)
		})
	}
}

func TestReservationsMakeATokenLimitHard(t *testing.T) {
	d := newDriver(t, reserving(false))
	first, second := d.ask(estimated(10, 30)), d.ask(estimated(10, 30))
	if !first.Admitted || !second.Admitted {
		t.Fatal("refused below the limit")
	}
	dec := d.ask(estimated(10, 11))
	if dec.Admitted || dec.Scope != ScopeModel || dec.Dimension != Tokens || dec.Final || dec.RetryIn != time.Minute {
		t.Fatalf("80 + 21 of 100: %+v", dec)
	}
	if !d.ask(estimated(10, 10)).Admitted {
		t.Error("80 + 20 of 100 is refused")
	}
	d.settle(estimated(10, 30), first, Usage{Input: 9})
	if !d.ask(estimated(10, 21)).Admitted {
		t.Error("what was not used is not free again")
	}
	if d.ask(estimated(0, 0)).Admitted {
		t.Error("a full limit admits a request of nothing")
	}
	// The node dies with what is in flight: it counts until the window ends.
	d.ledger.Register(d.now, d.node, "run-2")
	if d.tokens() != 100 {
		t.Errorf("%d tokens are counted, want 100", d.tokens())
	}
	d.now = d.now.Add(time.Minute)
	if d.tokens() != 0 {
		t.Errorf("%d tokens are counted in the next window", d.tokens())
	}
}

func TestRequestsLargerThanAWholeLimit(t *testing.T) {
	d := newDriver(t, reserving(false))
	dec := d.ask(estimated(1, 100))
	if dec.Admitted || !dec.Oversize || dec.Scope != ScopeModel || d.tokens() != 0 || d.ledger.models["m"] != nil {
		t.Errorf("reject: %+v", dec)
	}
	d = newDriver(t, reserving(true))
	alone := d.ask(estimated(1, 149))
	if !alone.Admitted || d.tokens() != 150 {
		t.Fatalf("alone: %+v, %d tokens", alone, d.tokens())
	}
	if dec := d.ask(estimated(1, 1)); dec.Admitted || dec.Oversize {
		t.Errorf("beside it: %+v", dec)
	}
	d.settle(estimated(1, 149), alone, Usage{Input: 60})
	if !d.ask(estimated(10, 10)).Admitted {
		t.Error("after it there is room again")
	}
	if dec := d.ask(estimated(1, 149)); dec.Admitted || dec.Oversize || dec.RetryIn != time.Minute {
		t.Errorf("a second one in the window: %+v", dec)
	}
	blocked := reserving(false)
	blocked.model("m", Limits{Tokens: Of(0)}, Reservation{})
	if dec := newDriver(t, blocked).ask(estimated(1, 1)); dec.Admitted || dec.Oversize {
		t.Errorf("a model that is blocked: %+v, want an ordinary refusal", dec)
	}
}

func TestPoolsBoundARequestOnlyWhereTheyNeverLend(t *testing.T) {
	for _, c := range []struct {
		name      string
		threshold float64
		sharing   Sharing
		oversize  bool
	}{
		{"always enforced", 0, Sharing{}, true},
		{"enforced from the threshold on", .5, Sharing{}, false},
		{"work-conserving", 0, Sharing{Conserving: true, Active: time.Second}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := reserving(false)
			p.model("m", Limits{Tokens: Of(100)}, Reservation{Shares: map[string]Share{"a": share(.25)}, Threshold: c.threshold})
			p.rules.Sharing = c.sharing
			tk := estimated(10, 40)
			tk.Priority = "a"
			if dec := newDriver(t, p).ask(tk); dec.Oversize != c.oversize || dec.Admitted == c.oversize {
				t.Errorf("%+v", dec)
			}
		})
	}
}

// TestChangedAccountingKeepsWhatIsInFlight settles under other rules than those of the admission.
func TestChangedAccountingKeepsWhatIsInFlight(t *testing.T) {
	p := reserving(false)
	d := newDriver(t, p)
	tk := estimated(10, 30)
	reserved := d.ask(tk)
	p.rules.Reserve = false
	recorded := d.ask(tk)
	if recorded.Need != 0 || d.tokens() != 40 {
		t.Fatalf("%d tokens are counted, want those of the first", d.tokens())
	}
	d.settle(tk, reserved, Usage{Input: 5})
	p.rules.Reserve = true
	d.settle(tk, recorded, Usage{Input: 6})
	if d.tokens() != 11 {
		t.Errorf("%d tokens are counted, want the 11 that were used", d.tokens())
	}
}

func TestGateReservesAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t, 2, reserving(false), time.Second)
		defer l.close(t)
		ctx := context.Background()
		first, err := l.gates[0].Admit(ctx, estimated(10, 50))
		if err != nil {
			t.Fatal(err)
		}
		var refusal *Refusal
		if _, err := l.gates[1].Admit(ctx, estimated(10, 50)); !errors.As(err, &refusal) || refusal.Dimension != Tokens || refusal.Remaining != 40 || refusal.Need != 60 {
			t.Fatalf("60 + 60 of 100: %v", err)
		}
		first.Settle(Usage{Input: 10, Output: 10})
		time.Sleep(10 * time.Millisecond)
		if n := l.used("m").Tokens; n != 20 {
			t.Errorf("%d tokens are counted 10 ms after the settlement, want 20", n)
		}
		// One whose caller leaves while the log decides takes nothing along.
		leaving, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if _, err := l.gates[1].Admit(leaving, estimated(10, 50)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		if n := l.used("m").Tokens; n != 20 {
			t.Errorf("%d tokens are counted, want 20: nobody holds the reservation", n)
		}
		_, err = l.gates[0].Admit(ctx, estimated(10, 91))
		if !errors.As(err, &refusal) || !refusal.Oversize || !strings.Contains(err.Error(), "about 101 tokens (10 of input and up to 91 of output") || !strings.Contains(err.Error(), "model m is 100 tokens") {
			t.Errorf("an oversize request: %v", err)
		}
	})
}

// TestNodesNeverPassAReservedLimit lets requests of random sizes that use what
// they declared at most ask on three nodes, and looks at the count all the time.
func TestNodesNeverPassAReservedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := reserving(false)
		p.model("m", Limits{Tokens: Of(3000)}, Reservation{Shares: map[string]Share{"a": share(.5), "b": share(.5)}, Threshold: .5})
		p.rules.Window = 5 * time.Second
		l := newCluster(t, 3, p, time.Second)
		defer l.close(t)
		l.spend = Usage{Input: 10, Output: 20}
		stop := make(chan struct{})
		go func() {
			defer close(stop)
			for range 200 {
				time.Sleep(20 * time.Millisecond)
				if n := l.used("m").Tokens; n > 3000 {
					t.Errorf("%d of 3000 tokens are counted at %v", n, l.now())
				}
			}
		}()
		served := l.play(t, 4*time.Second, []float64{100, 100, 100}, func(i int) Ticket {
			return Ticket{Model: "m", Key: "k", Priority: []string{"a", "b", "b"}[i], Estimate: Usage{Input: 10, Output: 20 + int64(i)*30}}
		})
		<-stop
		if n := sum(served); n > 100 || n < 95 {
			t.Errorf("%d requests of 30 tokens were served of a limit of 3000", n)
		}
	})
}
