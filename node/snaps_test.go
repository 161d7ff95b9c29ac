package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
)

// snapshotted returns a stopped node with a snapshot that stands in for the
// first ten of its eleven commands, and that snapshot's directory.
func snapshotted(t *testing.T) (n *testNode, dir string) {
	t.Helper()
	n = openNode(t, func(o *Options) { o.ID, o.DataDir = "n1", t.TempDir() })
	for i := range 10 {
		apply(t, n, fmt.Sprint(i))
	}
	if err := n.raft.Load().Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	apply(t, n, "last")
	n.close(t)
	found, err := filepath.Glob(filepath.Join(n.opts.DataDir, raftDir, snapshotDir, "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("snapshots: %q, %v", found, err)
	}
	return n, found[0]
}

func TestNoFlippedBitOfASnapshotsDescriptionIsTakenForGood(t *testing.T) {
	t.Parallel()
	n, dir := snapshotted(t)
	root := filepath.Join(n.opts.DataDir, raftDir)
	list := func() []*raft.SnapshotMeta {
		s, err := openSnapshots(root, Options{}.withDefaults().Logger)
		if err != nil {
			t.Fatal(err)
		}
		metas, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		return metas
	}
	if len(list()) != 1 {
		t.Fatal("the snapshot is not there")
	}
	path := filepath.Join(dir, snapshotMeta)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 1 << (i % 8)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if metas := list(); len(metas) != 0 {
			t.Fatalf("with byte %d as %q instead of %q the snapshot is %+v", i, bad[i], good[i], metas[0])
		}
	}
	// The log still holds everything, so nothing is lost.
	again := n.again(t, nil)
	waitApplied(t, "last", again)
	if got := again.fsm.list(); len(got) != 11 {
		t.Errorf("applied %q", got)
	}
}

func TestASnapshotWithoutAChecksumIsUsed(t *testing.T) {
	t.Parallel()
	n, dir := snapshotted(t)
	if err := os.Remove(filepath.Join(dir, snapshotSum)); err != nil {
		t.Fatal(err)
	}
	again := n.again(t, nil)
	waitApplied(t, "last", again)
	if again.stores.snapshot == 0 {
		t.Error("the snapshot was left aside")
	}
}

func TestASnapshotWithoutItsLogIsDamage(t *testing.T) {
	t.Parallel()
	n, _ := snapshotted(t)
	path := filepath.Join(n.opts.DataDir, raftDir, raftFile)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	o, _, _ := testOptions(t, func(o *Options) { o.ID, o.DataDir = "n1", n.opts.DataDir })
	for try := range 2 {
		if _, err := Open(context.Background(), o); !errors.Is(err, ErrDamaged) {
			t.Errorf("start %d: %v", try, err)
		}
	}
}

func TestALogIsNotGivenToANewID(t *testing.T) {
	t.Parallel()
	n, _ := snapshotted(t)
	if err := os.Remove(filepath.Join(n.opts.DataDir, nodeIDFile)); err != nil {
		t.Fatal(err)
	}
	o, _, _ := testOptions(t, func(o *Options) { o.DataDir = n.opts.DataDir })
	for try := range 2 {
		if _, err := Open(context.Background(), o); !errors.Is(err, ErrDamaged) {
			t.Errorf("start %d: %v", try, err)
		}
	}
	waitApplied(t, "last", n.again(t, nil)) // its id is configured
}

// A node that dies while it takes a snapshot, of a full disk maybe, leaves what
// it had written; nobody would ever take that away.
func TestAnUnfinishedSnapshotIsTakenAwayAtTheNextStart(t *testing.T) {
	t.Parallel()
	n, dir := snapshotted(t)
	snaps := filepath.Dir(dir)
	left := filepath.Join(snaps, "3-99-1234567890.tmp")
	if err := errors.Join(os.Mkdir(left, 0o700), os.WriteFile(filepath.Join(left, "state.bin"), make([]byte, 1<<16), 0o600)); err != nil {
		t.Fatal(err)
	}
	back := n.again(t, nil)
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("a good one is gone: %v", err)
	}
	apply(t, back, "goes on")
}
