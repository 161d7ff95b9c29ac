package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sluice/limiter"
)

// benchPolicy has one model with pools, and gives every key and team limits.
type benchPolicy struct {
	model   *limiter.ModelPolicy
	subject *limiter.SubjectPolicy
}

var _ limiter.Policy = (*benchPolicy)(nil)

func newBenchPolicy() (*benchPolicy, error) {
	limits := limiter.Limits{Requests: limiter.Of(plenty), Tokens: limiter.Of(plenty)}
	m, _, err := limiter.NewModelPolicy(benchModel, limits, limiter.Reservation{
		Shares: map[string]limiter.Share{
			"prod": {Kind: limiter.SharePercent, Value: 0.9},
			"dev":  {Kind: limiter.SharePercent, Value: 0.1},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("cut the model's limits: %w", err)
	}
	return &benchPolicy{model: m, subject: &limiter.SubjectPolicy{Limits: limits}}, nil
}

func (p *benchPolicy) Version() uint64 { return 1 }

func (p *benchPolicy) Rules() limiter.Rules { return limiter.Rules{Window: time.Minute} }

func (p *benchPolicy) Model(string) *limiter.ModelPolicy { return p.model }

func (p *benchPolicy) Key(string) *limiter.SubjectPolicy { return p.subject }

func (p *benchPolicy) Team(string) *limiter.SubjectPolicy { return p.subject }

// benchLedger measures the decision alone: no log, no lock, no network.
func benchLedger(_ context.Context, _ options, r *report) error {
	const batch, keys = 64, 1024
	p, err := newBenchPolicy()
	if err != nil {
		return err
	}
	tickets := make([]limiter.Ticket, keys)
	for i := range tickets {
		tickets[i] = limiter.Ticket{Model: benchModel, Key: fmt.Sprintf("%064x", i), Team: "team", Priority: "prod"}
	}
	var failure error
	ns, allocs := perOp(func(b *testing.B) {
		ledger := limiter.NewLedger()
		batchOf := &limiter.Batch{Node: "n1", Epoch: ledger.Register(0, "n1", "bench")}
		apply := func(at int) {
			batchOf.Seq++
			batchOf.Reserves = tickets[at : at+batch]
			answer, err := ledger.Apply(0, batchOf, p)
			if err == nil && !answer.Decisions[batch-1].Admitted {
				err = fmt.Errorf("refused by %s", answer.Decisions[batch-1].Scope)
			}
			if err != nil {
				failure = err
			}
		}
		for at := 0; at < keys; at += batch { // steady state: every key has been seen
			apply(at)
		}
		b.ReportAllocs()
		b.ResetTimer()
		for n := 0; n < b.N; n += batch {
			apply(n % keys)
		}
	})
	if failure != nil {
		return failure
	}
	r.section("Ledger: one admission that meets a key's, a team's, the model's and a pool's limits,\nin batches of %d over %d keys.", batch, keys)
	r.judge("time per admission", fmt.Sprintf("%.0f ns", ns), "≤ 1 µs", ns <= 1000)
	r.judge("allocations per admission", fmt.Sprintf("%.3f", allocs), "0", allocs < 0.001)
	return nil
}
