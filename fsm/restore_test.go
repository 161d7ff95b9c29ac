package fsm

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// fresh returns a cluster of one replica that has its first configuration, with
// a clock of its own.
func fresh(t testing.TB, names ...string) *rig {
	t.Helper()
	r := newRig(t)
	models := []Model{mockModel("first", 10, 100)}
	for _, n := range names {
		models = append(models, mockModel(n, 10, 100))
	}
	mustPropose(t, r, testConfig(models...))
	return r
}

func mustPropose(t testing.TB, r *rig, cfg Config) ConfigResult {
	t.Helper()
	res, err := r.ProposeConfig(t.Context(), cfg, "file")
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestRestoreBringsBackKeysTeamsAndHistory(t *testing.T) {
	old := filled(t)
	mustConfig(t, old.Client, testConfig(mockModel("a", 7, 70)))
	b := parse(t, backupOf(t, old.s))
	r := fresh(t)
	before := r.s.AppliedIndex()
	res, err := r.Restore(t.Context(), b, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if res != (RestoreResult{Keys: 3, Teams: 1, ConfigVersion: 2, AppliedIndex: r.s.AppliedIndex()}) || res.AppliedIndex <= before {
		t.Errorf("%+v", res)
	}
	v := r.s.View()
	if len(v.ConfigHistory()) != 2 || v.Config().Models[0].Name != "a" {
		t.Errorf("configuration is %+v", v.Config())
	}
	for k := range old.s.View().Keys {
		got, ok := v.Key(k.ID)
		if !ok || got.Alias != k.Alias || got.TeamID != "red" || got.Policy() == nil || v.Index() != res.AppliedIndex {
			t.Errorf("key is %+v", got)
		}
	}
	if len(r.s.Sessions()) != 0 {
		t.Errorf("sessions of nodes that are elsewhere: %+v", r.s.Sessions())
	}
	wantSameDigest(t, replay(t, r.log.entries), r.s)
	again := openState(t, newTestTime().options())
	if err := restore(again, takeSnapshot(t, r.s)); err != nil {
		t.Fatal(err)
	}
	wantSameDigest(t, again, r.s)
}

func TestAFileOfTheFreshClusterDoesNotReplaceWhatWasRestored(t *testing.T) {
	b := parse(t, backupOf(t, filled(t).s))
	r := fresh(t)
	if _, err := r.Restore(t.Context(), b, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := mustPropose(t, r, testConfig(mockModel("first", 10, 100))); res.Status != StatusStale {
		t.Errorf("a node that restarts with its file: %+v", res)
	}
	if res := mustPropose(t, r, r.s.View().Config().Config); res.Status != StatusUnchanged {
		t.Errorf("the restored content: %+v", res)
	}
}

func TestRestoreOfALargeStateTakesManyEntries(t *testing.T) {
	old := filled(t)
	for i := range 2000 {
		k := testKey("many" + nth(i/1000) + nth(i/100%10) + nth(i/10%10) + nth(i%10))
		k.Metadata = map[string]any{"note": strings.Repeat("x", 500)}
		mustKey(t, old.Client, k)
	}
	b := parse(t, backupOf(t, old.s))
	if partsOf(b.Info.Length) < 5 {
		t.Fatalf("only %d bytes", b.Info.Length)
	}
	r := fresh(t)
	if _, err := r.Restore(t.Context(), b, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := r.s.View().KeyCount(); got != 2003 {
		t.Errorf("%d keys", got)
	}
	for _, e := range r.log.entries {
		if len(e.Data) > 256<<10 {
			t.Errorf("an entry of %d bytes", len(e.Data))
		}
	}
	t.Run("a snapshot at every entry leads to the same", func(t *testing.T) {
		for n := range r.log.entries {
			half := replay(t, r.log.entries[:n+1])
			s := openState(t, newTestTime().options())
			if err := restore(s, takeSnapshot(t, half)); err != nil {
				t.Fatal(err)
			}
			feed(s, r.log.entries[n+1:])
			wantSameDigest(t, s, r.s)
		}
	})
	t.Run("a state file in the middle leads to the same", func(t *testing.T) {
		half := len(r.log.entries) / 2
		dir := t.TempDir()
		s, err := Open(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		feed(s, r.log.entries[:half])
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openState(t, Options{Dir: dir})
		if s.LoadedIndex() != uint64(half) {
			t.Fatalf("loaded index %d", s.LoadedIndex())
		}
		feed(s, r.log.entries[half:])
		wantSameDigest(t, s, r.s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openState(t, Options{Dir: dir})
		if s.LoadedIndex() != r.s.AppliedIndex() {
			t.Errorf("after the restore the file holds index %d", s.LoadedIndex())
		}
		wantSameDigest(t, s, r.s)
	})
	t.Run("a crash in the middle leads to the same", func(t *testing.T) {
		dir := t.TempDir()
		s, err := Open(Options{Dir: dir, FlushInterval: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		feed(s, r.log.entries[:len(r.log.entries)-1])
		kill(t, s)
		s = openState(t, Options{Dir: dir})
		if s.LoadedIndex() != 0 {
			t.Errorf("loaded index %d", s.LoadedIndex())
		}
		feed(s, r.log.entries)
		wantSameDigest(t, s, r.s)
	})
}

func TestRestoreIsRefusedWhereSomethingWasMade(t *testing.T) {
	b := parse(t, backupOf(t, filled(t).s))
	for name, create := range map[string]func(*rig){
		"a key":                  func(r *rig) { mustKey(t, r.Client, testKey("own")) },
		"a team":                 func(r *rig) { mustTeam(t, r.Client, Team{ID: "own"}) },
		"a second configuration": func(r *rig) { mustConfig(t, r.Client, testConfig()) },
	} {
		t.Run(name, func(t *testing.T) {
			r := fresh(t)
			create(r)
			before := r.s.Digest()
			_, err := r.Restore(t.Context(), b, WriteOptions{})
			wantErr(t, err, ErrNotFresh)
			if r.s.Digest() != before {
				t.Error("the state changed")
			}
		})
	}
	t.Run("a restore before", func(t *testing.T) {
		r := fresh(t)
		if _, err := r.Restore(t.Context(), b, WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		before := r.s.Digest()
		_, err := r.Restore(t.Context(), b, WriteOptions{})
		wantErr(t, err, ErrNotFresh)
		if r.s.Digest() != before {
			t.Error("the state changed")
		}
	})
	t.Run("a key between begin and commit", func(t *testing.T) {
		r := fresh(t)
		r.Client.log = &between{memLog: r.log, at: cmdCommitRestore, do: func() { mustKey(t, NewClient(r.log, r.s), testKey("own")) }}
		_, err := r.Restore(t.Context(), b, WriteOptions{})
		wantErr(t, err, ErrNotFresh)
		if r.s.View().KeyCount() != 1 || r.s.staged != nil {
			t.Errorf("%d keys, staged %v", r.s.View().KeyCount(), r.s.staged)
		}
	})
}

// between runs do before the first command of a kind.
type between struct {
	*memLog
	at commandType
	do func()
}

func TestRepeatedRestoreIsTheSameRestore(t *testing.T) {
	b := parse(t, backupOf(t, filled(t).s))
	r := fresh(t)
	once := WriteOptions{IdempotencyKey: "once"}
	first, err := r.Restore(t.Context(), b, once)
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.Restore(t.Context(), b, once)
	if err != nil || again != first {
		t.Errorf("again: %+v, %v", again, err)
	}
}

func TestAnswersThatAreLostDoNotEndARestore(t *testing.T) {
	b := parse(t, backupOf(t, filled(t).s))
	r := fresh(t)
	lossy := &lossyLog{memLog: r.log, lost: map[commandType]bool{}}
	r.Client.log = lossy
	if _, err := r.Restore(t.Context(), b, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if !lossy.lost[cmdRestorePart] || !lossy.lost[cmdCommitRestore] || r.s.View().KeyCount() != 3 {
		t.Errorf("lost %v, %d keys", lossy.lost, r.s.View().KeyCount())
	}
}

func TestTwoRestoresAtOnceAreOne(t *testing.T) {
	b := parse(t, backupOf(t, filled(t).s))
	r := fresh(t)
	r.Client.log = &between{memLog: r.log, at: cmdCommitRestore, do: func() {
		before := r.s.Digest()
		_, err := NewClient(r.log, r.s).Restore(t.Context(), b, WriteOptions{})
		wantErr(t, err, ErrRestoring)
		if r.s.Digest() == before {
			t.Error("the refusal is an entry of its own")
		}
	}}
	if _, err := r.Restore(t.Context(), b, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestRestoreThatStandsStillIsForgotten(t *testing.T) {
	b := parse(t, backupOf(t, filled(t).s))
	r := fresh(t)
	begin := func() {
		var have int
		c := beginCommand{ID: strings.Repeat("d", stageIDSize), Length: b.Info.Length, SHA256: b.Info.SHA256}
		if err := r.write(t.Context(), cmdBeginRestore, c, WriteOptions{}, &have); err != nil {
			t.Fatal(err)
		}
	}
	begin()
	_, err := r.Restore(t.Context(), b, WriteOptions{})
	wantErr(t, err, ErrRestoring)
	r.time.pass(31 * time.Second)
	if _, err := r.Restore(t.Context(), b, WriteOptions{}); err != nil {
		t.Fatalf("after half a minute: %v", err)
	}
	wantSameDigest(t, replay(t, r.log.entries), r.s)
}

func TestPartsThatDoNotFitAreRefused(t *testing.T) {
	b := parse(t, backupOf(t, filled(t).s))
	id := strings.Repeat("d", stageIDSize)
	send := func(r *rig, kind commandType, payload []byte) error {
		var out any
		return r.send(t.Context(), command{kind: kind, payload: payload}, &out)
	}
	begin := func(r *rig) error {
		payload, err := encodeRecord(beginCommand{ID: id, Length: b.Info.Length, SHA256: b.Info.SHA256})
		return errors.Join(err, send(r, cmdBeginRestore, payload))
	}
	commit, err := encodeRecord(commitCommand{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		steps func(*rig) error
		want  error
	}{
		"a part before the first": {func(r *rig) error { return send(r, cmdRestorePart, encodePart(id, 0, []byte("x"))) }, ErrRestoreLost},
		"a part too far": {func(r *rig) error {
			return errors.Join(begin(r), send(r, cmdRestorePart, encodePart(id, 1, []byte("x"))))
		}, ErrRestoreLost},
		"a part of another one": {func(r *rig) error {
			return errors.Join(begin(r), send(r, cmdRestorePart, encodePart(strings.Repeat("e", stageIDSize), 0, []byte("x"))))
		}, ErrRestoreLost},
		"a commit before the first": {func(r *rig) error { return send(r, cmdCommitRestore, commit) }, ErrRestoreLost},
		"a commit too early":        {func(r *rig) error { return errors.Join(begin(r), send(r, cmdCommitRestore, commit)) }, nil},
		"bytes that were altered": {func(r *rig) error {
			data := bytes.Clone(b.snapshot)
			data[len(data)/2] ^= 1
			return errors.Join(begin(r), send(r, cmdRestorePart, encodePart(id, 0, data)), send(r, cmdCommitRestore, commit))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := fresh(t)
			err := tt.steps(r)
			var invalid *InvalidError
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || tt.want == nil && !errors.As(err, &invalid) {
				t.Errorf("error is %v", err)
			}
			if v := r.s.View(); v.KeyCount() != 0 || v.ConfigVersion() != 1 {
				t.Error("the state changed")
			}
			if _, err := r.Restore(t.Context(), b, WriteOptions{}); err != nil && !errors.Is(err, ErrRestoring) {
				t.Errorf("a restore after it: %v", err)
			}
		})
	}
}

func TestBackupDuringARestoreHasNoPartOfIt(t *testing.T) {
	b := parse(t, backupOf(t, filled(t).s))
	r := fresh(t)
	var mid []byte
	r.Client.log = &between{memLog: r.log, at: cmdCommitRestore, do: func() { mid = backupOf(t, r.s) }}
	if _, err := r.Restore(t.Context(), b, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if c, err := readSnapshot(bytes.NewReader(parse(t, mid).snapshot)); err != nil || c.staged != nil {
		t.Errorf("staged %v, %v", c, err)
	}
}

func TestCommandsAreKeptBackFromMembersThatCannotReadThem(t *testing.T) {
	b := parse(t, backupOf(t, filled(t).s))
	r := fresh(t)
	old := errors.New("n3 runs version 0.1.0")
	r.Client.log = &mixed{memLog: r.log, knows: 1, err: old}
	before := r.s.Digest()
	_, err := r.Restore(t.Context(), b, WriteOptions{})
	wantErr(t, err, old)
	if r.s.Digest() != before {
		t.Error("something was proposed")
	}
	mustKey(t, r.Client, testKey("first level")) // needs nobody's consent
	for kind := cmdRegister; kind <= cmdCommitRestore; kind++ {
		if levelOf(kind) > CommandLevel {
			t.Errorf("command type %d is above this version's own level", kind)
		}
	}
}

// mixed is a log with a member that knows commands of one level only.
type mixed struct {
	*memLog
	knows int
	err   error
}

func (l *between) Apply(ctx context.Context, cmd []byte) ([]byte, uint64, error) {
	if c, err := decodeCommand(cmd); err == nil && c.kind == l.at && l.do != nil {
		do := l.do
		l.do = nil
		do()
	}
	return l.memLog.Apply(ctx, cmd)
}

// lossyLog loses the first answer to a command of each kind but the begin.
type lossyLog struct {
	*memLog
	lost map[commandType]bool
}

func (l *lossyLog) Apply(ctx context.Context, cmd []byte) ([]byte, uint64, error) {
	answer, index, err := l.memLog.Apply(ctx, cmd)
	if c, bad := decodeCommand(cmd); bad == nil && c.kind != cmdBeginRestore && !l.lost[c.kind] {
		l.lost[c.kind] = true
		return nil, 0, errors.New("leader lost")
	}
	return answer, index, err
}

func (m *mixed) Understands(_ context.Context, level int) error {
	if level > m.knows {
		return m.err
	}
	return nil
}
