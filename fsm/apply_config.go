package fsm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/limiter"
)

const (
	maxHistory = 50   // versions kept with their content
	maxHashes  = 1000 // contents remembered, to tell stale from new
)

// proposeConfig takes content that never held before. What held once and was
// replaced is not brought back by a node that starts with an old file.
func (t *txn) proposeConfig(c *configCommand) (any, error) {
	hash, err := hashConfig(c.Config)
	if err != nil {
		return nil, err
	}
	if t.view.version > 0 && (c.Initial || t.currentHash() == hash) {
		return ConfigResult{Version: t.view.version, Status: StatusUnchanged}, nil
	}
	if slices.Contains(t.state.hashes, hash) {
		return ConfigResult{Version: t.view.version, Status: StatusStale}, nil
	}
	return t.installConfig(c.Config, c.Source)
}

func (t *txn) currentHash() string {
	if n := len(t.view.history); n > 0 {
		return t.view.history[n-1].Hash
	}
	return ""
}

func (t *txn) rollbackConfig(c *rollbackCommand) (any, error) {
	for i := range t.view.history {
		if v := &t.view.history[i]; v.Version == c.Version {
			return t.installConfig(v.Config, fmt.Sprintf("rollback to version %d", c.Version))
		}
	}
	return nil, ErrNotFound
}

func (t *txn) setShare(c *shareCommand) (any, error) {
	cfg := t.view.config.Config
	shares := maps.Clone(cfg.Reservation.Shares)
	source := "priority set " + c.Name
	if c.Share == nil {
		if _, ok := shares[c.Name]; !ok {
			return nil, ErrNotFound
		}
		delete(shares, c.Name)
		source = "priority unset " + c.Name
	} else {
		if shares == nil {
			shares = map[string]limiter.Share{}
		}
		shares[c.Name] = *c.Share
	}
	cfg.Reservation.Shares = shares
	result, err := t.installConfig(cfg, source)
	var bad *InvalidConfigError
	if errors.As(err, &bad) {
		return nil, &InvalidError{Field: bad.Problems[0].Path, Msg: bad.Problems[0].Msg}
	}
	return result, err
}

// installConfig makes cfg the new version. Counters stay: a new limit holds
// from the next request on.
func (t *txn) installConfig(cfg Config, source string) (any, error) {
	compiled, err := Compile(cfg)
	if err != nil {
		return nil, err
	}
	hash, err := hashConfig(cfg)
	if err != nil {
		return nil, err
	}
	if err := t.changeWindow(compiled.Window); err != nil {
		return nil, err
	}
	t.view.version++
	t.view.config = compiled
	t.view.history = appendBounded(t.view.history, maxHistory, ConfigVersion{
		Version: t.view.version, Hash: hash, Source: source, AppliedAt: t.at, Config: cfg,
	})
	if !slices.Contains(t.state.hashes, hash) {
		t.state.hashes = appendBounded(t.state.hashes, maxHashes, hash)
	}
	t.rederive()
	t.dirty.config = true
	t.changed = true
	return ConfigResult{Version: t.view.version, Status: StatusApplied}, nil
}

// changeWindow forgets the windows that are over by the old length. Replicas
// that were restored from a snapshot do not have them, and with a longer window
// they would run again on the others.
func (t *txn) changeWindow(window time.Duration) error {
	old := t.view.config.Window
	if window == old {
		return nil
	}
	ledger, err := limiter.LoadLedger(t.state.ledger.Save(t.state.position.Now, old))
	if err != nil {
		return fmt.Errorf("reload ledger: %w", err)
	}
	t.state.ledger = ledger
	return nil
}

// rederive recomputes policies that name models, because aliases may lead
// elsewhere now.
func (t *txn) rederive() {
	keys, teams := t.view.keys.edit(), t.view.teams.edit()
	for id, k := range t.view.keys.all {
		if k.hasPerModel() {
			fresh := *k
			fresh.derive(t.view.config)
			keys.set(id, &fresh)
		}
	}
	for id, team := range t.view.teams.all {
		if team.hasPerModel() {
			fresh := *team
			fresh.derive(t.view.config)
			teams.set(id, &fresh)
		}
	}
	t.view.keys, t.view.teams = keys.done(), teams.done()
}

// appendBounded returns a new list with v at its end and at most n entries.
func appendBounded[T any](list []T, n int, v T) []T {
	if len(list) >= n {
		list = list[len(list)-n+1:]
	}
	return append(slices.Clip(slices.Clone(list)), v)
}

// hashConfig returns the SHA-256 of the content's JSON, whose maps are sorted.
func hashConfig(c Config) (string, error) {
	b, err := encodeRecord(c)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
