package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// filledStore returns a data directory whose log holds some entries, with its bytes.
func filledStore(t testing.TB) (dir string, content []byte) {
	t.Helper()
	dir = t.TempDir()
	s, err := openStores(dir, func() {}, Options{}.withDefaults().Logger)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(200) {
		err = errors.Join(err, s.StoreLog(&raft.Log{Index: i + 1, Term: 1, Data: fmt.Appendf(nil, "entry %d %s", i, strings.Repeat("x", int(i)*7))}))
	}
	err = errors.Join(err, s.SetUint64([]byte("CurrentTerm"), 1), s.Set([]byte("LastVoteCand"), []byte("n1")))
	if err = errors.Join(err, s.close()); err != nil {
		t.Fatal(err)
	}
	content, err = os.ReadFile(filepath.Join(dir, raftDir, raftFile))
	if err != nil {
		t.Fatal(err)
	}
	return dir, content
}

// readAll opens the stores and reads all of them, as Raft would.
func readAll(dir string) error {
	s, err := openStores(dir, func() {}, Options{}.withDefaults().Logger)
	if err != nil {
		return err
	}
	first, err := s.FirstIndex()
	last, err2 := s.LastIndex()
	err = errors.Join(err, err2)
	if first != 1 || last != 200 {
		err = errors.Join(err, fmt.Errorf("log is %d to %d", first, last))
	}
	for i := uint64(1); i <= 200; i++ {
		var l raft.Log
		err = errors.Join(err, s.GetLog(i, &l))
	}
	_, e1 := s.GetUint64([]byte("CurrentTerm"))
	_, e2 := s.Get([]byte("LastVoteCand"))
	return errors.Join(err, e1, e2, s.close())
}

func TestDamagedFilesAreRefusedWithoutAPanic(t *testing.T) {
	t.Parallel()
	dir, good := filledStore(t)
	path := filepath.Join(dir, raftDir, raftFile)
	if err := readAll(dir); err != nil {
		t.Fatalf("sound store: %v", err)
	}
	zero := func(from, to int) func([]byte) []byte {
		return func(b []byte) []byte { clear(b[from:to]); return b }
	}
	for name, spoil := range map[string]func([]byte) []byte{
		"empty":           func([]byte) []byte { return nil },
		"a few bytes":     func(b []byte) []byte { return b[:10] },
		"one page":        func(b []byte) []byte { return b[:4096] },
		"half":            func(b []byte) []byte { return b[:len(b)/2] },
		"page 0 zeroed":   zero(0, 4096),
		"page 1 zeroed":   zero(4096, 8192),
		"both zeroed":     zero(0, 8192),
		"all but 2 pages": func(b []byte) []byte { clear(b[8192:]); return b },
		"noise":           func(b []byte) []byte { copy(b[8192:], strings.Repeat("noise", 4000)); return b },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, spoil(slices.Clone(good)), 0o600); err != nil {
				t.Fatal(err)
			}
			o, _, _ := testOptions(t, func(o *Options) { o.DataDir = dir })
			_, err := Open(context.Background(), o)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(fmt.Sprint(err), path) {
				t.Errorf("open: %v", err)
			}
		})
	}
	t.Run("truncated by the last page in use", func(t *testing.T) {
		high := int(order.Uint64(good[16+40:])) // of meta 0; off by a page at most
		if err := os.WriteFile(path, good[:(high-2)*4096], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := readAll(dir); !errors.Is(err, ErrDamaged) {
			t.Errorf("open: %v", err)
		}
	})
}

func TestNoFlippedBitIsTakenForGood(t *testing.T) {
	t.Parallel()
	dir, good := filledStore(t)
	path := filepath.Join(dir, raftDir, raftFile)
	detected, harmless := 0, 0
	for i := 0; i < len(good); i += 1999 {
		b := slices.Clone(good)
		b[i] ^= 1 << (i % 8)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		err := readAll(dir)
		switch {
		case errors.Is(err, ErrDamaged):
			detected++
		case err == nil: // a page not in use, or a byte that nothing depends on
			harmless++
		default:
			t.Errorf("bit %d of byte %d: %v", i%8, i, err)
		}
	}
	if detected == 0 {
		t.Error("nothing was detected")
	}
	t.Logf("%d flips detected, %d without effect", detected, harmless)
}

func FuzzCheckBolt(f *testing.F) {
	_, good := filledStore(f)
	f.Add(uint32(0), []byte{0xff})
	f.Add(uint32(8192+10), []byte{0xff, 0xff})
	f.Add(uint32(3*4096+16), []byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(_ *testing.T, at uint32, patch []byte) {
		b := slices.Clone(good)
		copy(b[int(at)%len(b):], patch)
		_ = checkBoltReader(strings.NewReader(string(b)), int64(len(b))) // must return
	})
}

func TestInterruptedFirstStartIsRepeated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, raftDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, raftDir, raftFile+".new"), []byte("half a page"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := openNode(t, func(o *Options) { o.DataDir = dir })
	apply(t, n, "a")
}

func TestUnreadableDirectoryIsNotCalledDamaged(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o, _, _ := testOptions(t, func(o *Options) { o.DataDir = file })
	if _, err := Open(context.Background(), o); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("open: %v", err)
	}
}

func TestMissingClusterIDIsDamage(t *testing.T) {
	t.Parallel()
	n := openNode(t, func(o *Options) { o.DataDir = t.TempDir() })
	apply(t, n, "a")
	n.close(t)
	if err := os.Remove(filepath.Join(n.opts.DataDir, clusterIDFile)); err != nil {
		t.Fatal(err)
	}
	o, _, _ := testOptions(t, func(o *Options) { o.DataDir = n.opts.DataDir })
	if _, err := Open(context.Background(), o); !errors.Is(err, ErrDamaged) {
		t.Errorf("open: %v", err)
	}
}

// brokenStore fails or panics when told to.
type brokenStore struct {
	bothStores
	write error
}

func (s *brokenStore) StoreLogs(logs []*raft.Log) error {
	if s.write != nil {
		return s.write
	}
	return s.bothStores.StoreLogs(logs)
}

func (s *brokenStore) GetLog(uint64, *raft.Log) error { panic("page 7 is odd") }

func TestAStoreThatPanicsReturnsAnError(t *testing.T) {
	t.Parallel()
	s := &checkedStore{inner: &brokenStore{bothStores: raft.NewInmemStore()}, path: "p", beforeWrite: func() {}}
	if err := s.GetLog(1, &raft.Log{}); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

func TestAFullDiskStopsTheNodeAndSaysSo(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	leader := waitLeader(t, nodes...)
	apply(t, leader, "before")
	rest := others(nodes, leader)
	// Swapped between two commits, so that Raft does not look meanwhile.
	leader.stores.checkedStore.inner = &failingWrites{bothStores: leader.stores.checkedStore.inner}
	_, _, err := tryApply(leader, "lost?", 5*time.Second)
	if !errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrClosed) {
		t.Errorf("apply on a full disk: %v", err)
	}
	select {
	case <-leader.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("node goes on with a full disk")
	}
	if err := leader.Err(); !errors.Is(err, ErrDiskFull) || !strings.Contains(err.Error(), leader.stores.path) {
		t.Errorf("reason: %v", err)
	}
	if leader.Status().State != "stopped" {
		t.Errorf("state %s", leader.Status().State)
	}
	apply(t, rest[0], "after")
	waitApplied(t, "after", rest...)
}

type failingWrites struct{ bothStores }

func (*failingWrites) StoreLogs([]*raft.Log) error {
	return &os.PathError{Op: "write", Path: "raft.db", Err: syscall.ENOSPC}
}

func TestAnEntryThatTheStateMachineRefusesStopsTheNode(t *testing.T) {
	t.Parallel()
	n := openNode(t, func(o *Options) { o.DataDir = t.TempDir() })
	apply(t, n, "a")
	if _, _, err := tryApply(n, "poison", 5*time.Second); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("apply: %v", err)
	}
	<-n.Done()
	if err := n.Err(); err == nil || !strings.Contains(err.Error(), "entry of an unknown kind") {
		t.Errorf("reason: %v", err)
	}
	if got := n.fsm.list(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("applied %q", got)
	}
}

func TestRestartRestoresTheSnapshotUnlessTheStateMachineHoldsIt(t *testing.T) {
	t.Parallel()
	n := openNode(t, func(o *Options) { o.DataDir = t.TempDir() })
	for i := range 10 {
		apply(t, n, fmt.Sprint(i))
	}
	if err := n.raft.Load().Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	apply(t, n, "last")
	want, index := n.fsm.list(), n.fsm.appliedIndex()
	n.close(t)

	empty := n.again(t, nil)
	waitApplied(t, "last", empty)
	if got := empty.fsm.list(); !slices.Equal(got, want) {
		t.Errorf("after a restore: %q", got)
	}
	empty.close(t)

	full := n.again(t, func(o *Options) {
		f := &listFSM{entries: slices.Clone(want), index: index}
		o.FSM, o.AppliedIndex, o.FSMIndex = f, f.appliedIndex, index
	})
	apply(t, full, "one more")
	got := full.opts.FSM.(*listFSM).list()
	if !slices.Equal(got, append(want, "one more")) {
		t.Errorf("state machine with its own state: %q", got)
	}
}
