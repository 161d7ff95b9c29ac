package fsm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// The state file is a cache of snapshot and log that makes a start after a
// clean stop quick. It is written behind (a second or so late, without sync)
// and only ever read if the clean mark beside it vouches for every byte:
// BoltDB panics on a damaged file, partly on goroutines of its own, where
// nothing can catch it. So a file that is not vouched for is not even opened.
const (
	stateFileName   = "state.db"
	stateMarkName   = "state.clean"
	stateLockName   = "state.lock"
	stateFileFormat = 1
	lockPatience    = time.Second
)

// Buckets of the state file. misc holds what is written at Close only.
const (
	bucketKeys    = "keys"
	bucketTeams   = "teams"
	bucketConfigs = "configs"
	bucketMisc    = "misc"
)

type stateFile struct {
	dir    string
	path   string
	logger *slog.Logger
	lock   *os.File
	db     *bolt.DB
	broken bool // BoltDB panicked: left alone until the next start makes a new file
	warned bool // the last write failed, and that was said
}

// cleanMark vouches for a closed state file. In its own file it is followed by
// a line feed and its own checksum: a wrong position would have entries of the
// log applied twice, or not at all.
type cleanMark struct {
	Format   int      `json:"format"`
	Size     int64    `json:"size"`
	CRC      uint32   `json:"crc32c"`
	Position position `json:"position"`
}

// openStateFile locks dir and returns its state file, and what it holds if it
// can be trusted.
func openStateFile(dir string, logger *slog.Logger) (*stateFile, *content, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("create data directory: %w", err)
	}
	f := &stateFile{dir: dir, path: filepath.Join(dir, stateFileName), logger: logger}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, nil, err
	}
	f.lock = lock
	c, err := f.open()
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	return f, c, nil
}

func lockDir(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, stateLockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(20 * time.Millisecond) {
		ok, err := tryLock(lock)
		switch {
		case err != nil:
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), lock.Close())
		case ok:
			return lock, nil
		case time.Now().After(deadline):
			return nil, errors.Join(fmt.Errorf("%w: %s; stop that process or choose another --data-dir", ErrLocked, dir), lock.Close())
		}
	}
}

// open takes the clean mark away before anything else, then loads what it
// vouched for or starts a new file.
func (f *stateFile) open() (*content, error) {
	mark, err := f.takeMark()
	if err != nil {
		return nil, err
	}
	if mark == nil {
		return nil, f.recreate()
	}
	c, err := f.load(mark)
	if err == nil {
		return c, nil
	}
	f.logger.Warn("state file is damaged; it is set aside and rebuilt from snapshot and log", "path", f.path, "error", err)
	f.closeDB()
	if err := os.Rename(f.path, f.path+".damaged"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: state file %s cannot be set aside; remove it by hand, the log rebuilds it: %w", ErrDamaged, f.path, err)
	}
	return nil, f.recreate()
}

// takeMark reads and durably removes the clean mark. nil: there is none that
// can be used.
func (f *stateFile) takeMark() (*cleanMark, error) {
	path := filepath.Join(f.dir, stateMarkName)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read clean mark: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return nil, fmt.Errorf("remove clean mark: %w", err)
	}
	if err := syncDir(f.dir); err != nil {
		return nil, fmt.Errorf("remove clean mark: %w", err)
	}
	var mark cleanMark
	text, sum, _ := bytes.Cut(b, []byte("\n"))
	if string(sum) != markSum(text) || json.Unmarshal(text, &mark) != nil || mark.Format != stateFileFormat {
		return nil, nil
	}
	return &mark, nil
}

// markSum returns the checksum of an encoded mark.
func markSum(text []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(text, crcTable())) }

// recreate starts an empty file in the place of whatever is there.
func (f *stateFile) recreate() error {
	if err := os.Remove(f.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove old state file: %w", err)
	}
	return f.openDB()
}

// openDB opens the file for writing. The freelist is kept in the file, unlike
// the log's: writes are rare, and an open that need not look for free pages
// leaves the file's pages out of this process's memory.
func (f *stateFile) openDB() error { return f.openWith(bolt.Options{NoSync: true}) } // Close syncs; until then nobody trusts the file

func (f *stateFile) openWith(o bolt.Options) error {
	o.Timeout, o.FreelistType = lockPatience, bolt.FreelistMapType
	err := guarded(func() (err error) {
		f.db, err = bolt.Open(f.path, 0o600, &o)
		return err
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("%w: %s; stop that process or choose another --data-dir", ErrLocked, f.dir)
	}
	if err != nil {
		return fmt.Errorf("open state file: %w", err)
	}
	return nil
}

// load checks the file against its mark, reads it, and opens it for writing
// anew: closing the reader gives back the pages that it has touched.
func (f *stateFile) load(mark *cleanMark) (*content, error) {
	size, crc, err := checksum(f.path)
	if err != nil {
		return nil, err
	}
	if size != mark.Size || crc != mark.CRC {
		return nil, errors.New("its checksum is wrong")
	}
	if err := f.openWith(bolt.Options{ReadOnly: true}); err != nil {
		return nil, err
	}
	b := &contentBuilder{}
	b.content.position = mark.Position
	if err := guarded(func() error { return f.db.View(func(tx *bolt.Tx) error { return readBuckets(tx, b) }) }); err != nil {
		return nil, err
	}
	f.closeDB()
	if err := f.openDB(); err != nil {
		return nil, err
	}
	return b.finish()
}

// closeDB closes the database without vouching for it.
func (f *stateFile) closeDB() {
	if f.db == nil {
		return
	}
	if err := guarded(f.db.Close); err != nil {
		f.logger.Warn("state file does not close", "path", f.path, "error", err)
	}
	f.db = nil
}

// guarded turns a panic of BoltDB, and a fault in its memory map, into an error.
func guarded(work func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanicked, p)
		}
	}()
	return work()
}

// errPanicked is wrapped when BoltDB gave up on a file.
var errPanicked = errors.New("database is damaged")
