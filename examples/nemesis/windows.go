package main

import (
	"math"
	"slices"
	"time"
)

// admission is one executed request: its limit was asked after Sent and before
// Arrived at the provider.
type admission struct {
	ID            string
	Sent, Arrived time.Duration
}

// The widths of doubt that are tried, one after the other. Requests that took
// longer are left out of that trial, which can only hide a violation.
var doubts = []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 3 * time.Second}

// clockSlack is how much shorter a window may look from outside.
const clockSlack = 10 * time.Millisecond

// stretch is how much longer a window may last than its length: a new leader's
// clock is behind the old one's by what an entry took to reach it, and a node
// that was started anew has its clock from an answer that took as long.
func (p *Plan) stretch() time.Duration {
	switch p.Profile {
	case "calm":
		return 30 * time.Millisecond
	case "process", "clock":
		return 150 * time.Millisecond
	}
	return time.Second // links and disks are slow
}

// overAdmitted looks for proof that a scope admitted more than limit in a
// window. Windows are at least as long as window and do not overlap, but where
// they begin is not known: a reservation that came to nothing may have opened
// one. So it asks whether any row of windows explains all admissions. It
// returns the request that none can explain, and the width of doubt.
//
// For one width of doubt J, every admission lies within J before its arrival.
// If an admission plan exists at all, one exists in which windows hold runs of
// requests in the order of arrival (two that are the other way round can swap
// windows), so that it is enough to cut the row of arrivals into runs of at
// most limit, the k-th of them inside [sₖ, sₖ+window+stretch+J) with
// sₖ₊₁ ≥ sₖ+window.
func overAdmitted(all []admission, limit int64, window, stretch time.Duration) (culprit admission, doubt time.Duration, found bool) {
	for _, doubt := range doubts {
		var row []admission
		for _, a := range all {
			if a.Arrived-a.Sent <= doubt {
				row = append(row, a)
			}
		}
		slices.SortFunc(row, func(a, b admission) int { return int(a.Arrived - b.Arrived) })
		if i, ok := explain(row, limit, window-clockSlack, stretch+doubt); !ok {
			return row[i], doubt, true
		}
	}
	return admission{}, 0, false
}

// explain cuts the row. earliest[i] is the least time at which the window of a
// run that begins with request i may begin; less is always better.
func explain(row []admission, limit int64, window, doubt time.Duration) (stuck int, ok bool) {
	const never = time.Duration(math.MaxInt64)
	earliest := make([]time.Duration, len(row)+1)
	for i := range earliest {
		earliest[i] = never
	}
	earliest[0] = math.MinInt64 / 2
	for i := range row {
		if earliest[i] == never {
			continue
		}
		stuck = i
		for j := i; j < min(i+int(limit), len(row)); j++ {
			begin := max(earliest[i], row[j].Arrived-window-doubt)
			if begin > row[i].Arrived {
				break
			}
			earliest[j+1] = min(earliest[j+1], begin+window)
			stuck = max(stuck, j)
		}
	}
	return min(stuck+1, len(row)-1), earliest[len(row)] != never
}
