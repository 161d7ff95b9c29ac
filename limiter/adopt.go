package limiter

import (
	"slices"
	"strings"
	"time"
)

// Adopt returns what a cluster counts that takes over another one's state: own
// is its ledger, other the one taken over, both by the same clock. Windows that
// are over at now are left out. Where both have counted in a window, the
// counts are added and the later window holds: what was served by either
// cluster was taken from the same upstream, and no window lasts longer than its
// own length from now.
//
// Process runs and the requests they have in flight are of neither: every node
// registers again, and gets an epoch that no run of either cluster ever had.
func Adopt(own, other LedgerState, now Time, window time.Duration) LedgerState {
	other = other.withoutLoans()
	return LedgerState{
		Epoch:  max(own.Epoch, other.Epoch),
		Models: mergeCounts(own.Models, other.Models, now, window),
		Keys:   mergeSubjects(own.Keys, other.Keys, now, window),
		Teams:  mergeSubjects(own.Teams, other.Teams, now, window),
	}
}

// Shift returns the state with all its times moved by d.
func (st LedgerState) Shift(d time.Duration) LedgerState {
	return st.mapCounts(func(c CountState) CountState {
		c.Start = c.Start.Add(d)
		if c.Lent != 0 {
			c.Lent = c.Lent.Add(d)
		}
		return c
	})
}

// withoutLoans returns the state without permits that may come back: the nodes
// that hold them belong to another cluster.
func (st LedgerState) withoutLoans() LedgerState {
	return st.mapCounts(func(c CountState) CountState {
		c.Lent = 0
		return c
	})
}

// mapCounts returns a deep copy with f applied to every window. A pool has no
// start of its own, and keeps its loans' end.
func (st LedgerState) mapCounts(f func(CountState) CountState) LedgerState {
	each := func(list []CountState) []CountState {
		out := make([]CountState, len(list))
		for i, c := range list {
			out[i] = f(c)
			out[i].Pools = make([]CountState, len(c.Pools))
			for j, p := range c.Pools {
				moved := f(p)
				moved.Start = p.Start
				out[i].Pools[j] = moved
			}
		}
		return out
	}
	subjects := func(list []SubjectState) []SubjectState {
		out := make([]SubjectState, len(list))
		for i, s := range list {
			out[i] = s
			if s.Total != nil {
				total := f(*s.Total)
				out[i].Total = &total
			}
			out[i].Models = each(s.Models)
		}
		return out
	}
	st.Models, st.Keys, st.Teams = each(st.Models), subjects(st.Keys), subjects(st.Teams)
	return st
}

// mergeCounts adds two lists of windows, without those that are over.
func mergeCounts(a, b []CountState, now Time, window time.Duration) []CountState {
	return merge(a, b, func(c CountState) string { return c.Name },
		func(c CountState) bool { return now < c.Start.Add(window) }, addCounts)
}

func addCounts(a, b CountState) CountState {
	a.Start = max(a.Start, b.Start)
	a.Requests, a.Tokens, a.Lent = a.Requests+b.Requests, a.Tokens+b.Tokens, max(a.Lent, b.Lent)
	a.Pools = merge(a.Pools, b.Pools, func(c CountState) string { return c.Name },
		func(CountState) bool { return true }, func(x, y CountState) CountState {
			x.Requests, x.Tokens, x.Lent = x.Requests+y.Requests, x.Tokens+y.Tokens, max(x.Lent, y.Lent)
			return x
		})
	return a
}

// mergeSubjects adds two lists of keys or teams, without slots and without
// those of which no window runs.
func mergeSubjects(a, b []SubjectState, now Time, window time.Duration) []SubjectState {
	live := func(list []SubjectState) []SubjectState {
		out := make([]SubjectState, len(list))
		for i, s := range list {
			out[i] = SubjectState{ID: s.ID, Models: mergeCounts(s.Models, nil, now, window)}
			if s.Total != nil && now < s.Total.Start.Add(window) {
				out[i].Total = s.Total
			}
		}
		return out
	}
	return merge(live(a), live(b), func(s SubjectState) string { return s.ID },
		func(s SubjectState) bool { return s.Total != nil || len(s.Models) > 0 },
		func(x, y SubjectState) SubjectState {
			switch {
			case x.Total == nil:
				x.Total = y.Total
			case y.Total != nil:
				sum := addCounts(*x.Total, *y.Total)
				x.Total = &sum
			}
			x.Models = mergeCounts(x.Models, y.Models, now, window)
			return x
		})
}

// merge joins two lists by name, in the order of the names; keep chooses, add
// makes one of two of the same name.
func merge[T any](a, b []T, name func(T) string, keep func(T) bool, add func(x, y T) T) []T {
	at := map[string]int{}
	var out []T
	for _, v := range slices.Concat(a, b) {
		if !keep(v) {
			continue
		}
		if i, ok := at[name(v)]; ok {
			out[i] = add(out[i], v)
			continue
		}
		at[name(v)] = len(out)
		out = append(out, v)
	}
	slices.SortFunc(out, func(x, y T) int { return strings.Compare(name(x), name(y)) })
	return out
}
