package proxy

import (
	"testing"
	"time"
)

func TestBudgetIsAPartOfTheRequestsAndNeverLessThanTen(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		name     string
		requests int
		ratio    float64
		want     int
	}{
		{"a quiet model", 1, 0.1, freeRetries},
		{"no part", 1000, 0, freeRetries},
		{"a tenth of few", 50, 0.1, freeRetries},
		{"a tenth of many", 1000, 0.1, 100},
		{"all", 30, 1, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b budget
			for range c.requests {
				b.request(start)
			}
			n := 0
			for b.take(start.Add(time.Second), c.ratio) {
				n++
			}
			if n != c.want {
				t.Errorf("%d retries, want %d", n, c.want)
			}
			if b.take(start.Add(49*time.Second), c.ratio) {
				t.Error("a retry within the same minute")
			}
			if !b.take(start.Add(72*time.Second), c.ratio) {
				t.Error("no retry a minute later")
			}
		})
	}
}

func TestLastMinuteSurvivesAClockThatGoesBack(t *testing.T) {
	var m lastMinute
	now := time.Unix(1_800_000_000, 0)
	m.add(now, 1, 0)
	m.add(now.Add(-time.Hour), 1, 1)
	if a, b := m.sum(now.Add(-time.Minute)); a != 2 || b != 1 {
		t.Errorf("%d, %d", a, b)
	}
	if a, b := m.sum(now.Add(time.Hour)); a != 0 || b != 0 {
		t.Errorf("an hour later %d, %d", a, b)
	}
}

func TestHalfOfFiveCallsCoolADeployment(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		name          string
		calls, failed int // the failures come last
		cools         bool
	}{
		{"five in a row after many good ones", 1000, 5, true},
		{"four in a row after many good ones", 1000, 4, false},
		{"four of four say nothing yet", 4, 4, false},
		{"two of five", 5, 2, false},
		{"three of five", 5, 3, true},
		{"half of six", 6, 3, true},
		{"five of five", 5, 5, true},
		{"two of a hundred", 100, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h health
			for range c.calls {
				h.call(now)
			}
			for range c.failed {
				h.fail(now)
			}
			if got := h.failing.left(now); (got > 0) != c.cools {
				t.Errorf("cools for %v", got)
			}
			if got := h.failing.left(now.Add(cooldown)); got != 0 {
				t.Errorf("still cools after its time: %v", got)
			}
		})
	}
}

func TestASuccessEndsARowOfFailures(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var h health
	for range 1000 {
		h.call(now)
	}
	for range 20 {
		for range fewCalls - 1 {
			h.fail(now)
		}
		h.succeed()
	}
	if left := h.failing.left(now); left != 0 {
		t.Errorf("cools for %v", left)
	}
}

func TestTheLatestEndOfAPauseWins(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var p pause
	for _, d := range []time.Duration{3, 60, 1} {
		p.extend(now.Add(d * time.Second))
	}
	if left := p.left(now); left != time.Minute {
		t.Errorf("left %v", left)
	}
}
