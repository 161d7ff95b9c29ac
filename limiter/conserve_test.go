package limiter

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// conserving returns a table with one model under work-conserving allocation.
func conserving(l Limits, hold float64, def float64, shares map[string]float64) *tablePolicy {
	r := Reservation{Default: def, Threshold: 0.5, Shares: map[string]Share{}}
	for name, s := range shares {
		r.Shares[name] = share(s)
	}
	p := newTable().model("m", l, r)
	p.rules.Sharing = Sharing{Conserving: true, HoldBack: hold, Active: 10 * time.Second}
	return p
}

// demand is how many requests a pool sends one after the other.
type demand struct {
	pool string
	n    int
}

// serve plays demands and returns how many of each pool were served, each of
// them using one token.
func (d *driver) serve(demands []demand) map[string]int {
	served := map[string]int{}
	for _, dm := range demands {
		for range dm.n {
			tk := Ticket{Model: "m", Key: "k", Priority: dm.pool}
			if dec := d.ask(tk); dec.Admitted {
				served[dm.pool]++
				d.settle(tk, dec, Usage{Input: 1})
			}
		}
	}
	return served
}

func roundRobin(rounds int, pools ...string) (out []demand) {
	for range rounds {
		for _, p := range pools {
			out = append(out, demand{p, 1})
		}
	}
	return out
}

func TestWorkConservingServesAllOfTheLimitAndEveryFloor(t *testing.T) {
	halves, quarters := map[string]float64{"a": .5, "b": .5}, map[string]float64{"a": .75, "b": .25}
	small := map[string]float64{"a": .5, "b": .2, "c": .05}
	both := []demand{{"a", 1}, {"b", 1}}
	for _, c := range []struct {
		name   string
		shares map[string]float64
		def    float64
		hold   float64
		before []demand // in the window before
		play   []demand
		want   map[string]int
	}{
		{"a lone pool gets everything", halves, 0, 0, nil, []demand{{"a", 200}}, map[string]int{"a": 100}},
		{"a lone pool gets all but what is held back", halves, 0, .1, nil, []demand{{"a", 200}}, map[string]int{"a": 90}},
		{"but never less than its own floor", quarters, 0, .6, nil, []demand{{"a", 200}}, map[string]int{"a": 75}},
		{"the smaller one is held back more", quarters, 0, .6, nil, []demand{{"b", 200}}, map[string]int{"b": 40}},
		{"nothing is held back for pools without a floor", map[string]float64{"a": 1}, 0, .5, nil, []demand{{"a", 200}}, map[string]int{"a": 100}},
		{"75/25, the larger first", quarters, .25, 0, both, []demand{{"a", 200}, {"b", 200}}, map[string]int{"a": 75, "b": 25}},
		{"75/25, the smaller first", quarters, .25, 0, both, []demand{{"b", 200}, {"a", 200}}, map[string]int{"a": 75, "b": 25}},
		{"75/25 side by side", quarters, .25, 0, nil, roundRobin(200, "b", "a"), map[string]int{"a": 75, "b": 25}},
		{"75/25 with a part held back", quarters, .25, .2, both, []demand{{"b", 200}, {"a", 200}}, map[string]int{"a": 75, "b": 25}},
		{"a floor is kept as long as its pool is active", quarters, 0, 0, both, []demand{{"b", 20}, {"a", 200}, {"b", 5}}, map[string]int{"a": 75, "b": 25}},
		{"what no share names goes to whoever comes", small, .05, 0, nil, roundRobin(100, "a", "b", "c", ""), map[string]int{"a": 50, "b": 20, "c": 15, "": 15}},
		{"small floors are kept from the large", small, .05, 0, []demand{{"a", 1}, {"b", 1}, {"c", 1}, {"", 1}}, []demand{{"a", 200}, {"b", 200}, {"c", 200}, {"", 200}}, map[string]int{"a": 70, "b": 20, "c": 5, "": 5}},
		{"who comes late gets what is left", quarters, 0, 0, nil, []demand{{"a", 90}, {"b", 200}, {"a", 1}}, map[string]int{"a": 90, "b": 10}},
		{"two that come late share what is left", small, 0, 0, nil, append([]demand{{"c", 90}}, roundRobin(20, "a", "b")...), map[string]int{"c": 90, "a": 5, "b": 5}},
		{"floors that are lent are paid first", quarters, 0, 0, nil, []demand{{"a", 80}, {"b", 1}, {"a", 50}, {"b", 50}}, map[string]int{"a": 80, "b": 20}},
	} {
		for _, dim := range []struct {
			name   string
			limits Limits
		}{{"requests", Limits{Requests: Of(100)}}, {"tokens", Limits{Tokens: Of(100)}}} {
			t.Run(c.name+"/"+dim.name, func(t *testing.T) {
				d := newDriver(t, conserving(dim.limits, c.hold, c.def, c.shares))
				if c.before != nil {
					d.serve(c.before)
					d.now = d.now.Add(59 * time.Second)
					d.serve(c.before)
					d.now = d.now.Add(2 * time.Second)
				}
				got := d.serve(c.play)
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("served %v, want %v", got, c.want)
				}
			})
		}
	}
}

func TestFloorsAddUpToTheLimitAtMost(t *testing.T) {
	p := conserving(Limits{Requests: Of(100), Tokens: Of(1000)}, 0, .25, map[string]float64{"a": .75, "b": .2})
	m := p.models["m"]
	if m.Default.Floor != (Limits{Requests: Of(5), Tokens: Of(50)}) || m.Default.Limits != (Limits{Requests: Of(25), Tokens: Of(250)}) {
		t.Errorf("the default pool: floor %v, limits %v", m.Default.Floor, m.Default.Limits)
	}
	if a := m.Pools["a"]; a.Floor != a.Limits {
		t.Errorf("a named pool: floor %v, limits %v", a.Floor, a.Limits)
	}
}

func TestIdlePoolsGiveUpTheirFloor(t *testing.T) {
	d := newDriver(t, conserving(Limits{Requests: Of(100)}, 0, 0, map[string]float64{"a": .75, "b": .25}))
	d.serve([]demand{{"b", 1}})
	d.now = d.now.Add(4 * time.Second)
	if got := d.serve([]demand{{"a", 200}}); got["a"] != 75 {
		t.Fatalf("a was served %d beside an active b, want 75", got["a"])
	}
	dec := d.ask(Ticket{Model: "m", Priority: "a"})
	if dec.Admitted || dec.Scope != ScopePool || dec.RetryIn != 6*time.Second || dec.ResetIn != 56*time.Second {
		t.Fatalf("%+v, want refused by its pool until b is idle, in 6 s", dec)
	}
	d.now = d.now.Add(dec.RetryIn)
	if got := d.serve([]demand{{"a", 200}}); got["a"] != 24 {
		t.Errorf("a was served %d more beside an idle b, want all 24 that were left", got["a"])
	}
}

func TestRefusedRequestsKeepAPoolActive(t *testing.T) {
	p := conserving(Limits{Requests: Of(100)}, 0, 0, map[string]float64{"a": .75, "b": .25})
	p.keys["shut"] = &SubjectPolicy{Limits: Limits{Requests: Of(0)}}
	d := newDriver(t, p)
	d.serve([]demand{{"a", 100}})
	d.now = d.now.Add(55 * time.Second)
	if d.ask(Ticket{Model: "m", Priority: "b"}).Admitted {
		t.Fatal("admitted beyond the model's limit")
	}
	d.ask(Ticket{Model: "m", Priority: "", Key: "shut"})
	d.now = d.now.Add(6 * time.Second)
	if got := d.serve([]demand{{"a", 200}}); got["a"] != 75 {
		t.Errorf("a was served %d, want 75: b waits", got["a"])
	}
	if n := d.ledger.activePools(d.now, "m"); n != 2 {
		t.Errorf("%d pools are active; who is kept out by a limit of its own does not wait for the model", n)
	}
}

func TestActivityIsForgotten(t *testing.T) {
	p := conserving(Limits{Requests: Of(10)}, 0, 0, map[string]float64{"a": .75, "b": .25})
	p.models["n"] = p.models["m"]
	d := newDriver(t, p)
	for range 20 {
		d.ask(Ticket{Model: "m", Priority: "a"})
		d.now = d.now.Add(7 * time.Second)
		d.ask(Ticket{Model: "n", Priority: "b"})
	}
	d.ledger = reload(t, d.ledger, d.now, p.rules.Window)
	if len(d.ledger.active) != 2 {
		t.Errorf("%v after a reload, want both models", d.ledger.active)
	}
	d.now = d.now.Add(time.Hour)
	d.batch(nil)
	d.now = d.now.Add(time.Hour)
	d.batch(nil)
	if len(d.ledger.active) != 0 || d.ledger.lapses.len() != 0 {
		t.Errorf("%v and %d entries are left", d.ledger.active, d.ledger.lapses.len())
	}
}

func (l *sharedLog) pool(model, name string) Used {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.ledger.Inspect(l.now(), l.policy, model).Pools {
		if p.Name == name {
			return p.Used
		}
	}
	return Used{}
}

func (l *sharedLog) entries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.batches
}

// TestFloorsHoldOverNodesWithPermits lets two pools ask for far more than there
// is on three nodes, with permits and remembered refusals.
func TestFloorsHoldOverNodesWithPermits(t *testing.T) {
	for _, c := range []struct {
		name string
		hold float64
		rate map[string]float64 // per second and node
		want map[string][2]int64
	}{
		{"both", 0, map[string]float64{"a": 100, "b": 100}, map[string][2]int64{"a": {750, 750}, "b": {250, 250}}},
		{"both, one much faster", 0, map[string]float64{"a": 30, "b": 400}, map[string][2]int64{"a": {750, 750}, "b": {250, 250}}},
		{"one that needs less than its floor", 0, map[string]float64{"a": 15, "b": 200}, map[string][2]int64{"a": {350, 550}, "b": {250, 250}}},
		{"a lone one", 0, map[string]float64{"b": 200}, map[string][2]int64{"b": {1000, 1000}}},
		{"a lone one with a part held back", .1, map[string]float64{"b": 200}, map[string][2]int64{"b": {900, 900}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := conserving(Limits{Requests: Of(1000)}, c.hold, .25, map[string]float64{"a": .75, "b": .25})
				p.rules.Window, p.rules.Sharing.Active = 10*time.Second, 2*time.Second
				l := newCluster(t, 3, p, 500*time.Millisecond)
				defer l.close(t)
				demand := func(d time.Duration) {
					var wg sync.WaitGroup
					for pool, rate := range c.rate {
						wg.Go(func() {
							l.play(t, d, []float64{rate, rate, rate}, func(int) Ticket { return Ticket{Model: "m", Key: "k", Priority: pool} })
						})
					}
					wg.Wait()
				}
				demand(l.policy.rules.Window) // which ends a moment before the window does
				before := l.entries()
				time.Sleep(100 * time.Millisecond)
				demand(9 * time.Second)
				time.Sleep(700 * time.Millisecond) // until the last permits are back
				for pool, want := range c.want {
					if n := l.pool("m", pool).Requests; n < want[0] || n > want[1] {
						t.Errorf("%q was served %d, want %v", pool, n, want)
					}
				}
				if used := l.used("m").Requests; used > 1000 {
					t.Errorf("%d of 1000 are counted", used)
				}
				if n := l.entries() - before; n > 9*30*3 {
					t.Errorf("%d entries in 9 s on three nodes, want at most 30 a second and node", n)
				}
			})
		})
	}
}

// TestWarmPoolStaysActive lets a pool live on permits for longer than pools
// count as active.
func TestWarmPoolStaysActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := conserving(Limits{Requests: Of(1_000_000)}, 0, 0, map[string]float64{"a": .75, "b": .25})
		p.rules.Sharing.Active = time.Second
		l := newCluster(t, 1, p, time.Minute)
		defer l.close(t)
		tk := Ticket{Model: "m", Key: "k", Priority: "b"}
		for range 2000 {
			if !admitted(l.gates[0], tk) {
				t.Fatal("refused")
			}
			time.Sleep(5 * time.Millisecond)
			l.mu.Lock()
			if n := l.ledger.activePools(l.now(), "m"); n != 1 {
				t.Fatalf("%d pools are active at %v, want the one that is served", n, l.now())
			}
			l.mu.Unlock()
		}
		if n := l.entries(); n > 400 {
			t.Errorf("%d entries for 2000 requests", n)
		}
	})
}
