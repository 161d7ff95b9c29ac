package limiter

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A log that answers for a moment takes the node's report along and falls silent
// again: what the report says was admitted all the same, so the node has no
// second part of the same window, and no second part of the slots.
func TestReportOnItsWayStillCountsAgainstTheNodesPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := alonePolicy(90)
		p.keys["two"] = &SubjectPolicy{Limits: Limits{Parallel: Of(6)}}
		c := newCutCluster(t, 3, p, NoQuorumShare)
		spend := func(n int) { // of the running window, by the node that stays in touch
			for _, r := range c.ask(t, 0, n, Ticket{Model: "m"}) {
				r.Settle(Usage{})
			}
		}
		spend(60)
		c.cut(t, 1)
		got := len(c.ask(t, 1, 40, Ticket{Model: "m"}))
		slots := c.ask(t, 1, 6, Ticket{Model: "unlimited", Key: "two"})
		if got != 10 || len(slots) != 2 {
			t.Fatalf("the node admitted %d requests and %d slots, want a third of 30 and of 6", got, len(slots))
		}

		c.swallowReports(true)
		c.heal()
		time.Sleep(DefaultPatience + 10*time.Millisecond)
		if !c.gates[1].Degraded() {
			t.Fatal("the node has not noticed that its report is not answered")
		}
		if more := len(c.ask(t, 1, 40, Ticket{Model: "m"})); more != 0 {
			t.Errorf("with its report on its way the node admitted %d more of a part that was used up", more)
		}
		if more := len(c.ask(t, 1, 6, Ticket{Model: "unlimited", Key: "two"})); more != 0 {
			t.Errorf("with its report on its way the node gave %d more slots of a part that was used up", more)
		}

		c.swallowReports(false)
		time.Sleep(time.Second)
		if m := c.used("m"); m.Requests != 70 {
			t.Errorf("after the report %d requests are counted, want 70", m.Requests)
		}
		for _, r := range slots {
			r.Settle(Usage{})
		}
		time.Sleep(time.Second)
		if n := len(c.ask(t, 0, 7, Ticket{Model: "unlimited", Key: "two"})); n != 6 {
			t.Errorf("%d of 6 slots are free after all were settled", n)
		}
		c.close(t)
	})
}

// Under a wildcard with limits per name clients make up scopes as they like. A node
// that is alone for long forgets those of windows that are over, reported or not.
func TestNodeAloneForgetsWhatNoWindowHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := alonePolicy(90)
		const perWindow = 50
		for i := range 6 * perWindow {
			p.model(fmt.Sprint("made-up-", i), Limits{Requests: Of(90)}, Reservation{})
		}
		c := newCutCluster(t, 3, p, NoQuorumShare)
		c.cut(t, 1)
		for i := range 6 * perWindow {
			if len(c.ask(t, 1, 1, Ticket{Model: fmt.Sprint("made-up-", i)})) != 1 {
				t.Fatalf("request %d was not admitted", i)
			}
			time.Sleep(p.rules.Window / perWindow)
		}
		al := c.gates[1].alone
		al.mu.Lock()
		counts, pending := len(al.counts), len(al.pending)
		al.mu.Unlock()
		if counts > 3*perWindow || pending > counts {
			t.Errorf("%d scopes kept and %d to report, of %d in a window", counts, pending, perWindow)
		}
		c.heal()
		c.close(t)
	})
}

func TestNodeAloneCountsNoMoreScopesThanItHasRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCutCluster(t, 3, alonePolicy(90), NoQuorumShare)
		c.cut(t, 1)
		al, known := c.gates[1].alone, Ticket{Model: "unlimited", Key: "max1"}
		before := len(c.ask(t, 1, 1, known))
		al.mu.Lock()
		other := al.count(ScopeRef{Scope: ScopeModel, Model: "other"}, c.gates[1].bank.now(), time.Minute)
		other.slots++ // so that it is kept
		for i := range maxAccounts {
			al.counts[ScopeRef{Scope: ScopeModel, Model: fmt.Sprint("made-up-", i)}] = other
		}
		al.mu.Unlock()
		if n := len(c.ask(t, 1, 1, known)); before != 1 || n != 1 {
			t.Errorf("a known scope admitted %d before and %d after all room was taken", before, n)
		}
		if n := len(c.ask(t, 1, 1, Ticket{Model: "m"})); n != 0 {
			t.Error("a scope was counted that there is no room for")
		}
		c.heal()
		c.close(t)
	})
}

// What a request alone reserved and did not use comes back to the cluster even if
// the log answered before the request was over.
func TestReservedInVainComesBackAfterTheReport(t *testing.T) {
	for _, c := range []struct {
		name   string
		window time.Duration // how old the window is when the node is cut off
		used   Usage
		later  time.Duration // from the report to the end of the request
		want   int64         // tokens counted in the window that runs then
	}{
		{"less than reserved", 5 * time.Second, Usage{Input: 10}, time.Second, 20 + 10},
		{"nothing at all", 5 * time.Second, Usage{}, time.Second, 20},
		{"more than reserved", 5 * time.Second, Usage{Input: 150}, time.Second, 20 + 150},
		{"in the next window", 40 * time.Second, Usage{Input: 10}, 30 * time.Second, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := alonePolicy(90).model("t", Limits{Tokens: Of(900)}, Reservation{Shares: map[string]Share{"a": share(.9)}, Threshold: .5})
				p.rules.Reserve = true
				p.keys["k"] = &SubjectPolicy{Limits: Limits{Parallel: Of(9), Tokens: Of(900)}}
				cl := newCutCluster(t, 3, p, NoQuorumShare)
				first := func() {
					cl.ask(t, 0, 1, Ticket{Model: "t", Key: "k", Priority: "a", Estimate: Usage{Input: 20}})[0].Settle(Usage{Input: 20})
				}
				first()
				time.Sleep(c.window)
				cl.cut(t, 1)
				got := cl.ask(t, 1, 1, Ticket{Model: "t", Key: "k", Priority: "a", Estimate: Usage{Input: 100}})
				if len(got) != 1 {
					t.Fatal("not admitted")
				}
				time.Sleep(time.Second)
				cl.heal()
				if used := cl.used("t").Tokens; used != 120 {
					t.Fatalf("%d tokens counted with the report, want 120", used)
				}
				time.Sleep(c.later)
				if c.later > 10*time.Second {
					first()
					time.Sleep(time.Second)
				}
				got[0].Settle(c.used)
				time.Sleep(time.Second)
				cl.sharedLog.mu.Lock()
				o := cl.ledger.Look(cl.now(), &Ticket{Model: "t", Key: "k", Priority: "a"}, p)
				cl.sharedLog.mu.Unlock()
				for _, s := range []Scope{ScopeKey, ScopeModel, ScopePool} {
					if u := o.Standings[s].Used; u.Tokens != c.want || u.Parallel != 0 {
						t.Errorf("%s: %d tokens and %d slots, want %d and 0", s, u.Tokens, u.Parallel, c.want)
					}
				}
				cl.close(t)
			})
		})
	}
}
