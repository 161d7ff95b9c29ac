package limiter

import "time"

// ModelState is one model's window as GET /limits shows it.
type ModelState struct {
	Model      string
	Window     time.Duration
	Live       bool          // a window runs; otherwise Used is zero and the durations are too
	Age        time.Duration // since the window opened
	ResetsIn   time.Duration // until it ends
	Limits     Limits
	Used       Used
	Saturation float64
	Threshold  float64
	Conserving bool        // pools take what active ones leave; Threshold means nothing
	Strict     bool        // the model is at its threshold: pools, where there are any, are enforced
	Pools      []PoolState // by name, the default pool last; nil if nothing is reserved
}

// PoolState is one priority's part of a ModelState. Name is "" for the default pool.
type PoolState struct {
	Name   string
	Share  float64
	Limits Limits
	Used   Used
}

// Inspect reports a model's window at now, changing nothing. A model without
// a policy is reported without limits.
func (l *Ledger) Inspect(now Time, p Policy, model string) ModelState {
	window := p.Rules().Window
	ms := ModelState{Model: model, Window: window}
	st := Standing{Start: NoWindow}
	mp := p.Model(model)
	if mp != nil {
		st.Limits, ms.Limits, ms.Threshold = mp.Limits, mp.Limits, mp.Threshold
	}
	m := l.models[model]
	if m != nil {
		st.read(&m.count, now, window)
	}
	if st.Start != NoWindow {
		ms.Live, ms.Age, ms.ResetsIn = true, now.Sub(st.Start), st.Start.Add(window).Sub(now)
	}
	ms.Used, ms.Saturation = st.Used, saturation(&st)
	if mp == nil {
		return ms
	}
	rules := p.Rules()
	ms.Strict = rules.strict(mp, ms.Saturation)
	if mp.Pools == nil {
		return ms
	}
	ms.Conserving = rules.Sharing.Conserving
	for _, name := range sortedNames(mp.Pools) {
		ms.Pools = append(ms.Pools, m.inspectPool(mp.Pools[name], ms.Live))
	}
	ms.Pools = append(ms.Pools, m.inspectPool(mp.Default, ms.Live))
	return ms
}

func (m *modelCount) inspectPool(p *PoolPolicy, live bool) PoolState {
	ps := PoolState{Name: p.Name, Share: p.Share, Limits: p.Limits}
	if live {
		if c := m.pools[p.Name]; c != nil {
			ps.Used = Used{Requests: c.requests, Tokens: c.tokens}
		}
	}
	return ps
}
