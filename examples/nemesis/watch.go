package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"sluice/examples/harness"
)

// WindowSeen is a model's window as a node showed it in GET /limits.
type WindowSeen struct {
	Node, Model string
	At, Done    time.Duration // when it was asked, and had answered
	Start       time.Duration // as the node says
	Used        int64
}

// watcher asks the nodes for the windows of all models while the load runs.
type watcher struct {
	epoch time.Time
	mu    sync.Mutex
	seen  []WindowSeen
}

const watchEvery = 200 * time.Millisecond

// watch asks one node until ctx ends.
func (w *watcher) watch(ctx context.Context, n *harness.Node) {
	for ; ctx.Err() == nil; sleep(ctx, watchEvery) {
		at := time.Since(w.epoch)
		r, err := n.Admin().Get(within(ctx, 2*time.Second), "/limits")
		var l struct {
			Models []harness.ModelLimits `json:"models"`
		}
		if err != nil || r.Status != 200 || json.Unmarshal(r.Body, &l) != nil {
			continue
		}
		done := time.Since(w.epoch)
		w.mu.Lock()
		for _, m := range l.Models {
			if m.StartedAt != nil {
				w.seen = append(w.seen, WindowSeen{Node: n.ID, Model: m.Model, At: at, Done: done, Start: m.StartedAt.Sub(w.epoch), Used: m.RPM.Used})
			}
		}
		w.mu.Unlock()
	}
}

const (
	// startSlack is how much later than the ledger a node may believe that a
	// window began: what an entry takes from the leader to it. It may show an
	// earlier start, too, by what the answer took: the time of day that it
	// counts back from is that of the question.
	startSlack = 250 * time.Millisecond
	// slowAnswer is what an answer may take that is believed.
	slowAnswer = 300 * time.Millisecond
)

// seenStart is what observations say of one window: it began before Before, and
// not before After.
type seenStart struct{ After, Before time.Duration }

// checkWindowsSeen: where a window was seen to begin, no more than the limit is
// executed in it, and no node ever shows more than that.
func checkWindowsSeen(f *Facts) []Violation {
	var found []Violation
	seen := map[string][]WindowSeen{}
	for _, w := range f.Windows {
		limit := bound(f.Plan.Mode, f.Plan.limit(w.Model), f.alone(), f.Plan.Nodes)
		if f.Plan.limit(w.Model) == 0 {
			continue
		}
		if w.Used > limit {
			found = append(found, violated("used ≤ limit", "%s showed %d of %d for model %s at %s", w.Node, w.Used, limit, w.Model, w.At))
		}
		if w.Done-w.At <= slowAnswer {
			seen[w.Model] = append(seen[w.Model], w)
		}
	}
	if f.Plan.OneWindow {
		return append(found, checkCounted(f)...)
	}
	for _, model := range slices.Sorted(maps.Keys(seen)) {
		limit := bound(f.Plan.Mode, f.Plan.limit(model), f.alone(), f.Plan.Nodes)
		for _, began := range starts(seen[model], f.Plan.Window/2) {
			start, end, inside := began.Before, began.After+f.Plan.Window, []string{}
			for _, e := range f.Executed {
				if s := f.Sent[e.ID]; s.Model == model && s.At >= start && e.At < end {
					inside = append(inside, fmt.Sprintf("%s sent %s executed %s", e.ID, s.At, e.At))
				}
			}
			if int64(len(inside)) > limit {
				found = append(found, violated("admitted ≤ limit", "model %s: in the window that began at %s the provider executed %d of %d:\n%s",
					model, start, len(inside), limit, lines(inside)))
			}
		}
	}
	return found
}

// checkCounted: all that was executed in the one window is counted in it, but for
// what nodes admitted by themselves: those that are killed report nothing, and
// where no window runs nothing is counted.
func checkCounted(f *Facts) []Violation {
	used, executed := map[string]int64{}, map[string]int64{}
	for _, w := range f.Windows {
		used[w.Model] = max(used[w.Model], w.Used)
	}
	for _, e := range f.Executed {
		if s := f.Sent[e.ID]; f.Plan.Mode != "share" || s.Mode == "exact" {
			executed[s.Model]++
		}
	}
	var found []Violation
	for _, m := range f.Plan.Models {
		if n, shown := used[m.Name]; m.RPM > 0 && shown && n < executed[m.Name] {
			found = append(found, violated("all that is executed is counted", "model %s: at most %d were shown as used, %d were executed", m.Name, n, executed[m.Name]))
		}
	}
	return found
}

// starts parts observations into windows, whose starts lie at least gap apart.
func starts(all []WindowSeen, gap time.Duration) []seenStart {
	slices.SortFunc(all, func(a, b WindowSeen) int { return int(a.Start - b.Start) })
	var found []seenStart
	first := time.Duration(0)
	for i, w := range all {
		if i == 0 || w.Start-first > gap {
			first = w.Start
			found = append(found, seenStart{After: w.Start - startSlack, Before: w.Start + w.Done - w.At})
		}
		s := &found[len(found)-1]
		s.After, s.Before = max(s.After, w.Start-startSlack), min(s.Before, w.Start+w.Done-w.At)
	}
	return found
}

func lines(all []string) string {
	text := ""
	for _, l := range all {
		text += "    " + l + "\n"
	}
	return text
}
