package limiter

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// BenchmarkLedgerFourScopes is one admission that meets a key's, a team's, the
// model's and the pool's limits. Target: ≤ 1 µs, 0 allocations.
func BenchmarkLedgerFourScopes(b *testing.B) {
	p := newTable().model("m", Limits{Requests: Of(1 << 60), Tokens: Of(1 << 60)},
		Reservation{Shares: map[string]Share{"prod": share(0.9), "dev": share(0.1)}, Threshold: 0})
	wide := &SubjectPolicy{Limits: Limits{Requests: Of(1 << 60), Tokens: Of(1 << 60)}}
	p.teams["team"] = wide
	tickets := make([]Ticket, 1024)
	for i := range tickets {
		id := fmt.Sprintf("%064x", i)
		p.keys[id] = wide
		tickets[i] = Ticket{Model: "m", Key: id, Team: "team", Priority: "prod"}
	}
	d := newDriver(b, p)
	batch := &Batch{Node: "n1", Epoch: d.epoch}
	b.ReportAllocs()
	for n := 0; n < b.N; n += 64 {
		batch.Seq++
		at := n % 1024
		batch.Reserves = tickets[at : at+64]
		if _, err := d.ledger.Apply(0, batch, p); err != nil {
			b.Fatal(err)
		}
	}
}

// warmGate returns a Gate that holds permits for whatever a benchmark asks, in
// key, team, model and pool scope, and tickets of n keys.
func warmGate(b *testing.B, n int, limited bool) (*sharedLog, []Ticket) {
	p := newTable().model("m", Limits{Requests: Of(1 << 60), Tokens: Of(1 << 60)},
		Reservation{Shares: map[string]Share{"prod": share(0.9), "dev": share(0.1)}, Threshold: 0})
	wide := &SubjectPolicy{Limits: Limits{Requests: Of(1 << 60), Tokens: Of(1 << 60)}}
	p.teams["team"] = wide
	tickets := make([]Ticket, n)
	for i := range tickets {
		id := fmt.Sprintf("%064x", i)
		if limited {
			p.keys[id] = wide
		}
		tickets[i] = Ticket{Model: "m", Key: id, Team: "team", Priority: "prod"}
	}
	l := newCluster(b, 1, p, time.Hour)
	l.commit = 0
	for _, tk := range tickets {
		if _, err := l.gates[0].Admit(context.Background(), tk); err != nil {
			b.Fatal(err)
		}
	}
	// Enough for the whole run: what is measured is the use of permits.
	l.gates[0].bank.accounts.Range(func(_, v any) bool {
		a := v.(*account)
		le := &lease{on: a.basis.Load(), start: 0, until: 1 << 60, end: 1 << 60, strict: true, limits: wide.Limits, ownUntil: 1 << 60}
		le.left.Store(1 << 40)
		a.strict.Store(true)
		a.lease.Store(le)
		return true
	})
	b.Cleanup(func() { l.close(b) })
	return l, tickets
}

// BenchmarkWarmAdmission is an admission by permits in four limited scopes, in
// contention of all cores. Target: ≤ 250 ns, 0 allocations.
func BenchmarkWarmAdmission(b *testing.B) {
	for _, c := range []struct {
		name    string
		keys    int
		limited bool
	}{{"one key", 1, true}, {"64 keys", 64, true}, {"10000 keys without limits", 10_000, false}} {
		b.Run(c.name, func(b *testing.B) {
			l, tickets := warmGate(b, c.keys, c.limited)
			ctx := context.Background()
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if _, err := l.gates[0].Admit(ctx, tickets[i%len(tickets)]); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkRememberedRefusal is a refusal that is not asked for again. Target: ≤ 1 µs.
func BenchmarkRememberedRefusal(b *testing.B) {
	p := newTable().model("m", Limits{Requests: Of(1)}, Reservation{Shares: map[string]Share{"a": share(1)}, Threshold: 0})
	l := newCluster(b, 1, p, time.Hour)
	defer l.close(b)
	ctx := context.Background()
	tk := Ticket{Model: "m", Key: "k", Priority: "a"}
	for range 3 {
		_, _ = l.gates[0].Admit(ctx, tk)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.gates[0].Admit(ctx, tk); err == nil {
			b.Fatal("admitted")
		}
	}
}
