package node

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	nodeIDFile    = "node-id"
	clusterIDFile = "cluster-id"
)

// randomID returns 16 hexadecimal digits.
func randomID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// readID returns the id kept in dir/name, or "" if there is none.
func readID(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	id := strings.TrimSpace(string(b))
	if !idPattern.MatchString(id) {
		return "", fmt.Errorf("%w: %s holds %d bytes that are no id: restore it from a copy, or write the right id into it", ErrDamaged, path, len(b))
	}
	return id, nil
}

// writeID keeps id in dir/name so that a crash leaves the old or the new file.
func writeID(dir, name, id string) error {
	path := filepath.Join(dir, name)
	f, err := os.CreateTemp(dir, name+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = f.WriteString(id + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("writing %s: %w", path, diskError(err))
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("opening %s: %w", dir, err)
	}
	err = errors.Join(d.Sync(), d.Close())
	if err != nil {
		return fmt.Errorf("syncing %s: %w", dir, err)
	}
	return nil
}

// nodeID settles this node's id between the configured and the kept one. A node
// with state must not be given a new one: its vote belongs to the old.
func nodeID(dir, configured string, hasState bool) (string, error) {
	if dir == "" {
		if configured == "" {
			return randomID(), nil
		}
		return configured, nil
	}
	kept, err := readID(dir, nodeIDFile)
	if err != nil {
		return "", err
	}
	switch {
	case kept == "" && configured == "" && hasState:
		return "", fmt.Errorf("%w: %s: there is a log but no file %s: set cluster.node_id to the id that this node had", ErrDamaged, dir, nodeIDFile)
	case kept == "":
		if configured == "" {
			configured = randomID()
		}
		return configured, writeID(dir, nodeIDFile, configured)
	case configured != "" && configured != kept:
		return "", fmt.Errorf("cluster.node_id is %q, but %s belongs to node %q: leave the setting out, or use another data directory",
			configured, dir, kept)
	}
	return kept, nil
}
