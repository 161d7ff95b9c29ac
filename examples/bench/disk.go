package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

// disk is what a durable write costs where the data directories are.
type disk struct {
	fsync  time.Duration // 4 KiB appended to a file, as a log does, then fsync
	commit time.Duration // one small key put into a BoltDB file: two such waits
}

const diskSamples = 200

// measureDisk measures in a directory of its own beside the data directories.
func measureDisk() (d disk, err error) {
	dir, err := os.MkdirTemp("", "sluice-disk-")
	if err != nil {
		return disk{}, fmt.Errorf("make a directory to measure the disk in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if d.fsync, err = measureFsync(filepath.Join(dir, "pages")); err != nil {
		return disk{}, fmt.Errorf("measure fsync: %w", err)
	}
	if d.commit, err = measureCommit(filepath.Join(dir, "bolt.db")); err != nil {
		return disk{}, fmt.Errorf("measure a BoltDB commit: %w", err)
	}
	return d, nil
}

func measureFsync(path string) (time.Duration, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	page := make([]byte, 4096)
	var took []time.Duration
	for range diskSamples {
		began := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	return median(took), nil
}

func measureCommit(path string) (time.Duration, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second, FreelistType: bolt.FreelistMapType, NoFreelistSync: true})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	var took []time.Duration
	for i := range diskSamples {
		began := time.Now()
		err := db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("log"))
			if err != nil {
				return err
			}
			return b.Put(fmt.Appendf(nil, "%08d", i), make([]byte, 256))
		})
		if err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	return median(took), nil
}
