package limiter

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// While no node has a quorum, all of them together stay within what the running
// window had left, and within the limit in any window's length after it.
func TestNodesAloneStayWithinTheLimitTogether(t *testing.T) {
	for _, c := range []struct {
		name          string
		nodes         int
		limit, before int64
		each          int64 // that a node admits in the running window
		later         int64 // and in any window's length after it
	}{
		{"a third of what is left", 3, 90, 0, 30, 30},
		{"some used", 3, 90, 30, 20, 30},
		{"all used", 3, 90, 90, 0, 30},
		{"rounded down", 5, 9, 0, 1, 1},
		{"too small to divide", 3, 2, 0, 0, 0},
		{"one node", 1, 10, 4, 6, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := make([]int, c.nodes)
				for i := range all {
					all[i] = i
				}
				cl := newCutCluster(t, c.nodes, alonePolicy(c.limit), NoQuorumShare)
				opened := time.Now()
				if got := cl.ask(t, 0, int(c.before), Ticket{Model: "m"}); int64(len(got)) != c.before {
					t.Fatalf("%d of %d admitted before", len(got), c.before)
				}
				cl.cut(t, all...)
				for i := range all {
					if got := len(cl.ask(t, i, int(2*c.limit), Ticket{Model: "m"})); int64(got) != c.each {
						t.Errorf("node %d admitted %d alone in the running window, want %d", i, got, c.each)
					}
				}
				time.Sleep(time.Until(opened.Add(61*time.Second + time.Minute/ringSlots)))
				time.Sleep(time.Minute)
				for i := range all {
					if got := len(cl.ask(t, i, int(2*c.limit), Ticket{Model: "m"})); int64(got) != c.later {
						t.Errorf("node %d admitted %d alone later, want %d", i, got, c.later)
					}
				}
				cl.heal()
				cl.close(t)
			})
		})
	}
}

// A node cut off from a working majority adds its part to the limit and no
// more, however often it comes and goes, and what it admitted counts on return.
func TestNodeCutOffAddsItsPartAndReportsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCutCluster(t, 3, alonePolicy(90), NoQuorumShare)
		tk := Ticket{Model: "m"}
		exact, alone := 0, 0
		for range 4 {
			exact += len(cl.ask(t, 0, 10, tk))
			cl.cut(t, 2)
			exact += len(cl.ask(t, 1, 10, tk))
			for _, r := range cl.ask(t, 2, 12, tk) {
				if r.Mode() != "share" || cl.gates[2].Mode() != "share" {
					t.Errorf("mode %q", r.Mode())
				}
				alone++
			}
			if !cl.marked(2) {
				t.Error("no note was left before the first admission")
			}
			cl.heal()
			time.Sleep(time.Second) // what was lent has come back
			if used := cl.used("m").Requests; used != int64(exact+alone) {
				t.Errorf("%d counted, %d admitted by the log and %d alone", used, exact, alone)
			}
		}
		if exact > 90 || alone > 30 {
			t.Errorf("%d admitted by the log, %d alone", exact, alone)
		}
		time.Sleep(2*time.Minute + 10*time.Second)
		if cl.marked(2) {
			t.Error("the note is still there a window after all was reported")
		}
		if got := len(cl.ask(t, 2, 100, tk)); got != 90 {
			t.Errorf("%d admitted in a new window", got)
		}
		cl.close(t)
	})
}

func TestTokensAndSlotsOfANodeAloneAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := alonePolicy(90).model("t", Limits{Tokens: Of(300)}, Reservation{})
		p.keys["k"] = &SubjectPolicy{Limits: Limits{Parallel: Of(6)}}
		cl := newCutCluster(t, 3, p, NoQuorumShare)
		cl.ask(t, 0, 1, Ticket{Model: "t"})[0].Settle(Usage{Input: 30})
		time.Sleep(100 * time.Millisecond)
		cl.cut(t, 0, 1, 2)
		// (300 − 30) / 3 = 90 are left to each: 3 answers of 30.
		served := 0
		for range 5 {
			for _, r := range cl.ask(t, 0, 1, Ticket{Model: "t"}) {
				r.Settle(Usage{Input: 30})
				served++
			}
		}
		if served != 3 {
			t.Errorf("%d answers of 30 tokens served of 90", served)
		}
		held := cl.ask(t, 1, 5, Ticket{Model: "t", Key: "k"})
		if len(held) != 2 {
			t.Fatalf("%d of 6 slots taken by one of three", len(held))
		}
		held[0].Settle(Usage{Input: 1})
		again := cl.ask(t, 1, 2, Ticket{Model: "t", Key: "k"})
		if len(again) != 1 {
			t.Fatalf("%d admitted after a slot came free", len(again))
		}
		cl.heal()
		if used := cl.used("t"); used.Tokens != 121 || used.Requests != 7 {
			t.Errorf("%+v counted", used)
		}
		look := func() Used {
			cl.sharedLog.mu.Lock()
			defer cl.sharedLog.mu.Unlock()
			o := cl.ledger.Look(cl.now(), &Ticket{Model: "t", Key: "k"}, p)
			return o.Standings[ScopeKey].Used
		}
		if got := look().Parallel; got != 2 {
			t.Errorf("%d slots reported of 2 in flight", got)
		}
		held[1].Settle(Usage{Output: 5})
		again[0].Settle(Usage{Output: 5})
		time.Sleep(100 * time.Millisecond)
		if got, tokens := look().Parallel, cl.used("t").Tokens; got != 0 || tokens != 131 {
			t.Errorf("%d slots and %d tokens after all were settled", got, tokens)
		}
		cl.close(t)
	})
}

func TestPoolsHoldOnANodeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := alonePolicy(1).model("m", Limits{Requests: Of(300)}, Reservation{
			Shares: map[string]Share{"prod": share(.8), "dev": share(.2)}, Threshold: .5,
		})
		cl := newCutCluster(t, 3, p, NoQuorumShare)
		cl.cut(t, 0, 1, 2)
		// Of 100: dev borrows up to the threshold, prod has the rest.
		dev := len(cl.ask(t, 0, 200, Ticket{Model: "m", Priority: "dev"}))
		prod := len(cl.ask(t, 0, 200, Ticket{Model: "m", Priority: "prod"}))
		if dev != 50 || prod != 50 {
			t.Errorf("dev %d, prod %d", dev, prod)
		}
		cl.heal()
		if used := cl.used("m"); used.Requests != 0 { // no window ran before, so there is none to count in
			t.Errorf("%+v", used)
		}
		cl.close(t)
	})
}

// Who was killed while it admitted alone cannot know how much that was.
func TestProcessAfterOneThatAdmittedAloneWaitsForAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCutCluster(t, 3, alonePolicy(90), NoQuorumShare)
		o := cl.options(2, 3, NoQuorumShare)
		o.Marked = true
		cl.marks[2] = true
		g, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		closeGate(t, cl.gates[2])
		cl.gates[2] = g
		time.Sleep(10 * time.Millisecond)
		cl.cut(t, 2)
		if got := len(cl.ask(t, 2, 5, Ticket{Model: "m"})); got != 0 {
			t.Errorf("%d admitted", got)
		}
		time.Sleep(time.Minute)
		if got := len(cl.ask(t, 2, 50, Ticket{Model: "m"})); got != 30 {
			t.Errorf("%d admitted a window later", got)
		}
		cl.heal()
		time.Sleep(2 * time.Minute)
		if cl.marked(2) {
			t.Error("the note was not taken back")
		}
		cl.close(t)
	})
}

// A process that was never in touch knows nothing of the running windows.
func TestProcessThatNeverReachedTheLogHasNoShare(t *testing.T) {
	for _, c := range []struct {
		policy NoQuorum
		want   int
		mode   string
	}{{NoQuorumShare, 0, "exact"}, {NoQuorumAllow, 9, "allow"}} {
		synctest.Test(t, func(t *testing.T) {
			cl := newCutCluster(t, 0, alonePolicy(9), c.policy)
			cl.frozen, cl.marks = []*Ledger{NewLedger()}, []bool{false}
			o := cl.options(0, 3, c.policy)
			o.Applier = deadApplier{}
			g, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			cl.gates = []*Gate{g}
			if got := len(cl.ask(t, 0, 12, Ticket{Model: "m"})); got != c.want || g.Mode() != c.mode {
				t.Errorf("%s: %d admitted, mode %s", c.policy, got, g.Mode())
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_ = g.Close(ctx) // nothing can be flushed
		})
	}
}

type deadApplier struct{}

func (deadApplier) ApplyBatch(context.Context, *Batch) (*Answer, error) { return nil, errDown }
func (deadApplier) Register(context.Context) (uint64, error)            { return 0, errDown }

// The wait that a refusal names is true: nothing is admitted before, one is after.
func TestRefusalOfANodeAloneNamesTheTrueWait(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			limit := 3 + r.Int64N(30)
			cl := newCutCluster(t, 3, alonePolicy(limit), NoQuorumShare)
			cl.ask(t, 0, r.IntN(int(limit)+1), Ticket{Model: "m"})
			time.Sleep(time.Duration(r.Int64N(int64(30 * time.Second))))
			cl.cut(t, 0, 1, 2)
			for range 100 {
				_, err := cl.gates[1].Admit(t.Context(), Ticket{Model: "m"})
				var f *Refusal
				if !errors.As(err, &f) {
					time.Sleep(time.Duration(r.Int64N(int64(5 * time.Second))))
					continue
				}
				if f.Remaining != 0 {
					t.Errorf("a refusal says that %d remain", f.Remaining)
				}
				time.Sleep(f.RetryAfter - time.Millisecond)
				if got := cl.ask(t, 1, 1, Ticket{Model: "m"}); len(got) != 0 {
					t.Fatalf("seed %d: admitted before the wait of %v was over", seed, f.RetryAfter)
				}
				time.Sleep(2 * time.Millisecond)
				if got := cl.ask(t, 1, 1, Ticket{Model: "m"}); len(got) != 1 {
					t.Fatalf("seed %d: refused after the wait of %v", seed, f.RetryAfter)
				}
			}
			cl.heal()
			cl.close(t)
		})
	}
}

// In any window's length a node admits at most its part by itself, whatever
// comes and goes; checked against every admission.
func TestNodeAloneNeverExceedsItsPart(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			nodes := 2 + r.IntN(4)
			limit := int64(nodes) * (1 + r.Int64N(12))
			p := alonePolicy(limit)
			p.rules.Window = 10 * time.Second
			cl := newCutCluster(t, nodes, p, NoQuorumShare)
			var times []time.Time
			for range 12 {
				cl.cut(t, 0)
				for range 20 {
					for _, rc := range cl.ask(t, 0, r.IntN(6), Ticket{Model: "m"}) {
						if rc.Mode() == "share" {
							times = append(times, time.Now())
						}
					}
					time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
				}
				cl.heal()
				time.Sleep(time.Duration(r.Int64N(int64(8 * time.Second))))
			}
			part := int(limit) / nodes
			for i := part; i < len(times); i++ {
				if d := times[i].Sub(times[i-part]); d < p.rules.Window {
					t.Fatalf("seed %d: %d admitted alone within %v, part %d", seed, part+1, d, part)
				}
			}
			if len(times) == 0 {
				t.Fatalf("seed %d: nothing admitted", seed)
			}
			cl.close(t)
		})
	}
}

// Where tokens are reserved, a node alone reserves of its part, and gives back
// to the cluster what was not used.
func TestNodeAloneReservesOfItsPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := alonePolicy(1).model("t", Limits{Tokens: Of(300)}, Reservation{})
		p.rules.Reserve = true
		cl := newCutCluster(t, 3, p, NoQuorumShare)
		opened := cl.ask(t, 0, 1, Ticket{Model: "t", Estimate: Usage{Input: 60}})
		opened[0].Settle(Usage{})
		time.Sleep(100 * time.Millisecond)
		cl.cut(t, 0, 1, 2)
		rs := cl.ask(t, 1, 9, Ticket{Model: "t", Estimate: Usage{Input: 20, Output: 20}})
		if len(rs) != 2 {
			t.Fatalf("%d requests of 40 tokens admitted of 100", len(rs))
		}
		if got := cl.ask(t, 2, 1, Ticket{Model: "t", Estimate: Usage{Output: 101}}); len(got) != 0 {
			t.Error("a request larger than the part was admitted")
		}
		if _, err := cl.gates[2].Admit(t.Context(), Ticket{Model: "t", Estimate: Usage{Output: 101}}); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("a request that can fit only together: %v", err)
		}
		rs[0].Settle(Usage{Input: 5})
		cl.heal()
		if used := cl.used("t"); used.Tokens != 45 {
			t.Errorf("%d tokens counted, 5 used and 40 reserved", used.Tokens)
		}
		rs[1].Settle(Usage{Input: 50})
		time.Sleep(200 * time.Millisecond)
		if used := cl.used("t"); used.Tokens != 55 {
			t.Errorf("%d tokens counted of 55 used", used.Tokens)
		}
		cl.close(t)
	})
}

func TestWorkConservingPoolsOnANodeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := alonePolicy(1).model("m", Limits{Requests: Of(300)}, Reservation{Shares: map[string]Share{"prod": share(.75), "dev": share(.25)}})
		p.rules.Sharing = Sharing{Conserving: true, Active: 10 * time.Second}
		cl := newCutCluster(t, 3, p, NoQuorumShare)
		cl.cut(t, 0, 1, 2)
		prod, dev := Ticket{Model: "m", Priority: "prod"}, Ticket{Model: "m", Priority: "dev"}
		if got := len(cl.ask(t, 0, 200, dev)); got != 100 {
			t.Errorf("a lone pool was served %d of its node's 100", got)
		}
		first := len(cl.ask(t, 1, 1, prod))
		d, q := len(cl.ask(t, 1, 200, dev)), len(cl.ask(t, 1, 200, prod))
		if first+q != 75 || d != 25 {
			t.Errorf("dev %d, prod %d of 25 and 75", d, first+q)
		}
		cl.heal()
		cl.close(t)
	})
}
