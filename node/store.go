package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	raftDir      = "raft"
	raftFile     = "raft.db"
	lockTimeout  = time.Second
	keptSnaps    = 2
	logCacheSize = 512
)

// stores hold Raft's log, its votes and its snapshots.
type stores struct {
	*checkedStore
	snaps  raft.SnapshotStore
	closer io.Closer // nil in memory
	path   string

	hasState bool
	last     uint64 // index of the last entry or snapshot
	snapshot uint64 // index of the newest snapshot
}

// openStores opens what dir holds, or memory if dir is empty. beforeWrite is
// called before every write.
func openStores(dir string, beforeWrite func(), logger *slog.Logger) (*stores, error) {
	if dir == "" {
		mem := raft.NewInmemStore()
		return &stores{checkedStore: &checkedStore{inner: mem, path: "memory", beforeWrite: beforeWrite}, snaps: raft.NewInmemSnapshotStore()}, nil
	}
	dir = filepath.Join(dir, raftDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating %s: %w", dir, diskError(err))
	}
	path := filepath.Join(dir, raftFile)
	_, missing := os.Lstat(path)
	bolt, err := openBolt(path)
	if err != nil {
		return nil, err
	}
	s := &stores{checkedStore: &checkedStore{inner: bolt, path: path, beforeWrite: beforeWrite}, closer: bolt, path: path}
	s.snaps, err = openSnapshots(dir, logger)
	if err == nil {
		err = s.inspect()
	}
	if err == nil && s.snapshot > 0 && missing != nil {
		// The votes and the entries after the snapshot went with it; not to be
		// forgotten at the next start either.
		err = errors.Join(s.damaged("there are snapshots, but the log is missing"), os.Remove(path))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", dir, err), s.close())
	}
	return s, nil
}

// inspect reads what is there and refuses what does not fit together.
func (s *stores) inspect() error {
	first, err := s.FirstIndex()
	if err != nil {
		return s.damaged("first entry: %w", err)
	}
	if s.last, err = s.LastIndex(); err != nil {
		return s.damaged("last entry: %w", err)
	}
	snaps, err := s.snaps.List()
	if err != nil {
		return fmt.Errorf("listing snapshots: %w", err)
	}
	if len(snaps) > 0 {
		s.snapshot = snaps[0].Index
	}
	if first > s.snapshot+1 {
		return s.damaged("the log starts with entry %d, but the newest readable snapshot ends with %d", first, s.snapshot)
	}
	s.last = max(s.last, s.snapshot)
	if s.hasState, err = raft.HasExistingState(s.checkedStore, s.checkedStore, s.snaps); err != nil {
		return fmt.Errorf("looking for state: %w", err)
	}
	return nil
}

func (s *stores) close() error {
	if s.closer == nil {
		return nil
	}
	if err := guard(s.closer.Close); err != nil {
		return fmt.Errorf("closing %s: %w", s.path, err)
	}
	return nil
}

func boltOptions() *bbolt.Options {
	return &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType, NoFreelistSync: true}
}

// openBolt opens path, or creates it so that it exists only when complete: an
// existing file is therefore never an interrupted first start, and one that
// bbolt would take for new is a damaged one.
func openBolt(path string) (*raftboltdb.BoltStore, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := createBolt(path); err != nil {
			return nil, err
		}
	}
	if err := verifyBolt(path); err != nil {
		return nil, err
	}
	var bolt *raftboltdb.BoltStore
	err := guard(func() (err error) {
		bolt, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions(), MsgpackUseNewTimeFormat: true})
		return err
	})
	if err != nil {
		return nil, boltError(path, err)
	}
	return bolt, nil
}

func createBolt(path string) error {
	fresh := path + ".new"
	create := func() error {
		b, err := raftboltdb.New(raftboltdb.Options{Path: fresh, BoltOptions: boltOptions(), MsgpackUseNewTimeFormat: true})
		if err != nil {
			return err
		}
		return b.Close()
	}
	err := guard(create)
	if err != nil && !errors.Is(err, bolterrors.ErrTimeout) {
		// Left over from an interrupted first start.
		if rerr := os.Remove(fresh); rerr == nil {
			err = guard(create)
		}
	}
	if err != nil {
		return boltError(path, err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

// verifyBolt proves the file sound before bbolt works on it, holding its lock.
func verifyBolt(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	if st.Size() == 0 {
		return damaged(path, errors.New("file is empty"))
	}
	return guardDamage(path, func() error {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true})
		if err != nil {
			return boltError(path, err)
		}
		defer db.Close()
		if err := checkBolt(path); err != nil {
			return damaged(path, err)
		}
		return db.View(func(tx *bbolt.Tx) error {
			for _, name := range []string{"logs", "conf"} {
				if tx.Bucket([]byte(name)) == nil {
					return damaged(path, fmt.Errorf("part %q is missing", name))
				}
			}
			return nil
		})
	})
}

func guardDamage(path string, f func() error) (err error) {
	var inner error
	if err := guard(func() error { inner = f(); return nil }); err != nil {
		return damaged(path, err)
	}
	return inner
}

// boltError says in the user's terms why bbolt did not open path.
func boltError(path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%w: %s: stop the other one, or give this one a data directory of its own", ErrLocked, filepath.Dir(filepath.Dir(path)))
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(diskError(err), ErrDiskFull):
		return fmt.Errorf("opening %s: %w", path, diskError(err))
	case errors.As(err, new(*fs.PathError)):
		return fmt.Errorf("opening %s: %w", path, err)
	}
	return damaged(path, err)
}
