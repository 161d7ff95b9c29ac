package limiter

import (
	"reflect"
	"testing"
	"time"
)

func TestExplainNamesWhoHoldsTheCapacity(t *testing.T) {
	p := conserving(Limits{Requests: Of(100)}, 0, 0, map[string]float64{"a": .75, "b": .25})
	p.keys["k"] = &SubjectPolicy{Limits: Limits{Parallel: Of(2)}}
	d := newDriver(t, p)
	d.serve([]demand{{"b", 5}})
	for range 2 {
		d.ask(Ticket{Model: "m", Key: "k", Priority: "a"})
	}
	for range 80 {
		d.ask(Ticket{Model: "m", Priority: "a"})
	}
	before := d.ledger.Save(d.now, p.rules.Window)
	e := d.ledger.Explain(d.now, p, Ticket{Model: "m", Key: "k", Priority: "a"})
	if after := d.ledger.Save(d.now, p.rules.Window); !reflect.DeepEqual(before, after) {
		t.Error("an explanation has changed the ledger")
	}
	if e.Admitted || e.Scope != ScopeKey || e.Dimension != Parallel || e.FitsIn != 10*time.Second || len(e.Scopes) != 3 {
		t.Fatalf("%+v", e)
	}
	key, model, pool := e.Scopes[0], e.Scopes[1], e.Scopes[2]
	if !reflect.DeepEqual(key.Nodes, []SlotState{{"n1", 2}}) || key.FitsIn != SlotRetry {
		t.Errorf("the key: %+v", key)
	}
	if !model.Admitted || model.ResetsIn != time.Minute || len(model.Pools) != 3 {
		t.Fatalf("the model: %+v", model)
	}
	for i, want := range []struct {
		name   string
		used   int64
		floor  int64
		active bool
	}{{"a", 75, 75, true}, {"b", 5, 25, true}, {"", 0, 0, false}} {
		h := model.Pools[i]
		if floor, _ := h.Floor.Requests.Get(); h.Name != want.name || h.Used.Requests != want.used || floor != want.floor || h.Active != want.active {
			t.Errorf("pool %d: %+v, want %+v", i, h, want)
		}
	}
	if pool.Admitted || pool.Dimension != Requests || pool.FitsIn != 10*time.Second {
		t.Errorf("the pool: %+v, want it to fit when b is idle", pool)
	}
}

// TestExplainSaysWhatTheLedgerDoes asks both about the same ticket in states of every kind.
func TestExplainSaysWhatTheLedgerDoes(t *testing.T) {
	eachWorkedCase(t, func(t *testing.T, p *tablePolicy, play func(decide, func(time.Duration))) {
		d := newDriver(t, p)
		play(func(tk Ticket, tokens int64) *Refusal {
			e := d.ledger.Explain(d.now, p, tk)
			dec := d.ask(tk)
			if e.Admitted != dec.Admitted || !dec.Admitted && (e.Scope != dec.Scope || e.Dimension != dec.Dimension || e.FitsIn != dec.RetryIn) {
				t.Fatalf("explained as %+v, decided as %+v", e, dec)
			}
			if dec.Admitted {
				d.settle(tk, dec, Usage{Input: tokens})
				return nil
			}
			left, _ := dec.Standings[dec.Scope].Remaining(dec.Dimension)
			return &Refusal{Ticket: tk, Scope: dec.Scope, Dimension: dec.Dimension, Remaining: left}
		}, func(at time.Duration) { d.now = max(d.now, Time(at)) })
	})
}
