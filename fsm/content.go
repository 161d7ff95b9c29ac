package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"sluice/limiter"
)

// content is a whole state as plain data: what a snapshot, the state file and
// the digest are made of. It is never changed once it is shared.
type content struct {
	position position
	view     *View
	hashes   []string
	answers  []*savedAnswer
	staged   *staged
	ledger   limiter.LedgerState
}

// recordKind says what a record of a snapshot or of the state file holds.
type recordKind byte

const (
	recordConfig  recordKind = 'c' // ConfigVersion, the last one is current
	recordKey     recordKind = 'k'
	recordTeam    recordKind = 't'
	recordHashes  recordKind = 'h' // contents of configurations that held
	recordAnswer  recordKind = 'i' // savedAnswer
	recordLedger  recordKind = 'l'
	recordStaged  recordKind = 's' // a restore that is under way
	recordPart    recordKind = 'p' // its parts in their order, not JSON
	recordTrailer recordKind = 'z' // snapshots only
)

// records calls yield for every record in a fixed order: equal states give
// equal records. The first error of yield ends it.
func (c *content) records(yield func(recordKind, []byte) error) error {
	for i := range c.view.history {
		if err := emit(yield, recordConfig, &c.view.history[i]); err != nil {
			return err
		}
	}
	for _, id := range sortedKeys(c.view.teams) {
		t, _ := c.view.teams.get(id)
		if err := emit(yield, recordTeam, t); err != nil {
			return err
		}
	}
	for _, id := range sortedKeys(c.view.keys) {
		k, _ := c.view.keys.get(id)
		if err := emit(yield, recordKey, k); err != nil {
			return err
		}
	}
	return c.otherRecords(yield)
}

// otherRecords calls yield for what is not in the view.
func (c *content) otherRecords(yield func(recordKind, []byte) error) error {
	if err := emit(yield, recordHashes, c.hashes); err != nil {
		return err
	}
	for _, a := range c.answers {
		if err := emit(yield, recordAnswer, a); err != nil {
			return err
		}
	}
	if c.staged != nil {
		if err := emit(yield, recordStaged, c.staged); err != nil {
			return err
		}
		for _, p := range c.staged.parts {
			if err := yield(recordPart, p); err != nil {
				return err
			}
		}
	}
	return emit(yield, recordLedger, &c.ledger)
}

func emit(yield func(recordKind, []byte) error, kind recordKind, v any) error {
	b, err := encodeRecord(v)
	if err != nil {
		return err
	}
	return yield(kind, b)
}

func sortedKeys[V any](c *cow[V]) []string {
	keys := make([]string, 0, c.len())
	for k := range c.all {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// contentBuilder puts a content together from records in any order.
type contentBuilder struct {
	content content
	keys    []*Key
	teams   []*Team
	history []ConfigVersion
	parts   [][]byte
	ledger  bool
}

// newContent returns the state of a cluster that has applied nothing.
func newContent() (*content, error) {
	b := contentBuilder{ledger: true}
	return b.finish()
}

func (b *contentBuilder) add(kind recordKind, payload []byte) error {
	switch kind {
	case recordConfig:
		return addTo(&b.history, payload)
	case recordKey:
		return addTo(&b.keys, payload)
	case recordTeam:
		return addTo(&b.teams, payload)
	case recordHashes:
		return decodeJSON(payload, &b.content.hashes)
	case recordAnswer:
		return addTo(&b.content.answers, payload)
	case recordLedger:
		b.ledger = true
		return decodeJSON(payload, &b.content.ledger)
	case recordStaged:
		b.content.staged = &staged{}
		return decodeJSON(payload, b.content.staged)
	case recordPart:
		b.parts = append(b.parts, bytes.Clone(payload))
		return nil
	}
	return fmt.Errorf("record of an unknown kind %q", kind)
}

func addTo[T any](list *[]T, payload []byte) error {
	var v T
	if err := decodeJSON(payload, &v); err != nil {
		return err
	}
	*list = append(*list, v)
	return nil
}

// finish checks what the records say as a whole and returns the content.
func (b *contentBuilder) finish() (*content, error) {
	if !b.ledger {
		return nil, errors.New("the ledger is missing")
	}
	v := &View{index: b.content.position.Index}
	compiled, err := b.config(v)
	if err != nil {
		return nil, err
	}
	v.config = compiled
	if err := b.subjects(v); err != nil {
		return nil, err
	}
	b.content.view = v
	if b.content.staged, err = stageOf(b.content.staged, b.parts); err != nil {
		return nil, err
	}
	slices.SortStableFunc(b.content.answers, func(x, y *savedAnswer) int { return int(min(max(x.Seq-y.Seq, -1), 1)) })
	return &b.content, nil
}

func (b *contentBuilder) config(v *View) (*Compiled, error) {
	current := DefaultConfig()
	slices.SortFunc(b.history, func(x, y ConfigVersion) int {
		if x.Version < y.Version {
			return -1
		}
		return 1
	})
	if n := len(b.history); n > 0 {
		v.history = b.history
		v.version = b.history[n-1].Version
		current = b.history[n-1].Config
	}
	compiled, err := Compile(current)
	if err != nil {
		return nil, fmt.Errorf("compile configuration version %d: %w", v.version, err)
	}
	return compiled, nil
}

func (b *contentBuilder) subjects(v *View) error {
	keys, teams, aliases := v.keys.edit(), v.teams.edit(), v.aliases.edit()
	for _, t := range b.teams {
		if err := t.finish(v.config); err != nil {
			return fmt.Errorf("team %q: %w", t.ID, err)
		}
		teams.set(t.ID, t)
	}
	for _, k := range b.keys {
		if err := k.finish(v.config); err != nil {
			return fmt.Errorf("key %q: %w", k.ID, err)
		}
		keys.set(k.ID, k)
		if k.Alias != "" {
			aliases.set(k.Alias, k.ID)
		}
	}
	v.keys, v.teams, v.aliases = keys.done(), teams.done(), aliases.done()
	named := 0
	for k := range v.Keys {
		if k.Alias != "" {
			named++
		}
	}
	if v.keys.len() != len(b.keys) || v.teams.len() != len(b.teams) || v.aliases.len() != named {
		return errors.New("a key, team or alias is there twice")
	}
	return nil
}
