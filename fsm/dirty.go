package fsm

import (
	"maps"
	"slices"
)

// dirtySet names what the state file does not have yet. Ledger and remembered
// answers are not in it: they change all the time and are written at Close only,
// because nobody reads them from a file that was not closed.
type dirtySet struct {
	all    bool
	config bool
	keys   map[string]struct{}
	teams  map[string]struct{}
}

func newDirtySet(all bool) dirtySet { return dirtySet{all: all} }

func (d *dirtySet) empty() bool {
	return !d.all && !d.config && len(d.keys) == 0 && len(d.teams) == 0
}

func (d *dirtySet) key(id string) { mark(&d.keys, id) }

func (d *dirtySet) team(id string) { mark(&d.teams, id) }

func mark(set *map[string]struct{}, id string) {
	if *set == nil {
		*set = map[string]struct{}{}
	}
	(*set)[id] = struct{}{}
}

// merge adds what other names.
func (d *dirtySet) merge(other dirtySet) {
	d.all = d.all || other.all
	d.config = d.config || other.config
	for id := range other.keys {
		d.key(id)
	}
	for id := range other.teams {
		d.team(id)
	}
}

func sortedNames(set map[string]struct{}) []string { return slices.Sorted(maps.Keys(set)) }
