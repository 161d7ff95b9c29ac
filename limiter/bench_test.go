package limiter

import (
	"fmt"
	"testing"
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
