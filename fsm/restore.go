package fsm

import (
	"fmt"
	"io"
	"slices"
	"time"

	"sluice/limiter"
)

// RestoreResult is the outcome of a restore.
type RestoreResult struct {
	Keys          int    `json:"keys"`
	Teams         int    `json:"teams"`
	ConfigVersion uint64 `json:"config_version"`
	AppliedIndex  uint64 `json:"applied_index"` // of the entry that restored it here
}

// fresh says whether nobody has made anything in this cluster yet: there is no
// key and no team, and no configuration but the one that its first node's file
// proposed.
func (v *View) fresh() bool { return v.keys.len() == 0 && v.teams.len() == 0 && v.version <= 1 }

// CheckFresh returns ErrNotFresh, with what is there, if a backup may not be
// restored.
func (v *View) CheckFresh() error {
	if v.fresh() {
		return nil
	}
	return fmt.Errorf("%w: it has %d keys, %d teams and configuration version %d", ErrNotFresh, v.KeyCount(), v.TeamCount(), v.version)
}

// readRestorable reads a snapshot that comes from another cluster, whose
// checksums say only that it is what was written.
func readRestorable(r io.Reader) (*content, error) {
	c, err := readSnapshot(r)
	if err != nil {
		return nil, err
	}
	if _, err := limiter.LoadLedger(c.ledger); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	switch {
	case c.view.version == 0:
		return nil, invalid("backup", "holds no configuration; it was taken before its cluster had one")
	case c.position.Now > maxStamp/2:
		return nil, invalid("backup", "has an impossible time")
	}
	return c, nil
}

// commitRestore replaces the state by the one that was staged. Whatever the
// answer, the staged one is gone.
func (t *txn) commitRestore(c *commitCommand) (any, error) {
	st := t.state.staged
	if st == nil || st.ID != c.ID {
		return nil, ErrRestoreLost
	}
	t.state.staged = nil
	if !t.view.fresh() {
		return nil, ErrNotFresh
	}
	if err := st.check(); err != nil {
		return nil, err
	}
	theirs, err := readRestorable(st.reader())
	if err != nil {
		return nil, invalid("backup", "%s", err.Error())
	}
	if err := t.state.install(t.state.adopt(theirs)); err != nil {
		return nil, invalid("backup", "%s", err.Error())
	}
	t.state.dirty = newDirtySet(true)
	v := t.state.view.Load()
	return RestoreResult{Keys: v.KeyCount(), Teams: v.TeamCount(), ConfigVersion: v.version, AppliedIndex: t.state.position.Index}, nil
}

// adopt makes another cluster's state this one's.
//
// The two ledger clocks have nothing to do with each other. Theirs has gone on
// since the backup by the wall time that has passed, at most one window: by
// then all its windows are over, and one of the wall clocks may be wrong. The
// later of the two clocks holds from here, because a clock never goes back, and
// the windows of the other are moved along: each ends as long from now as it
// would have.
//
// Remembered answers to idempotent writes are left behind: they were promised
// to clients of the other cluster, and some tell a new secret that only the
// other cluster's master key makes.
func (s *State) adopt(theirs *content) *content {
	own := s.capture()
	window := max(own.view.config.Window, theirs.view.config.Window)
	passed := time.Unix(0, own.position.Wall).Sub(time.Unix(0, theirs.position.Wall))
	clock := theirs.position.Now.Add(min(max(passed, 0), window))
	now := max(own.position.Now, clock)

	view := *theirs.view
	view.index = own.position.Index
	return &content{
		position: position{Index: own.position.Index, Now: now, Wall: own.position.Wall},
		view:     &view,
		hashes:   adoptHashes(own.hashes, theirs.hashes),
		ledger: limiter.Adopt(own.ledger.Shift(now.Sub(own.position.Now)),
			theirs.ledger.Shift(now.Sub(clock)), now, view.config.Window),
	}
}

// adoptHashes puts this cluster's own first content before theirs: it held once
// and was replaced, so the file it came from does not come back with the next
// restart of a node.
func adoptHashes(own, theirs []string) []string {
	own = slices.DeleteFunc(slices.Clone(own), func(h string) bool { return slices.Contains(theirs, h) })
	all := append(own, theirs...)
	return all[max(len(all)-maxHashes, 0):]
}
