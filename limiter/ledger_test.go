package limiter

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"
	"time"
)

// bench drives one Ledger as one node would, request after request.
type driver struct {
	t      testing.TB
	ledger *Ledger
	policy Policy
	now    Time
	node   string
	epoch  uint64
	seq    uint64
}

func newDriver(t testing.TB, p Policy) *driver {
	d := &driver{t: t, ledger: NewLedger(), policy: p, node: "n1"}
	d.epoch = d.ledger.Register(0, d.node, "run-1")
	return d
}

func (d *driver) batch(settles []Settle, tickets ...Ticket) []Decision {
	d.t.Helper()
	d.seq++
	a, err := d.ledger.Apply(d.now, &Batch{Node: d.node, Epoch: d.epoch, Seq: d.seq, Settles: settles, Reserves: tickets}, d.policy)
	if err != nil {
		d.t.Fatal(err)
	}
	return a.Decisions
}

func (d *driver) ask(t Ticket) Decision {
	d.t.Helper()
	return d.batch(nil, t)[0]
}

func (d *driver) settle(t Ticket, dec Decision, u Usage) { d.batch([]Settle{settleOf(&t, &dec, u)}) }

type vectorShare struct{ Share }

func (s *vectorShare) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &s.Value) == nil {
		s.Kind = SharePercent
		return nil
	}
	return json.Unmarshal(b, &s.Share)
}

// vectorFile is testdata/limiter.json: see its "about".
type vectorFile struct{ Cases []vectorCase }

type vectorCase struct {
	Name        string
	RPM, TPM    Limit
	Reservation map[string]vectorShare
	Default     *float64 `json:"default_priority"`
	Threshold   *float64 `json:"saturation_threshold"`
	Steps       []struct {
		Priorities []*string
		Rounds     int
		Tokens     int64
		At         float64
		Expect     struct {
			Admitted map[string]int
			Refusal  *struct {
				LimitedBy string `json:"limited_by"`
				Dimension string
				Remaining int64
				Priority  *string
			} `json:"last_refusal"`
		}
	}
}

func TestLedgerDecidesTheWorkedCases(t *testing.T) {
	eachWorkedCase(t, func(t *testing.T, p *tablePolicy, play func(decide, func(time.Duration))) {
		d := newDriver(t, p)
		play(func(tk Ticket, tokens int64) *Refusal {
			dec := d.ask(tk)
			if dec.Admitted {
				d.settle(tk, dec, Usage{Input: tokens})
				return nil
			}
			left, _ := dec.Standings[dec.Scope].Remaining(dec.Dimension)
			return &Refusal{Ticket: tk, Scope: dec.Scope, Dimension: dec.Dimension, Remaining: left}
		}, func(at time.Duration) { d.now = max(d.now, Time(at)) })
	})
}

// decide asks for one admission and settles it; the Refusal is nil if it was admitted.
type decide func(tk Ticket, tokens int64) *Refusal

// eachWorkedCase runs every case of testdata/limiter.json against what run sets
// up; it calls play with the way to ask and the way to let time pass.
func eachWorkedCase(t *testing.T, run func(t *testing.T, p *tablePolicy, play func(decide, func(at time.Duration)))) {
	t.Helper()
	raw, err := os.ReadFile("testdata/limiter.json")
	if err != nil {
		t.Fatal(err)
	}
	var f vectorFile
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Cases) < 30 {
		t.Fatalf("%d cases, want at least 30", len(f.Cases))
	}
	for i := range f.Cases {
		c := &f.Cases[i]
		t.Run(c.Name, func(t *testing.T) {
			run(t, c.policy(), func(ask decide, pass func(time.Duration)) { c.play(t, ask, pass) })
		})
	}
}

func (c *vectorCase) policy() *tablePolicy {
	r := Reservation{Shares: map[string]Share{}, Default: 0.25, Threshold: 0.5}
	for n, s := range c.Reservation {
		r.Shares[n] = s.Share
	}
	if c.Default != nil {
		r.Default = *c.Default
	}
	if c.Threshold != nil {
		r.Threshold = *c.Threshold
	}
	return newTable().model("m", Limits{Requests: c.RPM, Tokens: c.TPM}, r)
}

func (c *vectorCase) play(t *testing.T, ask decide, pass func(time.Duration)) {
	t.Helper()
	for i, step := range c.Steps {
		pass(time.Duration(step.At * float64(time.Second)))
		admitted := map[string]int{}
		var last *Refusal
		for range step.Rounds {
			for _, p := range step.Priorities {
				name, priority := "none", ""
				if p != nil {
					name, priority = *p, *p
				}
				if r := ask(Ticket{Model: "m", Priority: priority}, step.Tokens); r != nil {
					last = r
				} else {
					admitted[name]++
				}
			}
		}
		if !reflect.DeepEqual(admitted, step.Expect.Admitted) {
			t.Errorf("step %d admitted %v, want %v", i, admitted, step.Expect.Admitted)
		}
		want := step.Expect.Refusal
		if (last == nil) != (want == nil) {
			t.Fatalf("step %d refusal %v, want %v", i, last, want)
		}
		if want == nil {
			continue
		}
		wantPriority := ""
		if want.Priority != nil {
			wantPriority = *want.Priority
		}
		if last.Scope.LimitedBy() != want.LimitedBy || last.Dimension.String() != want.Dimension ||
			last.Remaining != want.Remaining || last.Ticket.Priority != wantPriority {
			t.Errorf("step %d refused by %s %s, %d left, %q; want %+v", i, last.Scope.LimitedBy(), last.Dimension, last.Remaining, last.Ticket.Priority, *want)
		}
	}
}

func TestOrderOfChecksNamesTheFirstFailingLimitAndTheLongestWait(t *testing.T) {
	p := newTable().model("m", Limits{Requests: Of(1)}, Reservation{Shares: map[string]Share{"a": share(1)}, Threshold: 0})
	p.keys["k"] = &SubjectPolicy{Limits: Limits{Requests: Of(2)}}
	d := newDriver(t, p)
	d.ask(Ticket{Model: "other", Key: "k"}) // opens the key's window at 0
	d.now = Time(40 * time.Second)
	if dec := d.ask(Ticket{Model: "m", Key: "k", Priority: "a"}); !dec.Admitted {
		t.Fatalf("refused: %+v", dec)
	}
	dec := d.ask(Ticket{Model: "m", Key: "k", Priority: "a"})
	if dec.Admitted || dec.Scope != ScopeKey || dec.Dimension != Requests {
		t.Fatalf("refused by %v %v, want the key's requests", dec.Scope, dec.Dimension)
	}
	if dec.ResetIn != 20*time.Second || dec.RetryIn != time.Minute {
		t.Errorf("reset in %v, retry in %v; want 20s (the key's window) and 1m (the model's)", dec.ResetIn, dec.RetryIn)
	}
}

func TestRefusedRequestChangesNothing(t *testing.T) {
	p := newTable().model("m", Limits{Requests: Of(100)}, Reservation{Shares: map[string]Share{"a": share(0.5)}, Threshold: 0.5})
	p.keys["k"] = &SubjectPolicy{Limits: Limits{Requests: Of(2), Parallel: Of(1)}, PerModel: map[string]Limits{"m": {Tokens: Of(1000)}}}
	p.teams["t"] = &SubjectPolicy{Limits: Limits{Tokens: Of(5)}}
	d := newDriver(t, p)
	tk := Ticket{Model: "m", Key: "k", Team: "t", Priority: "a"}
	first := d.ask(tk)
	if !first.Admitted {
		t.Fatalf("first refused: %+v", first)
	}
	before := d.ledger.Save(d.now, time.Minute)
	if dec := d.ask(tk); dec.Admitted || dec.Dimension != Parallel {
		t.Fatalf("second not refused for concurrency: %+v", dec)
	}
	after := d.ledger.Save(d.now, time.Minute)
	before.Sessions, after.Sessions = nil, nil
	if !reflect.DeepEqual(before, after) {
		t.Errorf("a refusal changed the ledger\nbefore %+v\nafter  %+v", before, after)
	}
	d.settle(tk, first, Usage{Input: 1})
	if dec := d.ask(tk); !dec.Admitted {
		t.Errorf("third refused after the slot came free: %+v", dec)
	}
}

func TestTokensLandInTheWindowAndPoolOfAdmission(t *testing.T) {
	r := Reservation{Shares: map[string]Share{"a": share(0.5), "b": share(0.5)}, Threshold: 1}
	p := newTable().model("m", Limits{Tokens: Of(1000)}, r)
	d := newDriver(t, p)
	tk := Ticket{Model: "m", Priority: "a"}
	old := d.ask(tk)
	d.now = d.now.Add(time.Minute)
	current := d.ask(tk)
	d.settle(tk, old, Usage{Input: 500}) // late: its window is over
	if got := d.ledger.Inspect(d.now, p, "m").Used.Tokens; got != 0 {
		t.Errorf("late tokens counted in the next window: %d", got)
	}
	delete(p.models, "m") // the reservation changes under the request
	p.model("m", Limits{Tokens: Of(1000)}, Reservation{Shares: map[string]Share{"b": share(0.5)}, Threshold: 1})
	d.settle(tk, current, Usage{Input: 7, Output: 3})
	ms := d.ledger.Inspect(d.now, p, "m")
	if ms.Used.Tokens != 10 {
		t.Errorf("model has %d tokens, want 10", ms.Used.Tokens)
	}
	for _, pool := range ms.Pools {
		if pool.Used.Tokens != 0 {
			t.Errorf("pool %q was charged %d tokens of another pool", pool.Name, pool.Used.Tokens)
		}
	}
}

func TestWindowStartsWithTheFirstCountedRequestOnly(t *testing.T) {
	p := newTable().model("m", Limits{Requests: Of(1)}, Reservation{})
	p.keys["poor"] = &SubjectPolicy{Limits: Limits{Requests: Of(0)}}
	d := newDriver(t, p)
	d.ask(Ticket{Model: "m", Key: "poor"}) // refused: opens nothing
	d.now = Time(30 * time.Second)
	d.ask(Ticket{Model: "m"})
	d.now = Time(89999 * time.Millisecond)
	if d.ask(Ticket{Model: "m"}).Admitted {
		t.Error("admitted a second request within 60 s of the first")
	}
	d.now = Time(90 * time.Second)
	if !d.ask(Ticket{Model: "m"}).Admitted {
		t.Error("refused 60 s after the window began")
	}
}

func TestLimitZeroBlocksAndNoLimitDoesNot(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits Limits
		want   bool
	}{
		{"none", Limits{}, true},
		{"rpm 0", Limits{Requests: Of(0)}, false},
		{"tpm 0", Limits{Tokens: Of(0)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDriver(t, newTable().model("m", c.limits, Reservation{}))
			if got := d.ask(Ticket{Model: "m"}); got.Admitted != c.want || (!c.want && got.RetryIn <= 0) {
				t.Errorf("decision %+v, want admitted %v", got, c.want)
			}
		})
	}
}

func TestTokenTypesAndCachedTokens(t *testing.T) {
	u := Usage{Input: 100, Output: 20, Cached: 90}
	for _, c := range []struct {
		rules Rules
		want  int64
	}{
		{Rules{}, 120},
		{Rules{TokenType: InputTokens}, 100},
		{Rules{TokenType: OutputTokens}, 20},
		{Rules{IgnoreCached: true}, 30},
		{Rules{TokenType: InputTokens, IgnoreCached: true}, 10},
	} {
		if got := c.rules.counted(u); got != c.want {
			t.Errorf("%+v counts %d of %+v, want %d", c.rules, got, u, c.want)
		}
	}
}

func TestBatchIsAppliedOnceAndOldOnesAreRefused(t *testing.T) {
	p := newTable().model("m", Limits{Requests: Of(10)}, Reservation{})
	l := NewLedger()
	epoch := l.Register(0, "n1", "a")
	b := &Batch{Node: "n1", Epoch: epoch, Seq: 1, Reserves: []Ticket{{Model: "m"}}}
	first, err := l.Apply(0, b, p)
	if err != nil {
		t.Fatal(err)
	}
	want := append([]Decision(nil), first.Decisions...)
	again, err := l.Apply(Time(time.Second), b, p)
	if err != nil || !reflect.DeepEqual(again.Decisions, want) {
		t.Errorf("the same batch again: %+v, %v; want the first answer", again, err)
	}
	if used := l.Inspect(0, p, "m").Used.Requests; used != 1 {
		t.Errorf("counted %d times", used)
	}
	next := l.Register(0, "n1", "b")
	for name, c := range map[string]struct {
		b    Batch
		want error
	}{
		"old epoch":    {Batch{Node: "n1", Epoch: epoch, Seq: 2}, ErrOldEpoch},
		"unknown node": {Batch{Node: "n9", Epoch: next, Seq: 1}, ErrOldEpoch},
		"epoch 0":      {Batch{Node: "n1", Seq: 1}, ErrOldEpoch},
	} {
		if _, err := l.Apply(0, &c.b, p); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := l.Apply(0, &Batch{Node: "n1", Epoch: next, Seq: 5}, p); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(0, &Batch{Node: "n1", Epoch: next, Seq: 4}, p); !errors.Is(err, ErrOldBatch) {
		t.Errorf("older batch: %v, want ErrOldBatch", err)
	}
}

func TestNewProcessRunFreesTheSlotsOfTheOldOne(t *testing.T) {
	p := newTable().model("m", Limits{}, Reservation{})
	p.keys["k"] = &SubjectPolicy{Limits: Limits{Parallel: Of(1)}}
	d := newDriver(t, p)
	tk := Ticket{Model: "m", Key: "k"}
	if !d.ask(tk).Admitted || d.ask(tk).Admitted {
		t.Fatal("the slot is not exclusive")
	}
	if again := d.ledger.Register(d.now, "n1", "run-1"); again != d.epoch {
		t.Fatalf("the same run registered again as %d, want %d", again, d.epoch)
	}
	if d.ask(tk).Admitted {
		t.Fatal("the same run's registration freed its slot")
	}
	d.epoch, d.seq = d.ledger.Register(d.now, "n1", "run-2"), 0
	if !d.ask(tk).Admitted {
		t.Error("a dead run holds its slot")
	}
}

func TestForgottenSubjectsCostNothing(t *testing.T) {
	p := newTable().model("m", Limits{}, Reservation{})
	d := newDriver(t, p)
	for round := range 5 {
		for i := range 1000 {
			id := string(rune('a'+round)) + string(rune('0'+i%10)) + string(rune('A'+i/10%10)) + string(rune('a'+i/100))
			p.keys[id] = &SubjectPolicy{Limits: Limits{Requests: Of(5), Parallel: Of(2)}}
			tk := Ticket{Model: "m", Key: id}
			d.settle(tk, d.ask(tk), Usage{})
		}
		d.now = d.now.Add(time.Minute)
	}
	d.batch(nil)
	if n := len(d.ledger.keys.byID); n != 0 {
		t.Errorf("%d keys remembered after their windows", n)
	}
	if n := d.ledger.keys.expires.len(); n != 0 {
		t.Errorf("%d entries left in the queue", n)
	}
	if n := len(d.ledger.models); n != 0 {
		t.Errorf("%d models remembered after their windows", n)
	}
}
