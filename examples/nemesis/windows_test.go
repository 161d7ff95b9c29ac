package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func at(arrivals ...time.Duration) []admission {
	var all []admission
	for i, t := range arrivals {
		all = append(all, admission{ID: fmt.Sprint(i), Sent: t - 5*time.Millisecond, Arrived: t})
	}
	return all
}

func times(n int, from, every time.Duration) []time.Duration {
	var all []time.Duration
	for i := range n {
		all = append(all, from+time.Duration(i)*every)
	}
	return all
}

func TestWhatWindowsCanExplain(t *testing.T) {
	const ms, window = time.Millisecond, time.Second
	late := at(times(4, 0, 10*ms)...)
	late[3].Sent, late[3].Arrived = 30*ms, 1900*ms // a node that was stopped delivers late
	for _, c := range []struct {
		name  string
		row   []admission
		limit int64
		over  bool
	}{
		{"nothing", nil, 1, false},
		{"the limit at once", at(times(5, 0, ms)...), 5, false},
		{"the end of one window and the start of the next", at(times(10, 0, ms)...), 5, false},
		{"one more than two windows hold", at(times(11, 0, ms)...), 5, true},
		{"a limit of one, every window", at(times(9, 0, 1010*ms)...), 1, false},
		{"a limit of one, three within a window", at(0, 400*ms, 800*ms), 1, true},
		{"a limit of one, three in two windows' time", at(0, 1000*ms, 1999*ms), 1, false},
		{"a limit of one, a little too fast for long", at(times(20, 0, 800*ms)...), 1, true},
		{"full windows, then one more in the middle", at(slices.Concat(times(5, 0, ms), times(5, 1020*ms, ms), times(6, 2040*ms, ms))...), 5, false},
		{"full windows without a gap for one more", at(slices.Concat(times(5, 0, 100*ms), times(5, 1020*ms, 100*ms), times(6, 1530*ms, 80*ms))...), 5, true},
		{"a late arrival that was admitted early", late, 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a, doubt, over := overAdmitted(c.row, c.limit, window, 0); over != c.over {
				t.Errorf("over %v: request %+v, doubt %s", over, a, doubt)
			}
		})
	}
}

// Runs that keep a limit are never accused, whatever the windows and delays;
// with one request too many in the middle of full windows most are caught.
func TestWindowsAreJudgedSoundly(t *testing.T) {
	caught := 0
	const rounds = 300
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		limit := int64(1 + r.IntN(20))
		window := time.Duration(1000+r.IntN(3000)) * time.Millisecond
		delay := []time.Duration{5 * time.Millisecond, 80 * time.Millisecond, time.Second}[r.IntN(3)]
		var row []admission
		admit := func(start time.Duration) {
			x := start + time.Duration(r.Int64N(int64(window)))
			row = append(row, admission{ID: fmt.Sprint(len(row)), Sent: x - time.Duration(r.Int64N(int64(delay))), Arrived: x + time.Duration(r.Int64N(int64(delay)))})
		}
		for start := time.Duration(0); start < 20*time.Second; start += window + time.Duration(r.IntN(3))*time.Duration(r.IntN(400))*time.Millisecond {
			for range limit - int64(r.IntN(2))*r.Int64N(limit+1) {
				admit(start)
			}
		}
		if a, doubt, over := overAdmitted(row, limit, window, 0); over {
			t.Fatalf("seed %d, limit %d in %s, delay %s: accused for %+v, doubt %s", seed, limit, window, delay, a, doubt)
		}
		row = nil
		for i := range 8 {
			start := time.Duration(i) * window
			for k := range limit {
				x := start + window*time.Duration(k)/time.Duration(limit)
				row = append(row, admission{ID: fmt.Sprint(len(row)), Sent: x - 3*time.Millisecond, Arrived: x + 3*time.Millisecond})
			}
		}
		for range limit { // limit+… in the middle of a row of full windows
			x := 4*window + time.Duration(r.Int64N(int64(window/2)))
			row = append(row, admission{ID: "extra", Sent: x, Arrived: x})
		}
		if _, _, over := overAdmitted(row, limit, window, 0); over {
			caught++
		}
	}
	if caught < rounds*9/10 {
		t.Errorf("only %d of %d doubled windows were caught", caught, rounds)
	}
}
