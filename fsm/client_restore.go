package fsm

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// The steps of a restore may be repeated, so a leader that changes in the middle
// does not end it.
const (
	stepTries = 5
	stepPause = 300 * time.Millisecond
)

// Restore makes the state of a backup this cluster's, on all replicas or on
// none, and returns once this one has it. It takes a few hundred entries for
// 100 000 keys. Errors, after which nothing was changed: ErrNotFresh,
// ErrRestoring, ErrRestoreLost, and what Leveled and the replicator say. The
// context's error leaves the outcome unknown; with an IdempotencyKey the call
// may be repeated.
func (c *Client) Restore(ctx context.Context, b *StoredBackup, o WriteOptions) (RestoreResult, error) {
	var out RestoreResult
	if c.state.remembered(o.IdempotencyKey, cmdCommitRestore, &out) {
		return out, nil
	}
	if err := c.state.View().CheckFresh(); err != nil {
		return out, err
	}
	id, err := restoreID(b, o)
	if err != nil {
		return out, err
	}
	if o.IdempotencyKey == "" {
		o.IdempotencyKey = id // so that the commit may be repeated
	}
	var have int
	begin := beginCommand{ID: id, Length: b.Info.Length, SHA256: b.Info.SHA256}
	if err := c.write(ctx, cmdBeginRestore, begin, WriteOptions{}, &have); err != nil {
		return out, err
	}
	for number := have; number < partsOf(b.Info.Length); number++ {
		data := b.snapshot[number*partSize:]
		part := encodePart(id, number, data[:min(len(data), partSize)])
		if err := c.step(ctx, command{kind: cmdRestorePart, payload: part}, &have); err != nil {
			return out, fmt.Errorf("send part %d: %w", number, err)
		}
	}
	payload, err := encodeRecord(commitCommand{ID: id})
	if err != nil {
		return out, err
	}
	commit := command{kind: cmdCommitRestore, key: o.IdempotencyKey, payload: payload}
	return out, c.step(ctx, commit, &out)
}

// restoreID names a restore: the same for the same file and key, so that a
// repeated call goes on where the first one is.
func restoreID(b *StoredBackup, o WriteOptions) (string, error) {
	if o.IdempotencyKey != "" {
		sum := sha256.Sum256([]byte(b.Info.SHA256 + "\x00" + o.IdempotencyKey))
		return hex.EncodeToString(sum[:])[:stageIDSize], nil
	}
	var id [stageIDSize / 2]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", fmt.Errorf("name the restore: %w", err)
	}
	return hex.EncodeToString(id[:]), nil
}

// step sends a command until the state machine answers it.
func (c *Client) step(ctx context.Context, cmd command, out any) error {
	for try := 1; ; try++ {
		err := c.send(ctx, cmd, out)
		if err == nil || refused(err) || try == stepTries {
			return err
		}
		pause := time.NewTimer(stepPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

// refused says whether an error is the state machine's own.
func refused(err error) bool {
	var bad *InvalidError
	return errors.As(err, &bad) || errors.Is(err, ErrNotFresh) || errors.Is(err, ErrRestoring) || errors.Is(err, ErrRestoreLost) || errors.Is(err, ErrStopped)
}

// remembered decodes the answer that a write of this kind with this key got.
func (s *State) remembered(key string, kind commandType, out any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.answers.get(key)
	return ok && key != "" && a.Kind == kind && !a.Failed && decodeJSON(a.Answer, out) == nil
}
