package limiter

import "time"

// tablePolicy is a Policy written out by a test.
type tablePolicy struct {
	version uint64
	rules   Rules
	models  map[string]*ModelPolicy
	keys    map[string]*SubjectPolicy
	teams   map[string]*SubjectPolicy
}

func newTable() *tablePolicy {
	return &tablePolicy{
		rules:  Rules{Window: time.Minute},
		models: map[string]*ModelPolicy{},
		keys:   map[string]*SubjectPolicy{},
		teams:  map[string]*SubjectPolicy{},
	}
}

func (p *tablePolicy) Version() uint64                { return p.version }
func (p *tablePolicy) Rules() Rules                   { return p.rules }
func (p *tablePolicy) Model(name string) *ModelPolicy { return p.models[name] }
func (p *tablePolicy) Key(id string) *SubjectPolicy   { return p.keys[id] }
func (p *tablePolicy) Team(id string) *SubjectPolicy  { return p.teams[id] }

var _ Policy = (*tablePolicy)(nil)

func share(f float64) Share { return Share{Kind: SharePercent, Value: f} }

// model adds a model whose pools are cut by r.
func (p *tablePolicy) model(name string, l Limits, r Reservation) *tablePolicy {
	m, _, err := NewModelPolicy(name, l, r)
	if err != nil {
		panic(err)
	}
	p.models[name] = m
	return p
}
