package limiter

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What the simulation has found, each as the story that led there.

// admitted reports whether the gate admits the ticket now.
func admitted(g *Gate, tk Ticket) bool {
	_, err := g.Admit(context.Background(), tk)
	return err == nil
}

// An answer that comes late makes the permits short-lived, but does not end
// their window any sooner: they go back.
func TestPermitsOfALateAnswerComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t, 1, newTable().model("m", Limits{Requests: Of(10_000)}, Reservation{}), 500*time.Millisecond)
		tk := Ticket{Model: "m"}
		admitAll(l.gates[0], 1, tk)
		time.Sleep(57 * time.Second)
		admitAll(l.gates[0], 200, tk)
		slow := func(commit time.Duration) {
			time.Sleep(time.Second)
			synctest.Wait()
			l.mu.Lock()
			l.commit = commit
			l.mu.Unlock()
		}
		slow(1500 * time.Millisecond)
		var wg sync.WaitGroup
		wg.Go(func() { admitAll(l.gates[0], 1, tk) }) // asks for permits too, at the rate of the burst
		slow(time.Millisecond)
		wg.Wait()
		time.Sleep(200 * time.Millisecond)
		if got := l.used("m").Requests; got != 202 {
			t.Errorf("%d are counted after 202 admissions", got)
		}
		l.close(t)
	})
}

// Permits come back after their time when the log was slow, and others may have
// been refused for good already.
func TestReturnedPermitsEndRememberedRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, tk := newTable().model("m", Limits{Requests: Of(5)}, Reservation{}), Ticket{Model: "m"}
		l := newCluster(t, 1, p, 500*time.Millisecond)
		g, w := l.gates[0], &waiter{ticket: tk}
		rs, _ := admitAll(g, 1, tk)
		time.Sleep(time.Second)
		w.path = g.bank.path(&tk, p)
		final := &Decision{Scope: ScopeModel, Dimension: Requests, Final: true, ResetIn: 50 * time.Second}
		back := &Batch{Node: "other", Returns: []Return{{Ref: ScopeRef{Scope: ScopeModel, Model: "m"}, Start: rs[0].settlement(Usage{}).Starts[ScopeModel], N: 1}}}
		g.remember(w, final, g.bank.now())
		if admitted(g, tk) {
			t.Error("the refusal is not remembered")
		}
		l.mu.Lock()
		g.Observe(l.now(), back, &Answer{}, l.ledger, p)
		l.mu.Unlock()
		if !admitted(g, tk) {
			t.Error("refused although a permit came back")
		}
		time.Sleep(time.Second)
		sent := g.bank.now() - 10*time.Millisecond
		l.mu.Lock()
		g.Observe(l.now(), back, &Answer{}, l.ledger, p)
		l.mu.Unlock()
		g.remember(w, final, sent)
		time.Sleep(2 * refusalMemory)
		if !admitted(g, tk) {
			t.Error("refused for good by what was decided before a permit came back")
		}
		l.close(t)
	})
}

func TestRefusalByAnEarlierLimitIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, tk := newTable().model("m", Limits{Requests: Of(5)}, Reservation{}), Ticket{Model: "m"}
		l := newCluster(t, 1, p, 500*time.Millisecond)
		g := l.gates[0]
		w := &waiter{ticket: tk, path: g.bank.path(&tk, p)}
		l.mu.Lock()
		p.model("m", Limits{Requests: Of(100)}, Reservation{})
		p.version++
		l.mu.Unlock()
		admitAll(g, 5, tk)
		time.Sleep(time.Second) // no permits are left
		g.remember(w, &Decision{Scope: ScopeModel, Dimension: Requests, Final: true, ResetIn: time.Minute}, g.bank.now())
		if !admitted(g, tk) {
			t.Error("refused by the limit that was raised")
		}
		l.close(t)
	})
}

func TestRefusalHeardOfLateEndsWithItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, tk := newTable().model("m", Limits{Requests: Of(5)}, Reservation{}), Ticket{Model: "m"}
		l := newCluster(t, 1, p, 500*time.Millisecond)
		admitAll(l.gates[0], 1, tk)
		time.Sleep(70 * time.Second)
		other := &Batch{Node: "other", Reserves: []Ticket{tk}}
		refused := &Answer{Decisions: []Decision{{Scope: ScopeModel, Dimension: Requests, Final: true, ResetIn: 30 * time.Second}}}
		l.mu.Lock()
		l.gates[0].Observe(Time(30*time.Second), other, refused, l.ledger, p)
		l.mu.Unlock()
		if !admitted(l.gates[0], tk) {
			t.Error("refused by a window that ended ten seconds ago")
		}
		l.close(t)
	})
}

func TestPendingTokensAreAlwaysTakenOff(t *testing.T) {
	for name, play := range map[string]func(l *sharedLog, a, b *Receipt){
		"other tokens count": func(l *sharedLog, a, _ *Receipt) {
			a.Settle(Usage{Input: 100})
			l.mu.Lock()
			l.policy.rules.TokenType = OutputTokens
			l.policy.version++
			l.mu.Unlock()
		},
		"more cached than read": func(l *sharedLog, a, b *Receipt) {
			l.mu.Lock()
			l.policy.rules.IgnoreCached = true
			l.mu.Unlock()
			a.Settle(Usage{Input: 10, Cached: 60})
			b.Settle(Usage{Input: 100})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newCluster(t, 1, newTable().model("m", Limits{Tokens: Of(100_000)}, Reservation{}), 500*time.Millisecond)
				rs, _ := admitAll(l.gates[0], 2, Ticket{Model: "m"})
				play(l, rs[0], rs[1])
				time.Sleep(time.Second)
				if n := l.gates[0].bank.account(ScopeRef{Scope: ScopeModel, Model: "m"}).pending.Load(); n != 0 {
					t.Errorf("%d tokens are pending for ever", n)
				}
				l.close(t)
			})
		})
	}
}
