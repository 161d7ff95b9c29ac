package fsm

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// flush writes what changed since the last call. It never fails: what cannot be
// written stays in memory and is tried again.
func (s *State) flush() {
	s.mu.Lock()
	dirty, v := s.dirty, s.view.Load()
	s.dirty = newDirtySet(false)
	s.mu.Unlock()
	if dirty.empty() || s.file.broken {
		return
	}
	err := s.file.write(v, dirty)
	if err != nil {
		s.mu.Lock()
		s.dirty.merge(dirty)
		s.mu.Unlock()
	}
	s.file.report(err)
}

// report says once that writing fails, and once that it works again.
func (f *stateFile) report(err error) {
	switch {
	case err != nil && !f.warned:
		f.logger.Warn("state file cannot be written; serving from memory, restarts will take longer", "path", f.path, "error", err)
	case err == nil && f.warned:
		f.logger.Info("state file is written again", "path", f.path)
	}
	f.warned = err != nil
}

// writeChunk bounds the records of one transaction, which BoltDB holds in
// memory. The file is of use only as a whole and only after Close, so nothing
// is lost by writing it in parts.
const writeChunk = 4096

// fillPercent packs pages that are written once and then mostly read.
const fillPercent = 0.9

// write brings keys, teams and configurations up to date.
func (f *stateFile) write(v *View, dirty dirtySet) error {
	keys, teams := sortedNames(dirty.keys), sortedNames(dirty.teams)
	if dirty.all {
		err := f.update(func(tx *bolt.Tx) error {
			return errors.Join(emptyBucket(tx, bucketKeys), emptyBucket(tx, bucketTeams))
		})
		if err != nil {
			return err
		}
		keys, teams, dirty.config = sortedKeys(v.keys), sortedKeys(v.teams), true
	}
	if err := writeRecords(f, bucketKeys, keys, v.keys); err != nil {
		return err
	}
	if err := writeRecords(f, bucketTeams, teams, v.teams); err != nil {
		return err
	}
	if !dirty.config {
		return nil
	}
	return f.update(func(tx *bolt.Tx) error { return writeHistory(tx, v) })
}

// writeRecords stores the records with these ids as they are in m, and removes
// those that are not there any more.
func writeRecords[V any](f *stateFile, bucket string, ids []string, m *cow[V]) error {
	for chunk := range slices.Chunk(ids, writeChunk) {
		err := f.update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(bucket))
			if err != nil {
				return err
			}
			b.FillPercent = fillPercent // ids come in order
			for _, id := range chunk {
				v, ok := m.get(id)
				if !ok {
					err = b.Delete([]byte(id))
				} else {
					err = putRecord(b, []byte(id), v)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *stateFile) update(work func(*bolt.Tx) error) error {
	if f.broken {
		return errPanicked
	}
	err := guarded(func() error { return f.db.Update(work) })
	if errors.Is(err, errPanicked) {
		f.broken = true
	}
	return err
}

func writeHistory(tx *bolt.Tx, v *View) error {
	if err := emptyBucket(tx, bucketConfigs); err != nil {
		return err
	}
	b := tx.Bucket([]byte(bucketConfigs))
	for i := range v.history {
		c := &v.history[i]
		if err := putRecord(b, binary.BigEndian.AppendUint64(nil, c.Version), c); err != nil {
			return err
		}
	}
	return nil
}

// writeMisc writes what is kept back until the end.
func writeMisc(tx *bolt.Tx, c *content) error {
	if err := emptyBucket(tx, bucketMisc); err != nil {
		return err
	}
	b, n := tx.Bucket([]byte(bucketMisc)), uint32(0)
	return c.otherRecords(func(kind recordKind, payload []byte) error {
		n++
		return b.Put(binary.BigEndian.AppendUint32([]byte{byte(kind)}, n), payload)
	})
}

func emptyBucket(tx *bolt.Tx, name string) error {
	if err := tx.DeleteBucket([]byte(name)); err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
		return err
	}
	_, err := tx.CreateBucket([]byte(name))
	return err
}

func putRecord(b *bolt.Bucket, key []byte, v any) error {
	payload, err := encodeRecord(v)
	if err != nil {
		return err
	}
	return b.Put(key, payload)
}

// readBuckets feeds every record of the file to b.
func readBuckets(tx *bolt.Tx, b *contentBuilder) error {
	kinds := map[string]recordKind{bucketKeys: recordKey, bucketTeams: recordTeam, bucketConfigs: recordConfig}
	return tx.ForEach(func(name []byte, bucket *bolt.Bucket) error {
		return bucket.ForEach(func(key, payload []byte) error {
			kind, ok := kinds[string(name)]
			if !ok {
				kind = recordKind(key[0])
			}
			if err := b.add(kind, payload); err != nil {
				return fmt.Errorf("record of %s: %w", name, err)
			}
			return nil
		})
	})
}

// close writes everything, vouches for the file and gives the lock free.
func (f *stateFile) close(c *content, dirty dirtySet) error {
	err := f.seal(c, dirty)
	if err != nil {
		err = fmt.Errorf("write state file (the next start rebuilds it from the log): %w", err)
	}
	f.closeDB()
	return errors.Join(err, f.lock.Close())
}

func (f *stateFile) seal(c *content, dirty dirtySet) error {
	if err := f.write(c.view, dirty); err != nil {
		return err
	}
	if err := f.update(func(tx *bolt.Tx) error { return writeMisc(tx, c) }); err != nil {
		return err
	}
	if err := f.db.Sync(); err != nil {
		return err
	}
	db := f.db
	f.db = nil
	if err := guarded(db.Close); err != nil {
		return err
	}
	size, crc, err := checksum(f.path)
	if err != nil {
		return err
	}
	return f.mark(cleanMark{Format: stateFileFormat, Size: size, CRC: crc, Position: c.position})
}

// mark writes the clean mark so that it is there as a whole or not at all.
func (f *stateFile) mark(m cleanMark) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode clean mark: %w", err)
	}
	path := filepath.Join(f.dir, stateMarkName)
	tmp, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(tmp, "%s\n%s", b, markSum(b))
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	return syncDir(f.dir)
}

func checksum(path string) (size int64, crc uint32, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	h := crc32.New(crcTable())
	size, err = io.Copy(h, file)
	return size, h.Sum32(), errors.Join(err, file.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
