package limiter

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// naive is the rules of admission written as plainly as they can be: it keeps
// every event for ever and counts by looking at all of them.
type naive struct {
	p      *tablePolicy
	events []*naiveEvent
	open   map[string]Time // scope name → start of its newest window
	tries  []naiveTry      // requests that no limit of key or team kept out
}

type naiveEvent struct {
	t       Ticket
	scopes  map[string]Time // scope name → window counted in
	slots   []string
	tokens  int64 // taken in advance, and once it is settled those used
	settled bool
}

type naiveTry struct {
	model, pool string
	at          Time
}

type naiveScope struct {
	name   string
	limits Limits
	windowOf,
	kind string
}

func (n *naive) scopes(t Ticket) (out []naiveScope) {
	add := func(kind, who string, p *SubjectPolicy) {
		if p == nil || who == "" {
			return
		}
		if p.Limits.Any() {
			out = append(out, naiveScope{kind + who, p.Limits, kind + who, "own"})
		}
		if l, ok := p.PerModel[t.Model]; ok {
			out = append(out, naiveScope{kind + who + "/" + t.Model, l, kind + who + "/" + t.Model, "own"})
		}
	}
	add("key:", t.Key, n.p.keys[t.Key])
	add("team:", t.Team, n.p.teams[t.Team])
	if m := n.p.models[t.Model]; m != nil {
		out = append(out, naiveScope{"model:" + t.Model, m.Limits, "model:" + t.Model, "model"})
		if pool := m.Pool(t.Priority); pool != nil {
			out = append(out, naiveScope{"pool:" + t.Model + "/" + pool.Name, pool.Limits, "model:" + t.Model, "pool"})
		}
	}
	return out
}

func (n *naive) running(window string, now Time) (Time, bool) {
	start, ok := n.open[window]
	return start, ok && now < start.Add(n.p.rules.Window)
}

func (n *naive) used(s naiveScope, now Time) (requests, tokens, parallel int64) {
	start, ok := n.running(s.windowOf, now)
	for _, e := range n.events {
		if at, counted := e.scopes[s.name]; counted && ok && at == start {
			requests++
			tokens += e.tokens
		}
		for _, slot := range e.slots {
			if slot == s.name && !e.settled {
				parallel++
			}
		}
	}
	return requests, tokens, parallel
}

func (n *naive) admit(t Ticket, now Time) (*naiveEvent, string) {
	scopes := n.scopes(t)
	full := func(used int64, l Limit) bool { v, ok := l.Get(); return ok && used >= v }
	need := int64(0)
	if n.p.rules.Reserve {
		need = n.p.rules.counted(t.Estimate)
		if why := n.oversize(t, scopes, need); why != "" {
			return nil, why
		}
	}
	short := func(used int64, l Limit) bool {
		v, ok := l.Get()
		if ok && need > v && v > 0 {
			return used > 0 // alone
		}
		return ok && used+max(need, 1) > v
	}
	strict := false
	if m := n.p.models[t.Model]; m != nil {
		r, tok, _ := n.used(naiveScope{name: "model:" + t.Model, windowOf: "model:" + t.Model}, now)
		strict = max(ratio(r, m.Limits.Requests), ratio(tok, m.Limits.Tokens)) >= m.Threshold
	}
	for _, s := range scopes {
		if s.kind == "model" {
			if pool := n.p.models[t.Model].Pool(t.Priority); pool != nil {
				n.tries = append(n.tries, naiveTry{t.Model, pool.Name, now})
			}
		}
		if s.kind == "pool" && n.p.rules.Sharing.Conserving {
			if why := n.conserve(t, now, need); why != "" {
				return nil, s.name + why
			}
			continue
		}
		if s.kind == "pool" && !strict {
			continue
		}
		r, tok, par := n.used(s, now)
		switch {
		case full(par, s.limits.Parallel):
			return nil, s.name + " parallel"
		case full(r, s.limits.Requests):
			return nil, s.name + " requests"
		case short(tok, s.limits.Tokens):
			return nil, s.name + " tokens"
		}
	}
	e := &naiveEvent{t: t, tokens: need, scopes: map[string]Time{}}
	for _, s := range scopes {
		if s.limits.Parallel.IsSet() {
			e.slots = append(e.slots, s.name)
		}
		if s.kind == "own" && !s.limits.Requests.IsSet() && !s.limits.Tokens.IsSet() {
			continue
		}
		if _, ok := n.running(s.windowOf, now); !ok {
			n.open[s.windowOf] = now
		}
		e.scopes[s.name] = n.open[s.windowOf]
	}
	n.events = append(n.events, e)
	return e, ""
}

func (n *naive) oversize(t Ticket, scopes []naiveScope, need int64) string {
	if n.p.rules.Alone {
		return ""
	}
	for _, s := range scopes {
		lends := s.kind == "pool" && (n.p.rules.Sharing.Conserving || n.p.models[t.Model].Threshold > 0)
		if v, ok := s.limits.Tokens.Get(); ok && v > 0 && need > v && !lends {
			return s.name + " oversize"
		}
	}
	return ""
}

// conserve is work-conserving allocation as the documentation puts it.
func (n *naive) conserve(t Ticket, now Time, need int64) string {
	m, s := n.p.models[t.Model], n.p.rules.Sharing
	mine := m.Pool(t.Priority)
	pools := []*PoolPolicy{m.Default}
	for _, p := range m.Pools {
		pools = append(pools, p)
	}
	used := func(p *PoolPolicy) [2]int64 {
		r, tok, _ := n.used(naiveScope{name: "pool:" + t.Model + "/" + p.Name, windowOf: "model:" + t.Model}, now)
		return [2]int64{r, tok}
	}
	floor := func(p *PoolPolicy) [2]int64 { return [2]int64{p.Floor.Requests.n, p.Floor.Tokens.n} }
	r, tok, _ := n.used(naiveScope{name: "model:" + t.Model, windowOf: "model:" + t.Model}, now)
	total, unmet, idle := [2]int64{r, tok}, [2]int64{}, false
	for _, p := range pools {
		active := false
		for _, y := range n.tries {
			active = active || y.model == t.Model && y.pool == p.Name && now < y.at.Add(s.Active)
		}
		missing := [2]int64{max(floor(p)[0]-used(p)[0], 0), max(floor(p)[1]-used(p)[1], 0)}
		switch {
		case p == mine:
		case active:
			unmet[0], unmet[1] = unmet[0]+missing[0], unmet[1]+missing[1]
		case missing != [2]int64{}:
			idle = true
		}
	}
	for dim, l := range []Limit{m.Limits.Requests, m.Limits.Tokens} {
		limit, ok := l.Get()
		more := []int64{1, max(need, 1)}[dim]
		if !ok || used(mine)[dim]+more <= floor(mine)[dim] || dim == 1 && need > limit && limit > 0 && total[dim] == 0 {
			continue
		}
		held := int64(0)
		if idle {
			held = int64(s.HoldBack*float64(limit) + 1e-9)
		}
		if total[dim]+more+unmet[dim]+held > limit {
			return []string{" requests", " tokens"}[dim]
		}
	}
	return ""
}

func randomTable(r *rand.Rand) *tablePolicy {
	lim := func() Limit {
		if r.IntN(3) == 0 {
			return Limit{}
		}
		return Of(int64(r.IntN(12)))
	}
	p := newTable()
	p.rules.Window = time.Duration(5+r.IntN(20)) * time.Second
	if r.IntN(2) == 0 {
		p.rules.Sharing = Sharing{Conserving: true, HoldBack: float64(r.IntN(3)) / 4, Active: time.Duration(1+r.IntN(20)) * time.Second}
	}
	p.rules.Reserve, p.rules.Alone = r.IntN(2) == 0, r.IntN(2) == 0
	for i := range 3 {
		res := Reservation{Default: float64(r.IntN(5)) / 4, Threshold: float64(r.IntN(5)) / 4}
		if r.IntN(3) > 0 {
			res.Shares = map[string]Share{"a": share(r.Float64()), "b": share(r.Float64())}
		}
		p.model(fmt.Sprint("m", i), Limits{Requests: lim(), Tokens: lim()}, res)
	}
	for i := range 4 {
		p.keys[fmt.Sprint("k", i)] = &SubjectPolicy{Limits: Limits{lim(), lim(), lim()}, PerModel: map[string]Limits{"m0": {Requests: Of(int64(r.IntN(4)))}}}
	}
	p.teams["t0"] = &SubjectPolicy{Limits: Limits{lim(), lim(), lim()}}
	return p
}

// TestLedgerAgreesWithTheNaiveModel plays random batches against both, with
// a save and reload at random points; a failing seed is in the test's name.
func TestLedgerAgreesWithTheNaiveModel(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			p := randomTable(r)
			d := newDriver(t, p)
			n := &naive{p: p, open: map[string]Time{}}
			type pair struct {
				e   *naiveEvent
				dec Decision
			}
			var flying []pair
			for step := range 150 {
				d.now = d.now.Add(time.Duration(r.IntN(1500)) * time.Millisecond)
				if len(flying) > 0 && r.IntN(3) > 0 {
					i := r.IntN(len(flying))
					f := flying[i]
					flying = append(flying[:i], flying[i+1:]...)
					f.e.tokens, f.e.settled = int64(r.IntN(3)), true
					d.settle(f.e.t, f.dec, Usage{Input: f.e.tokens})
				}
				tk := Ticket{Model: fmt.Sprint("m", r.IntN(4)), Key: []string{"", "k0", "k1", "k2", "k3", "free"}[r.IntN(6)],
					Team: []string{"", "t0"}[r.IntN(2)], Priority: []string{"", "a", "b", "zzz"}[r.IntN(4)],
					Estimate: Usage{Input: int64(r.IntN(3)), Output: int64(r.IntN(3))}}
				dec := d.ask(tk)
				e, why := n.admit(tk, d.now)
				if dec.Admitted != (e != nil) {
					t.Fatalf("step %d %+v: ledger says %+v, the model refuses by %q", step, tk, dec, why)
				}
				if e != nil {
					flying = append(flying, pair{e, dec})
				} else if dec.Oversize != strings.HasSuffix(why, "oversize") {
					t.Fatalf("step %d: oversize is %v, the model refuses by %q", step, dec.Oversize, why)
				} else if !dec.Oversize && dec.RetryIn <= 0 || dec.RetryIn > max(p.rules.Window, SlotRetry) {
					t.Fatalf("step %d: retry in %v", step, dec.RetryIn)
				}
				if r.IntN(20) == 0 {
					d.ledger = reload(t, d.ledger, d.now, p.rules.Window)
				}
			}
		})
	}
}

// reload sends a ledger through its stored form and checks that nothing is lost.
func reload(t *testing.T, l *Ledger, now Time, window time.Duration) *Ledger {
	t.Helper()
	saved := l.Save(now, window)
	raw, err := json.Marshal(saved)
	if err != nil {
		t.Fatal(err)
	}
	var back LedgerState
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadLedger(back)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(loaded.Save(now, window))
	if err != nil {
		t.Fatal(err)
	}
	if string(raw) != string(again) {
		t.Fatalf("a reload changed the state\nbefore %s\nafter  %s", raw, again)
	}
	return loaded
}

func TestLoadLedgerRefusesWhatNoLedgerCanHold(t *testing.T) {
	for name, st := range map[string]LedgerState{
		"negative requests":  {Models: []CountState{{Name: "m", Requests: -1}}},
		"negative start":     {Models: []CountState{{Name: "m", Start: NoWindow}}},
		"model twice":        {Models: []CountState{{Name: "m"}, {Name: "m"}}},
		"pool twice":         {Models: []CountState{{Name: "m", Pools: []CountState{{Name: "p"}, {Name: "p"}}}}},
		"key twice":          {Keys: []SubjectState{{ID: "k"}, {ID: "k"}}},
		"no slots":           {Teams: []SubjectState{{ID: "t", Slots: []SlotState{{"n", 0}}}}},
		"model active twice": {Active: []ActiveState{{Model: "m"}, {Model: "m"}}},
		"pool active twice":  {Active: []ActiveState{{Model: "m", Pools: []PoolMark{{"p", 1}, {"p", 2}}}}},
		"active never":       {Active: []ActiveState{{Model: "m", Pools: []PoolMark{{"p", -1}}}}},
		"future epoch":       {Epoch: 1, Sessions: []SessionState{{Node: "n", Epoch: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			if l, err := LoadLedger(st); err == nil {
				t.Errorf("loaded %+v", l)
			}
		})
	}
}

func TestSharesAreCutAsDocumented(t *testing.T) {
	limits := Limits{Requests: Of(10), Tokens: Of(1000)}
	for _, c := range []struct {
		name     string
		r        Reservation
		limits   Limits
		want     map[string]int64 // requests of each pool
		warnings int
		wantErr  bool
	}{
		{"fractions", Reservation{Shares: map[string]Share{"a": share(0.9), "b": share(0.1)}, Default: 0.25}, limits, map[string]int64{"a": 9, "b": 1, "": 2}, 0, false},
		{"over 1", Reservation{Shares: map[string]Share{"a": share(0.9), "b": share(0.9)}}, limits, map[string]int64{"a": 5, "b": 5, "": 0}, 1, false},
		{"kinds", Reservation{Shares: map[string]Share{"a": {ShareRPM, 4}, "b": {ShareTPM, 100}}}, limits, map[string]int64{"a": 4, "b": 1, "": 0}, 0, false},
		{"rpm without rpm", Reservation{Shares: map[string]Share{"a": {ShareRPM, 4}}}, Limits{Tokens: Of(5)}, nil, 0, true},
		{"rpm of 0", Reservation{Shares: map[string]Share{"a": {ShareRPM, 4}}}, Limits{Requests: Of(0)}, map[string]int64{"a": 0, "": 0}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, warnings, err := NewModelPolicy("m", c.limits, c.r)
			if (err != nil) != c.wantErr || len(warnings) != c.warnings {
				t.Fatalf("error %v, warnings %q", err, warnings)
			}
			if err != nil {
				return
			}
			got := map[string]int64{"": 0}
			for n, p := range m.Pools {
				got[n], _ = p.Limits.Requests.Get()
			}
			got[""], _ = m.Default.Limits.Requests.Get()
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("pools %v, want %v", got, c.want)
			}
		})
	}
}

func FuzzLimitJSON(f *testing.F) {
	for _, s := range []string{"null", "0", "60", "60.0", "6e1", "-1", `"60"`, "1e400", "NaN", "1.5", "9223372036854775808", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var l Limit
		if l.UnmarshalJSON([]byte(s)) != nil {
			return
		}
		if n, ok := l.Get(); ok && n < 0 {
			t.Errorf("%q became the negative limit %d", s, n)
		}
		raw, err := json.Marshal(l)
		var back Limit
		if err != nil || json.Unmarshal(raw, &back) != nil || back != l {
			t.Errorf("%q became %v, written as %s, read as %v", s, l, raw, back)
		}
	})
}
