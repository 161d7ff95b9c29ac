package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime/debug"

	"github.com/hashicorp/raft"
)

// bothStores is what raft-boltdb's store is to Raft.
type bothStores interface {
	raft.LogStore
	raft.StableStore
}

// checkedStore guards a store's contents: each entry and each value carries a
// checksum, a hole in the log is an error, and a panic of the store is one too.
// It reports; what an error means for the node is the caller's business. The
// entry's checksum lives in its Extensions field, which is not used otherwise.
type checkedStore struct {
	inner       bothStores
	path        string
	beforeWrite func()
}

var _ bothStores = (*checkedStore)(nil)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const crcSize = 4

// guard runs f and makes a panic, a bad memory access included, an error.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("store panicked: %v", r)
		}
	}()
	return f()
}

func (s *checkedStore) damaged(format string, args ...any) error {
	return damaged(s.path, fmt.Errorf(format, args...))
}

// entrySum covers what Raft and the state machine act on.
func entrySum(l *raft.Log) []byte {
	var head [17]byte
	binary.BigEndian.PutUint64(head[0:], l.Index)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	sum := crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, l.Data)
	return binary.BigEndian.AppendUint32(nil, sum)
}

func valueSum(key, val []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, val)
}

// FirstIndex implements raft.LogStore.
func (s *checkedStore) FirstIndex() (i uint64, err error) {
	err = guard(func() error { i, err = s.inner.FirstIndex(); return err })
	return i, err
}

// LastIndex implements raft.LogStore.
func (s *checkedStore) LastIndex() (i uint64, err error) {
	err = guard(func() error { i, err = s.inner.LastIndex(); return err })
	return i, err
}

// GetLog implements raft.LogStore.
func (s *checkedStore) GetLog(index uint64, l *raft.Log) error {
	err := guard(func() error { return s.inner.GetLog(index, l) })
	if errors.Is(err, raft.ErrLogNotFound) {
		return s.missing(index, err)
	}
	if err != nil {
		return s.damaged("entry %d: %w", index, err)
	}
	if l.Index != index || string(entrySum(l)) != string(l.Extensions) {
		return s.damaged("entry %d: wrong checksum", index)
	}
	l.Extensions = nil
	return nil
}

// missing tells an entry that was compacted away from a hole in the log.
func (s *checkedStore) missing(index uint64, notFound error) error {
	first, err := s.FirstIndex()
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	if first <= index && index <= last {
		return s.damaged("entry %d of %d to %d is missing", index, first, last)
	}
	return notFound
}

// StoreLog implements raft.LogStore.
func (s *checkedStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. Raft goes on using its entries, so the
// checksums go into copies.
func (s *checkedStore) StoreLogs(logs []*raft.Log) error {
	copies := make([]raft.Log, len(logs))
	ptrs := make([]*raft.Log, len(logs))
	for i, l := range logs {
		copies[i] = *l
		copies[i].Extensions = entrySum(l)
		ptrs[i] = &copies[i]
	}
	s.beforeWrite()
	return guard(func() error { return s.inner.StoreLogs(ptrs) })
}

// DeleteRange implements raft.LogStore.
func (s *checkedStore) DeleteRange(low, high uint64) error {
	s.beforeWrite()
	return guard(func() error { return s.inner.DeleteRange(low, high) })
}

// Set implements raft.StableStore.
func (s *checkedStore) Set(key, val []byte) error {
	framed := append(make([]byte, 0, len(val)+crcSize), val...)
	framed = binary.BigEndian.AppendUint32(framed, valueSum(key, val))
	s.beforeWrite()
	return guard(func() error { return s.inner.Set(key, framed) })
}

// errNoValue has the text by which Raft knows a missing value.
var errNoValue = errors.New("not found")

// Get implements raft.StableStore.
func (s *checkedStore) Get(key []byte) (val []byte, err error) {
	err = guard(func() error { val, err = s.inner.Get(key); return err })
	if err != nil && err.Error() == errNoValue.Error() {
		return nil, errNoValue
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", key, err)
	}
	if len(val) == 0 { // how the in-memory store says so
		return nil, errNoValue
	}
	n := len(val) - crcSize
	if n < 0 || binary.BigEndian.Uint32(val[n:]) != valueSum(key, val[:n]) {
		return nil, s.damaged("value %s: wrong checksum", key)
	}
	return val[:n:n], nil
}

// SetUint64 implements raft.StableStore.
func (s *checkedStore) SetUint64(key []byte, val uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, val))
}

// GetUint64 implements raft.StableStore.
func (s *checkedStore) GetUint64(key []byte) (uint64, error) {
	val, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(val) != 8 {
		return 0, s.damaged("value %s: %d bytes instead of 8", key, len(val))
	}
	return binary.BigEndian.Uint64(val), nil
}
