package fsm

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// filledDir returns a directory with a clean state file, and the digest of what
// is in it.
func filledDir(t testing.TB) (dir, digest string) {
	t.Helper()
	dir = t.TempDir()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	feed(s, filled(t).log.entries)
	digest = s.Digest()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, digest
}

func TestCleanStopIsReadBackAndItsMarkIsGoneWhileRunning(t *testing.T) {
	dir, digest := filledDir(t)
	mark := filepath.Join(dir, stateMarkName)
	for range 2 {
		s, err := Open(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if s.Digest() != digest || s.LoadedIndex() != s.AppliedIndex() || s.LoadedIndex() == 0 {
			t.Errorf("loaded index %d, applied %d", s.LoadedIndex(), s.AppliedIndex())
		}
		if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the mark is still there: %v", err)
		}
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(mark); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{stateFileName, stateMarkName, stateLockName} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestDirectoryIsCreatedForItsOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	openState(t, Options{Dir: dir})
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestSecondProcessIsToldWithinTwoSeconds(t *testing.T) {
	dir := t.TempDir()
	first := openState(t, Options{Dir: dir})
	start := time.Now()
	_, err := Open(Options{Dir: dir})
	wantErr(t, err, ErrLocked)
	if !strings.Contains(err.Error(), dir) || time.Since(start) > 2*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	openState(t, Options{Dir: dir})
}

// kill ends a state as a crash does: nothing more is written, the lock is free.
func kill(t testing.TB, s *State) {
	t.Helper()
	s.closing.Do(func() {
		s.flusher.stop()
		s.file.closeDB()
		if err := s.file.lock.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestWithoutACleanStopTheStateComesFromTheLog(t *testing.T) {
	dir, digest := filledDir(t)
	s, err := Open(Options{Dir: dir, FlushInterval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	mustKey(t, NewClient(&memLog{s: s}, s), testKey("late"))
	eventually(t, "flush", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.dirty.empty()
	})
	kill(t, s)
	s = openState(t, Options{Dir: dir})
	if s.LoadedIndex() != 0 || s.AppliedIndex() != 0 || s.View().KeyCount() != 0 {
		t.Fatalf("loaded index %d, %d keys", s.LoadedIndex(), s.View().KeyCount())
	}
	feed(s, filled(t).log.entries)
	if s.Digest() != digest {
		t.Error("the rebuilt state is another one")
	}
}

func TestDamagedFileIsSetAsideWithAWarningNeverACrash(t *testing.T) {
	page := os.Getpagesize()
	overwrite := func(at, n int, with byte) func(testing.TB, string) {
		return func(t testing.TB, path string) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := at; i < min(at+n, len(b)); i++ {
				b[i] ^= with
			}
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name   string
		damage func(testing.TB, string)
	}{
		{"page 0", overwrite(0, page, 0xff)},
		{"page 1", overwrite(page, page, 0xff)},
		{"both meta pages", overwrite(0, 2*page, 0xff)},
		{"data pages", overwrite(2*page, 1<<20, 0xff)},
		{"one bit in the middle", overwrite(4*page+100, 1, 1)},
		{"cut by a page", func(t testing.TB, path string) { truncateBy(t, path, page) }},
		{"empty", func(t testing.TB, path string) { truncateBy(t, path, -1) }},
		{"gone", func(t testing.TB, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, digest := filledDir(t)
			path := filepath.Join(dir, stateFileName)
			tc.damage(t, path)
			log := &recorder{}
			s := openState(t, Options{Dir: dir, Logger: log.logger()})
			if s.LoadedIndex() != 0 || s.View().KeyCount() != 0 {
				t.Fatal("damaged state was used")
			}
			if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), path) {
				t.Errorf("log is %q", log.String())
			}
			feed(s, filled(t).log.entries)
			if s.Digest() != digest {
				t.Error("the rebuilt state is another one")
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if again := openState(t, Options{Dir: dir}); again.Digest() != digest {
				t.Error("the new file is not clean")
			}
		})
	}
}

func truncateBy(t testing.TB, path string, n int) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	size := info.Size() - int64(n)
	if n < 0 {
		size = 0
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func TestHalfMadeFilesAreReplaced(t *testing.T) {
	for _, tc := range []struct{ name, state, mark string }{
		{"garbage without a mark", strings.Repeat("garbage ", 10_000), ""},
		{"mark is garbage", "x", "{"},
		{"mark of another format", "x", `{"format":99}`},
		{"mark alone", "", `{"format":1,"size":4}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range map[string]string{stateFileName: tc.state, stateMarkName: tc.mark} {
				if content == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if s := openState(t, Options{Dir: dir}); s.LoadedIndex() != 0 {
				t.Errorf("loaded index is %d", s.LoadedIndex())
			}
		})
	}
}

func TestUnwritableFileIsSaidOnceAndServingGoesOn(t *testing.T) {
	log := &recorder{}
	f := &stateFile{path: "state.db", logger: log.logger()}
	full := errors.New("no space left on device")
	for _, err := range []error{full, full, nil, nil, full} {
		f.report(err)
	}
	if got := log.String(); strings.Count(got, "level=WARN") != 2 || strings.Count(got, "level=INFO") != 1 {
		t.Errorf("log is %q", got)
	}
}

func TestWhatCouldNotBeFlushedIsFlushedLater(t *testing.T) {
	dir := t.TempDir()
	log := &recorder{}
	s, err := Open(Options{Dir: dir, Logger: log.logger(), FlushInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(&memLog{s: s}, s)
	mustKey(t, c, testKey("a"))
	tx, err := s.file.db.Begin(true) // a transaction that hangs stands for a disk that does
	if err != nil {
		t.Fatal(err)
	}
	flushed := make(chan struct{})
	go func() { s.flush(); close(flushed) }()
	mustKey(t, c, testKey("b")) // does not wait for the disk
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	<-flushed
	good := s.file.db
	broken, err := bolt.Open(filepath.Join(t.TempDir(), "x"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	s.file.db = broken
	mustKey(t, c, testKey("c"))
	s.flush()
	s.file.db = good
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("log is %q", log.String())
	}
	want := s.Digest()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if again := openState(t, Options{Dir: dir}); again.Digest() != want {
		t.Error("the file lacks something")
	}
}

func TestPanicOfTheDatabaseIsAnErrorAndTheFileIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	log := &recorder{}
	s, err := Open(Options{Dir: dir, Logger: log.logger(), FlushInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	err = s.file.update(func(*bolt.Tx) error { panic("page 7 already freed") })
	wantErr(t, err, errPanicked)
	mustKey(t, NewClient(&memLog{s: s}, s), testKey("a"))
	s.flush()
	wantErr(t, s.Close(), errPanicked)
	if again := openState(t, Options{Dir: dir}); again.LoadedIndex() != 0 {
		t.Error("a file that was given up is read")
	}
}

func TestRestoredStateReplacesTheFile(t *testing.T) {
	dir, _ := filledDir(t)
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	other := newRig(t)
	mustKey(t, other.Client, testKey("other"))
	if err := restore(s, takeSnapshot(t, other.s)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantSameDigest(t, openState(t, Options{Dir: dir}), other.s)
}

func TestUnusableDirectoryIsAnErrorWithItsName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: filepath.Join(file, "data")}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error is %v", err)
	}
	if _, err := Open(Options{FlushInterval: -1}); err == nil {
		t.Error("a negative interval is taken")
	}
}

// The mark says up to which entry the file goes: a wrong one would have entries
// applied twice, or not at all.
func TestNoFlippedBitOfTheMarkIsTakenForGood(t *testing.T) {
	dir, digest := filledDir(t)
	path := filepath.Join(dir, stateMarkName)
	mark, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	state, err := os.ReadFile(filepath.Join(dir, stateFileName))
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(mark) {
		flipped := bytes.Clone(mark)
		flipped[bit/8] ^= 1 << (bit % 8)
		f := &stateFile{dir: dir, path: filepath.Join(dir, stateFileName), logger: slog.New(slog.DiscardHandler)}
		if err := errors.Join(os.WriteFile(path, flipped, 0o600), os.WriteFile(f.path, state, 0o600)); err != nil {
			t.Fatal(err)
		}
		c, err := f.open()
		f.closeDB()
		if err != nil || c != nil {
			t.Fatalf("bit %d of %s: read as position %+v, error %v", bit, mark, c, err)
		}
	}
	if err := os.WriteFile(path, mark, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, stateFileName), state, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := openState(t, Options{Dir: dir}); s.Digest() != digest {
		t.Error("the good one is not read")
	}
}
