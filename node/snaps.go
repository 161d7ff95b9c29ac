package node

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"
)

const (
	snapshotDir  = "snapshots"
	snapshotMeta = "meta.json"
	snapshotSum  = "meta.crc32c"
	snapshotTemp = ".tmp" // how Raft ends the name of one that is not complete
)

// snapshots are Raft's, with a checksum for what Raft's own does not cover: the
// file that says where a snapshot ends and who the members are. A wrong index in
// there would pass over entries of the log, in silence. A snapshot that fails
// is as good as none; the one before it, or the log, stands in for it.
type snapshots struct {
	*raft.FileSnapshotStore
	dir    string
	logger *slog.Logger
}

var _ raft.SnapshotStore = (*snapshots)(nil)

// openSnapshots opens the snapshots under dir, which no other process may use,
// and takes away those that were never completed.
func openSnapshots(dir string, logger *slog.Logger) (*snapshots, error) {
	if err := removeUnfinished(filepath.Join(dir, snapshotDir)); err != nil { // it costs space only
		logger.Warn("unfinished snapshots cannot be removed", "error", err)
	}
	inner, err := raft.NewFileSnapshotStoreWithLogger(dir, keptSnaps, newRaftLogger(logger))
	if err != nil {
		return nil, fmt.Errorf("opening snapshots: %w", err)
	}
	return &snapshots{FileSnapshotStore: inner, dir: filepath.Join(dir, snapshotDir), logger: logger}, nil
}

func removeUnfinished(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), snapshotTemp) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// Create implements raft.SnapshotStore.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.FileSnapshotStore.Create(version, index, term, conf, confIndex, trans)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{SnapshotSink: sink, dir: filepath.Join(s.dir, sink.ID())}, nil
}

// List implements raft.SnapshotStore.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	all, err := s.FileSnapshotStore.List()
	if err != nil {
		return nil, err
	}
	var good []*raft.SnapshotMeta
	for _, m := range all {
		// An id that is wrong leads to no directory.
		if err := checkMeta(filepath.Join(s.dir, m.ID)); err != nil {
			s.logger.Warn("a damaged snapshot is left aside", "snapshot", m.ID, "error", err)
			continue
		}
		good = append(good, m)
	}
	return good, nil
}

// snapshotSink adds the checksum to a snapshot that is complete. Raft shortens
// its log after Close, so a crash in between costs nothing.
type snapshotSink struct {
	raft.SnapshotSink
	dir string
}

// Close implements raft.SnapshotSink.
func (s *snapshotSink) Close() error {
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	sum, err := metaSum(s.dir)
	if err == nil {
		err = writeID(s.dir, snapshotSum, sum)
	}
	if err != nil {
		return fmt.Errorf("sealing snapshot %s: %w", s.ID(), diskError(err))
	}
	return nil
}

func metaSum(dir string) (string, error) {
	meta, err := os.ReadFile(filepath.Join(dir, snapshotMeta))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%08x", crc32.Checksum(meta, castagnoli)), nil
}

// checkMeta returns why the snapshot's description cannot be trusted. Without a
// checksum it can: the node died right after it had written the snapshot.
func checkMeta(dir string) error {
	got, err := metaSum(dir)
	if err != nil {
		return err
	}
	want, err := readID(dir, snapshotSum)
	if err != nil {
		return err
	}
	if want != "" && got != want {
		return fmt.Errorf("%s: wrong checksum", snapshotMeta)
	}
	return nil
}
