package node

import (
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/hashicorp/raft"
)

// fatalStore stands between Raft and its store. Raft panics when it cannot keep
// its term or read its log, and as a leader it would be elected again and again
// with a disk that cannot be written. Here the first error stops the node: fail
// is told, and the goroutine that asked ends, which runs Raft's own clean-up.
// Nothing is ever reported as stored that was not. What is under way is noted
// in calls, for the watchdog.
type fatalStore struct {
	*checkedStore
	calls *storeCalls
	fail  func(error)
}

var _ bothStores = (*fatalStore)(nil)

// stop never returns.
func (s *fatalStore) stop(doing string, err error) {
	s.fail(fmt.Errorf("%s in %s: %w", doing, s.path, diskError(err)))
	runtime.Goexit()
}

// GetLog implements raft.LogStore.
func (s *fatalStore) GetLog(index uint64, l *raft.Log) error {
	end := s.calls.begin("reading the log")
	err := s.checkedStore.GetLog(index, l)
	end()
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		s.stop("reading the log", err)
	}
	return err
}

// StoreLog implements raft.LogStore.
func (s *fatalStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (s *fatalStore) StoreLogs(logs []*raft.Log) error {
	end := s.calls.begin("writing the log")
	err := s.checkedStore.StoreLogs(logs)
	end()
	if err != nil {
		s.stop("writing the log", err)
	}
	return nil
}

// DeleteRange implements raft.LogStore.
func (s *fatalStore) DeleteRange(low, high uint64) error {
	end := s.calls.begin("truncating the log")
	err := s.checkedStore.DeleteRange(low, high)
	end()
	if err != nil {
		s.stop("truncating the log", err)
	}
	return nil
}

// Set implements raft.StableStore.
func (s *fatalStore) Set(key, val []byte) error {
	end := s.calls.begin("writing " + string(key))
	err := s.checkedStore.Set(key, val)
	end()
	if err != nil {
		s.stop("writing "+string(key), err)
	}
	return nil
}

// SetUint64 implements raft.StableStore.
func (s *fatalStore) SetUint64(key []byte, val uint64) error {
	end := s.calls.begin("writing " + string(key))
	err := s.checkedStore.SetUint64(key, val)
	end()
	if err != nil {
		s.stop("writing "+string(key), err)
	}
	return nil
}

// Get implements raft.StableStore.
func (s *fatalStore) Get(key []byte) ([]byte, error) {
	val, err := s.checkedStore.Get(key)
	if errors.Is(err, ErrDamaged) {
		s.stop("reading "+string(key), err)
	}
	return val, err
}

// GetUint64 implements raft.StableStore.
func (s *fatalStore) GetUint64(key []byte) (uint64, error) {
	val, err := s.checkedStore.GetUint64(key)
	if errors.Is(err, ErrDamaged) {
		s.stop("reading "+string(key), err)
	}
	return val, err
}

// fatalFSM lets a state machine stop the node by a panic: it cannot go on after
// an entry that it does not understand, and must not take the process along.
type fatalFSM struct {
	inner raft.FSM
	fail  func(error)
}

var _ raft.FSM = (*fatalFSM)(nil)

func (f *fatalFSM) catch(doing string) {
	r := recover()
	if r == nil {
		return
	}
	err, ok := r.(error)
	if !ok {
		err = fmt.Errorf("%v", r)
	}
	f.fail(fmt.Errorf("state machine stopped while %s: %w", doing, err))
	runtime.Goexit()
}

// Apply implements raft.FSM.
func (f *fatalFSM) Apply(l *raft.Log) any {
	defer f.catch(fmt.Sprintf("applying entry %d", l.Index))
	return f.inner.Apply(l)
}

// Snapshot implements raft.FSM.
func (f *fatalFSM) Snapshot() (raft.FSMSnapshot, error) {
	defer f.catch("taking a snapshot")
	return f.inner.Snapshot()
}

// Restore implements raft.FSM.
func (f *fatalFSM) Restore(r io.ReadCloser) error {
	defer f.catch("restoring a snapshot")
	return f.inner.Restore(r)
}

// inRaft runs f, which may end its goroutine through fatalStore or panic inside
// Raft, and always returns.
func inRaft(f func() error) error {
	result := make(chan error, 1)
	go func() {
		err := errors.New("stopped by its store")
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("raft panicked: %v", r)
			}
			result <- err
		}()
		err = f()
	}()
	return <-result
}
