package proxy

import (
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"sluice/fsm"
)

// poolOf makes a pool whose targets are told apart by their ID.
func poolOf(targets ...*target) *pool {
	for i, t := range targets {
		if t.Deployment == nil {
			t.Deployment = &fsm.Deployment{}
		}
		t.ID, t.health = string(rune('a'+i)), &health{}
		t.weight = max(t.weight, 1)
		t.lone = len(targets) == 1
	}
	return &pool{targets: targets}
}

func ordered(n int64) *target { return &target{Deployment: &fsm.Deployment{Order: n}} }

// hits counts what 400 evenly spread draws choose.
func hits(p *pool, now time.Time, tried ...*target) map[string]int {
	n := map[string]int{}
	for i := range uint64(400) {
		id := "none"
		if d := p.pick(i*(math.MaxUint64/400), now, tried); d != nil {
			id = d.ID
		}
		n[id]++
	}
	return n
}

func TestPickFollowsWeights(t *testing.T) {
	p := poolOf(&target{weight: 1}, &target{weight: 3})
	if h := hits(p, time.Now()); h["a"] < 99 || h["a"] > 101 {
		t.Errorf("hits %v, want about 100 and 300", h)
	}
	if h := hits(&pool{}, time.Now()); h["none"] != 400 {
		t.Errorf("a pool without targets picked %v", h)
	}
}

func TestPickTakesTheNextOrderOnlyIfTheLowerOnesCannot(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := poolOf(ordered(1), ordered(1), ordered(2), ordered(3))
	a, b, c := p.targets[0], p.targets[1], p.targets[2]
	only := func(step string, h map[string]int, ids ...string) {
		t.Helper()
		for id := range h {
			if !slices.Contains(ids, id) {
				t.Errorf("%s: %v, want only %v", step, h, ids)
			}
		}
		if len(h) != len(ids) {
			t.Errorf("%s: %v, want all of %v", step, h, ids)
		}
	}
	only("all are well", hits(p, now), "a", "b")
	only("one was tried", hits(p, now, a), "b")
	b.health.throttled.extend(now.Add(time.Second))
	only("the other rests", hits(p, now, a), "c")
	only("one rests", hits(p, now), "a")
	c.health.failing.extend(now.Add(time.Second))
	only("two orders cannot", hits(p, now, a), "d")
	only("nobody can", hits(p, now, a, p.targets[3]), "none")
	only("later", hits(p, now.Add(time.Second)), "a", "b")
}

func TestWhatIsSaidWhenNoDeploymentTakesTraffic(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	throttle := func(d time.Duration) func(*target) {
		return func(t *target) { t.health.throttled.extend(now.Add(d)) }
	}
	fail := func(t *target) { t.health.failing.extend(now.Add(cooldown)) }
	for _, c := range []struct {
		name   string
		a, b   func(*target)
		status int
		after  int64
		by     string
	}{
		{"both throttled: when the first is free", throttle(17*time.Second + 1), throttle(time.Minute), http.StatusTooManyRequests, 18, "upstream"},
		{"both fail", fail, fail, http.StatusServiceUnavailable, 5, ""},
		{"one of each", throttle(time.Minute), fail, http.StatusServiceUnavailable, 5, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := poolOf(&target{}, &target{})
			c.a(p.targets[0])
			c.b(p.targets[1])
			if e := p.unavailable(now, "m"); e.Status != c.status || e.RetryAfter != c.after || e.LimitedBy != c.by {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestTheOnlyDeploymentRestsForItsQuotaGroupOnly(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	d := &target{quota: &pause{}}
	p := poolOf(d)
	d.health.throttled.extend(now.Add(time.Minute))
	d.health.failing.extend(now.Add(time.Minute))
	if p.pick(0, now, nil) != d {
		t.Error("it rests by itself")
	}
	d.quota.extend(now.Add(time.Minute))
	if p.pick(0, now, nil) != nil {
		t.Error("it does not rest with its group")
	}
	if left, throttled := p.rest(now); left != time.Minute || !throttled {
		t.Errorf("rests %v, %v", left, throttled)
	}
}
