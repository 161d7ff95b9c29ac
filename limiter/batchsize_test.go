package limiter

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The log takes no entry above 256 KB, and a batch that it does not take would be
// sent for ever. Under a wildcard with limits per name clients choose the names,
// and 255 bytes is what a name may have.
const longestEntry = 256 << 10

func longName(kind string, i int) string {
	return fmt.Sprintf("%s-%06d-", kind, i) + strings.Repeat("x", 255-len(kind)-8)
}

// encodedSize is what a batch takes in the log at least: every string once, and
// numbers as short as they can be.
func encodedSize(b *Batch) (n int) {
	seen := map[string]bool{}
	str := func(all ...string) {
		for _, s := range all {
			if n += 2; !seen[s] {
				seen[s] = true
				n += len(s) + 2
			}
		}
	}
	for i := range b.Reports {
		str(b.Reports[i].Ref.ID, b.Reports[i].Ref.Model)
		n += 5
	}
	for i := range b.Settles {
		t := &b.Settles[i].Ticket
		str(t.Model, t.Key, t.Team, t.Priority)
		n += 7
	}
	for i := range b.Returns {
		str(b.Returns[i].Ref.ID, b.Returns[i].Ref.Model)
		n += 3
	}
	for i := range b.Reserves {
		t := &b.Reserves[i]
		str(t.Model, t.Key, t.Team, t.Priority)
	}
	for i := range b.Grants {
		str(b.Grants[i].Ref.ID, b.Grants[i].Ref.Model)
		n += 4
	}
	return n
}

func TestBatchStaysBelowWhatTheLogTakes(t *testing.T) {
	for _, c := range []struct {
		name string
		fill func(g *Gate)
	}{
		{"reports of long names", func(g *Gate) {
			for i := range maxReports {
				ref := ScopeRef{Scope: ScopeModel, Model: longName("report", i)}
				g.alone.report(g.alone.count(ref, g.bank.now(), time.Minute), ref, sums{requests: 1}, g.bank.now())
				g.alone.counts[ref].ring.add(sums{requests: 1})
			}
		}},
		{"returns and renewals beside a full queue", func(g *Gate) {
			for i := range maxReturns {
				g.bank.returns[returnKey{ScopeRef{Scope: ScopeModel, Model: longName("return", i)}, 0}] = 1
			}
			for i := range maxAsks {
				a := g.bank.account(ScopeRef{Scope: ScopeModel, Model: longName("renew", i)})
				a.lease.Store(&lease{n: 10, plenty: true, until: time.Hour, end: time.Hour, on: &basis{}})
				g.lent = append(g.lent, a)
			}
			for i := range maxReserves {
				g.waiting = append(g.waiting, &waiter{ticket: Ticket{Model: longName("wait", i)}, done: make(chan struct{})})
			}
			for i := range maxSettles {
				g.settling.add(Settle{Ticket: Ticket{Model: longName("settle", i)}, Starts: noneHeld, Count: 1}, time.Now())
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCutCluster(t, 1, alonePolicy(90), NoQuorumShare)
				cl.close(t)
				g := cl.gates[0]
				c.fill(g)
				batches := 0
				for {
					g.mu.Lock()
					b := g.take()
					g.mu.Unlock()
					if len(b.Reports)+len(b.Settles)+len(b.Returns)+len(b.Reserves)+len(b.Grants) == 0 {
						break
					}
					if n := encodedSize(b); n > longestEntry {
						t.Errorf("a batch of %d bytes; the log takes %d", n, longestEntry)
					}
					g.asking = g.asking[:0]
					for _, a := range g.lent {
						a.lease.Store(nil) // as if it were granted
					}
					batches++
				}
				if batches < 2 {
					t.Errorf("%d batches: nothing was to be divided", batches)
				}
			})
		})
	}
}
