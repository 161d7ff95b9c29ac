package fsm

import (
	"slices"
	"strings"

	"sluice/limiter"
)

// View is a consistent picture of keys, teams and configuration. It never
// changes; a newer one replaces it. Any goroutine may read it without a lock.
// Records it returns must not be written to.
type View struct {
	keys    *cow[*Key]
	teams   *cow[*Team]
	aliases *cow[string] // key alias → key ID
	config  *Compiled
	version uint64          // configuration version; 0: none yet
	history []ConfigVersion // oldest first, at most maxHistory
	index   uint64          // log index of the last write that changed it
}

// Key returns the key with this hash.
func (v *View) Key(id string) (*Key, bool) { return v.keys.get(id) }

// KeyByAlias returns the key with this alias, which is brought into the stored
// form (trimmed, NFC) first.
func (v *View) KeyByAlias(alias string) (*Key, bool) {
	alias, err := cleanAlias(alias)
	if err != nil || alias == "" {
		return nil, false
	}
	id, ok := v.aliases.get(alias)
	if !ok {
		return nil, false
	}
	return v.keys.get(id)
}

// KeyCount returns the number of keys.
func (v *View) KeyCount() int { return v.keys.len() }

// Keys calls yield for every key, in no particular order, until it returns false.
func (v *View) Keys(yield func(*Key) bool) {
	for _, k := range v.keys.all {
		if !yield(k) {
			return
		}
	}
}

// Team returns the team.
func (v *View) Team(id string) (*Team, bool) { return v.teams.get(id) }

// TeamCount returns the number of teams.
func (v *View) TeamCount() int { return v.teams.len() }

// Teams calls yield for every team, in no particular order, until it returns false.
func (v *View) Teams(yield func(*Team) bool) {
	for _, t := range v.teams.all {
		if !yield(t) {
			return
		}
	}
}

// TeamKeys returns the keys that name the team, by ID. It looks at all keys:
// a few milliseconds for 100 000.
func (v *View) TeamKeys(team string) []*Key {
	if team == "" {
		return nil
	}
	var keys []*Key
	for _, k := range v.keys.all {
		if k.TeamID == team {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b *Key) int { return strings.Compare(a.ID, b.ID) })
	return keys
}

// Config returns the compiled configuration, never nil.
func (v *View) Config() *Compiled { return v.config }

// ConfigVersion returns the version of Config, 0 before the first.
func (v *View) ConfigVersion() uint64 { return v.version }

// ConfigHistory returns the last versions with their content, oldest first. It
// must not be written to.
func (v *View) ConfigHistory() []ConfigVersion { return v.history }

// Index returns the log index of the last write that changed the view.
func (v *View) Index() uint64 { return v.index }

// Policy returns the view as the Ledger reads it.
func (v *View) Policy() limiter.Policy { return (*policyView)(v) }

// policyView is a View under limiter's names for the same look-ups.
type policyView View

var _ limiter.Policy = (*policyView)(nil)

// Version is the log index of the newest change of keys, teams or configuration.
func (p *policyView) Version() uint64 { return p.index }

func (p *policyView) Rules() limiter.Rules { return p.config.rules }

func (p *policyView) Model(group string) *limiter.ModelPolicy { return p.config.PolicyFor(group) }

func (p *policyView) Key(id string) *limiter.SubjectPolicy {
	if k, ok := p.keys.get(id); ok {
		return k.policy
	}
	return nil
}

func (p *policyView) Team(id string) *limiter.SubjectPolicy {
	if t, ok := p.teams.get(id); ok {
		return t.policy
	}
	return nil
}
