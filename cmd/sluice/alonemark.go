package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// aloneFile stands in the data directory while the node has admitted requests
// without a quorum that it has not reported yet.
const aloneFile = "admitted-alone"

// aloneMark returns whether the note is there, and what puts it there and takes
// it away. Without a data directory nothing outlives the process.
func aloneMark(dir string) (marked bool, mark func(on bool) error, err error) {
	if dir == "" {
		return false, func(bool) error { return nil }, nil
	}
	path := filepath.Join(dir, aloneFile)
	switch _, err := os.Stat(path); {
	case err == nil:
		marked = true
	case !errors.Is(err, fs.ErrNotExist):
		return false, nil, fmt.Errorf("look for what was admitted without a quorum: %w", err)
	}
	return marked, func(on bool) error {
		if !on {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil // if the removal is lost, a later process waits for a window in vain
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close(), syncDir(dir))
	}, nil
}

// loudly logs when the note cannot be made or taken back, once until it works
// again: requests are refused as if there were no quorum, and only this says why.
// Calls must not overlap.
func loudly(mark func(on bool) error, logger *slog.Logger) func(on bool) error {
	failing := false
	return func(on bool) error {
		err := mark(on)
		switch {
		case err != nil && !failing && on:
			logger.Error("cannot note that requests are admitted without a quorum, so none are; make the data directory writable", "error", err)
		case err != nil && !failing:
			logger.Warn("cannot take back the note that requests were admitted without a quorum; a restart now would wait for a window", "error", err)
		}
		failing = err != nil
		return err
	}
}

// syncDir makes a new name in dir outlast a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
