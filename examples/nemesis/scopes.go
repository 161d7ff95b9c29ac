package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// threshold is where pools begin to refuse; defaultShare is the pool of keys
// without a priority. The configuration leaves both as they are.
const (
	threshold    = 0.5
	defaultShare = 0.25
)

// bound is what may be executed of a limit in a window's length, of which alone
// is how many of n nodes admit by themselves. A window that only begins when they
// are back may follow what they admitted, as it may follow another window.
func bound(mode string, limit int64, alone, n int) int64 {
	if mode == "share" {
		return limit + limit/int64(n)*int64(alone)
	}
	return limit
}

// alone is how many nodes may have admitted by themselves: those that said so,
// and those that sent no answer.
func (f *Facts) alone() int {
	nodes := map[string]bool{}
	for _, s := range f.Sent {
		if s.Mode == "share" || s.Mode == "" {
			nodes[s.Node] = true
		}
	}
	return len(nodes)
}

// scopes returns the limits that a request counts in, by name.
func (p *Plan) scopes(key KeyPlan, model string) map[string]int64 {
	in := map[string]int64{}
	if limit := p.limit(model); limit > 0 {
		in["model "+model] = limit
		if len(p.Priorities) > 0 && !p.Conserving { // else a pool may have all of it
			share, named := p.Priorities[key.Priority]
			name := key.Priority
			if !named {
				share, name = defaultShare, "default"
			}
			floor := max(int64(float64(limit)*share+1e-9), 1)
			in["model "+model+" priority "+name] = max(floor, int64(math.Ceil(float64(limit)*threshold)))
		}
	}
	if key.RPM > 0 {
		in["key "+key.Name] = key.RPM
	}
	for _, t := range p.Teams {
		if t.Name == key.Team {
			in["team "+t.Name] = t.RPM
		}
	}
	if limit := key.ModelRPM[model]; limit > 0 {
		in["key "+key.Name+" model "+model] = limit
	}
	return in
}

// checkScopes: in no window of any scope more is executed than its limit allows.
func checkScopes(f *Facts) []Violation {
	return judgeScopes(f, "admitted ≤ limit", func(Sent) bool { return true }, func(limit int64) int64 {
		return bound(f.Plan.Mode, limit, f.alone(), f.Plan.Nodes)
	})
}

// checkExact: what the cluster's ledger admitted stays within the limit, whatever
// nodes have admitted by themselves meanwhile.
func checkExact(f *Facts) []Violation {
	if f.Plan.Mode != "share" {
		return nil
	}
	return judgeScopes(f, "admitted by the ledger ≤ limit", func(s Sent) bool { return s.Mode == "exact" }, func(limit int64) int64 { return limit })
}

// judgeScopes holds the requests that count against what each scope may admit in a window.
func judgeScopes(f *Facts, invariant string, counts func(Sent) bool, most func(limit int64) int64) []Violation {
	limits, admitted := map[string]int64{}, map[string][]admission{}
	for _, e := range f.Executed {
		s := f.Sent[e.ID]
		if !counts(s) {
			continue
		}
		for name, limit := range f.Plan.scopes(f.Keys[s.Key], s.Model) {
			limits[name] = most(limit)
			admitted[name] = append(admitted[name], admission{ID: e.ID, Sent: s.At, Arrived: e.At})
		}
	}
	var found []Violation
	for _, name := range slices.Sorted(maps.Keys(admitted)) {
		all, limit := admitted[name], limits[name]
		if f.Plan.OneWindow {
			if n := int64(len(all)); n > limit {
				found = append(found, violated(invariant, "%s: the provider executed %d of %d in one window; the last is %s", name, n, limit, all[n-1].ID))
			}
			continue
		}
		if a, doubt, over := overAdmitted(all, limit, f.Plan.Window, f.Plan.stretch()); over {
			found = append(found, violated(invariant, "%s, limit %d in %s: no row of windows explains request %s (sent %s, executed %s, doubt %s)\n%s",
				name, limit, f.Plan.Window, a.ID, a.Sent, a.Arrived, doubt, around(all, a, limit)))
		}
	}
	return found
}

// checkShares: in any window's length a node admits by itself at most its part
// of a limit. Pools are left out, because they borrow.
func checkShares(f *Facts) []Violation {
	type part struct {
		node, scope string
		most        int64
	}
	admitted := map[part][]admission{}
	for _, e := range f.Executed {
		s := f.Sent[e.ID]
		if s.Mode != "share" {
			continue
		}
		for name, limit := range f.Plan.scopes(f.Keys[s.Key], s.Model) {
			if !strings.Contains(name, " priority ") {
				k := part{s.Node, name, limit / int64(f.Plan.Nodes)}
				admitted[k] = append(admitted[k], admission{ID: e.ID, Sent: s.At, Arrived: e.At})
			}
		}
	}
	var found []Violation
	for p, all := range admitted {
		slices.SortFunc(all, func(a, b admission) int { return int(a.Sent - b.Sent) })
		for i := int(p.most); i < len(all); i++ {
			run := all[i-int(p.most) : i+1]
			last := slices.MaxFunc(run, func(a, b admission) int { return int(a.Arrived - b.Arrived) })
			if d := last.Arrived - run[0].Sent; d < f.Plan.Window-clockSlack {
				found = append(found, violated("a node alone admits its part", "%s admitted %d of %s by itself within %s, its part is %d; the last is %s", p.node, len(run), p.scope, d, p.most, last.ID))
				break
			}
		}
	}
	return found
}

// around shows what else was executed before a request.
func around(all []admission, a admission, limit int64) string {
	i := slices.IndexFunc(all, func(o admission) bool { return o.ID == a.ID })
	text := ""
	for _, o := range all[max(i-int(min(2*limit, 40)), 0) : i+1] {
		text += fmt.Sprintf("    %s sent %s executed %s\n", o.ID, o.Sent, o.Arrived)
	}
	return text
}

// checkOnce: what was answered is what was executed, and nothing is executed twice.
func checkOnce(f *Facts) []Violation {
	times := map[string]int{}
	for _, e := range f.Executed {
		times[e.ID]++
	}
	var found []Violation
	for _, id := range slices.Sorted(maps.Keys(times)) {
		if _, ok := f.Sent[id]; !ok {
			found = append(found, violated("executed at most once", "request %q was executed and never sent", id))
		}
		if times[id] > 1 {
			found = append(found, violated("executed at most once", "%+v was executed %d times", f.Sent[id], times[id]))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(f.Sent)) {
		s := f.Sent[id]
		switch {
		case s.Status == 200 && times[id] == 0:
			found = append(found, violated("an answer is the provider's", "%+v was answered and never executed", s))
		case (s.Status == 429 || s.LimitedBy != "") && times[id] > 0:
			found = append(found, violated("a refusal executes nothing", "%+v was refused and executed", s))
		case s.Status == 401 || s.Status == 403 || s.Status == 404 || s.Status == 400:
			found = append(found, violated("an acknowledged key is known everywhere", "%+v", s))
		}
	}
	return found
}

const (
	leastFill    = 0.97
	leastDemand  = 2 // times the limit; below, a window may well not be full
	answerTokens = 30
)

// fill returns executed ÷ what the windows of the run could hold, for a model
// with demand beyond its limit from keys that nothing else limits.
func fill(f *Facts, m ModelPlan) (ratio float64, ok bool) {
	demand, executed := 0, 0
	var first, last time.Duration // of those requests
	for _, s := range f.Sent {
		if s.Model == m.Name && f.Keys[s.Key].plain() {
			if demand++; demand == 1 {
				first = s.At
			}
			first, last = min(first, s.At), max(last, s.At)
		}
	}
	for _, e := range f.Executed {
		if f.Sent[e.ID].Model == m.Name {
			executed++
		}
	}
	windows := 1.0
	if !f.Plan.OneWindow {
		windows = math.Floor((last - first).Seconds() / (f.Plan.Window.Seconds() + 0.1))
		// The next window begins with the next request.
		if m.RPM < 10 {
			return 0, false
		}
	}
	want := windows * float64(m.RPM)
	if m.RPM == 0 || windows == 0 || float64(demand) < leastDemand*want {
		return 0, false
	}
	return float64(executed) / want, true
}

// checkFill: without faults, demand beyond a limit is served the limit.
func checkFill(f *Facts) []Violation {
	if f.Plan.Profile != "calm" {
		return nil
	}
	var found []Violation
	for _, m := range f.Plan.Models {
		if ratio, ok := fill(f, m); ok && ratio < leastFill {
			found = append(found, violated("demand beyond a limit fills it", "model %s, limit %d: %.3f of what its windows hold", m.Name, m.RPM, ratio))
		}
	}
	return append(found, checkTokens(f)...)
}

// checkTokens: without faults, a token limit is overshot by what is in flight at most.
func checkTokens(f *Facts) []Violation {
	if !f.Plan.OneWindow {
		return nil
	}
	var found []Violation
	for _, m := range f.Plan.Models {
		executed := int64(0)
		for _, e := range f.Executed {
			if f.Sent[e.ID].Model == m.Name {
				executed++
			}
		}
		if most := m.TPM + answerTokens*int64(f.Plan.Workers); m.TPM > 0 && executed*answerTokens > most {
			found = append(found, violated("tokens stay below the limit and what is in flight", "model %s, limit %d: %d tokens, at most %d", m.Name, m.TPM, executed*answerTokens, most))
		}
	}
	return found
}
