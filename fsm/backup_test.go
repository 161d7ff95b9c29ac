package fsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"sluice/limiter"
)

// backupOf returns the whole file.
func backupOf(t testing.TB, s *State) []byte {
	t.Helper()
	b, err := s.Backup("c-old", "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := b.Write(&out); err != nil {
		t.Fatal(err)
	}
	if int64(out.Len()) != b.Size() {
		t.Fatalf("%d bytes, announced were %d", out.Len(), b.Size())
	}
	return out.Bytes()
}

func parse(t testing.TB, b []byte) *StoredBackup {
	t.Helper()
	s, err := ParseBackup(b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// withHeader replaces the header's JSON and makes the checksum fit.
func withHeader(b []byte, change func(string) string) []byte {
	at := len(backupMagic)
	n := int(binary.BigEndian.Uint32(b[at:]))
	header := change(string(b[at+4 : at+4+n]))
	out := append([]byte(backupMagic), binary.BigEndian.AppendUint32(nil, uint32(len(header)))...)
	out = append(out, header...)
	out = binary.BigEndian.AppendUint32(out, crc32.Checksum(out, crcTable()))
	return append(out, b[at+4+n+4:]...)
}

func TestBackupSaysWhereItComesFrom(t *testing.T) {
	r := filled(t)
	info, err := VerifyBackup(bytes.NewReader(backupOf(t, r.s)))
	if err != nil {
		t.Fatal(err)
	}
	if info.ClusterID != "c-old" || info.Version != "1.2.3" || info.AppliedIndex != r.s.AppliedIndex() || !info.CreatedAt.Equal(r.time.now()) ||
		info.Keys != 3 || info.Teams != 1 || info.ConfigVersion != 1 {
		t.Errorf("%+v", info)
	}
}

func TestBackupIsOfItsMomentWhateverIsAppliedMeanwhile(t *testing.T) {
	r := filled(t)
	want := backupOf(t, r.s)
	b, err := r.s.Backup("c-old", "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	mustKey(t, r.Client, testKey("later"))
	var out bytes.Buffer
	if err := b.Write(&out); err != nil || !bytes.Equal(out.Bytes(), want) {
		t.Errorf("later writes are in the backup: %v", err)
	}
}

func TestDamagedBackupIsRefusedWhereverItIsDamaged(t *testing.T) {
	whole := backupOf(t, filled(t).s)
	headerEnd := len(backupMagic) + 4 + int(binary.BigEndian.Uint32(whole[len(backupMagic):])) + 4
	t.Run("any byte flipped", func(t *testing.T) {
		for n := range whole {
			b := bytes.Clone(whole)
			b[n] ^= 1 << (n % 8)
			want := ErrDamaged
			if n < len(backupMagic) {
				want = ErrNotBackup
			}
			if _, err := ParseBackup(b); !errors.Is(err, want) {
				t.Fatalf("byte %d of %d: %v", n, len(whole), err)
			}
		}
	})
	t.Run("cut anywhere", func(t *testing.T) {
		for n := range whole {
			want := ErrDamaged
			if n < len(backupMagic) {
				want = ErrNotBackup
			}
			if _, err := ParseBackup(whole[:n]); !errors.Is(err, want) {
				t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
			}
		}
	})
	for name, tt := range map[string]struct {
		file []byte
		want error
		text string
	}{
		"empty":                 {nil, ErrNotBackup, "empty"},
		"something else":        {[]byte("-- PostgreSQL database dump, of which there is more"), ErrNotBackup, "begins with something else"},
		"a bare snapshot":       {whole[headerEnd:], ErrNotBackup, ""},
		"bytes behind the end":  {append(bytes.Clone(whole), 0), ErrDamaged, "after the end"},
		"twice":                 {append(bytes.Clone(whole), whole...), ErrDamaged, "after the end"},
		"newer format":          {withHeader(whole, func(h string) string { return strings.Replace(h, `"format":1`, `"format":9,"new":[1]`, 1) }), ErrNewerFormat, "format is 9"},
		"format 0":              {withHeader(whole, func(h string) string { return strings.Replace(h, `"format":1`, `"format":0`, 1) }), ErrDamaged, "impossible"},
		"negative length":       {withHeader(whole, func(h string) string { return strings.Replace(h, `"length":`, `"length":-`, 1) }), ErrDamaged, "impossible"},
		"header is not JSON":    {withHeader(whole, func(string) string { return "{" }), ErrDamaged, "impossible"},
		"header of gigabytes":   {append([]byte(backupMagic), 0xff, 0xff, 0xff, 0xff), ErrDamaged, "header"},
		"longer than it says":   {withHeader(whole, func(h string) string { return strings.Replace(h, `"length":`, `"length":9`, 1) }), ErrDamaged, "ends after"},
		"another one's content": {withHeader(whole, func(h string) string { return strings.Replace(h, `"sha256":"`, `"sha256":"00`, 1) }), ErrDamaged, "checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseBackup(tt.file)
			wantErr(t, err, tt.want)
			if !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestBackupWithAStateThatCannotBeIsRefused(t *testing.T) {
	t.Run("no configuration", func(t *testing.T) {
		_, err := ParseBackup(backupOf(t, newRig(t).s))
		if err == nil || !strings.Contains(err.Error(), "no configuration") {
			t.Errorf("error is %v", err)
		}
	})
	t.Run("a clock at the end of time", func(t *testing.T) {
		r := filled(t)
		r.s.mu.Lock()
		r.s.position.Now = maxStamp - 1
		r.s.mu.Unlock()
		if _, err := ParseBackup(backupOf(t, r.s)); err == nil || !strings.Contains(err.Error(), "time") {
			t.Errorf("error is %v", err)
		}
	})
}

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

// used returns the requests of model a's window as it is now, and until when it runs.
func used(t testing.TB, r *rig) (requests int64, left time.Duration) {
	t.Helper()
	st := r.s.Limits("a")[0]
	return st.Used.Requests, st.ResetsIn
}

func TestRunningWindowsGoOnWhereTheyWere(t *testing.T) {
	for name, tt := range map[string]struct {
		ahead   time.Duration // of the old cluster's ledger clock to the new one's, about
		after   time.Duration // between backup and restore, by the wall clock
		clock   time.Duration // by which the new cluster's wall clock is wrong
		want    int64
		resetIn time.Duration
	}{
		"an older cluster":            {ahead: time.Hour, after: 10 * time.Second, want: 1, resetIn: 50 * time.Second},
		"a younger cluster":           {ahead: -time.Hour, after: 10 * time.Second, want: 1, resetIn: 50 * time.Second},
		"after the window":            {ahead: time.Hour, after: 61 * time.Second},
		"after a year":                {ahead: time.Hour, after: 365 * 24 * time.Hour},
		"wall clocks that go back":    {ahead: time.Hour, after: 10 * time.Second, clock: -time.Hour, want: 1, resetIn: time.Minute},
		"wall clocks that go forward": {ahead: time.Hour, after: 10 * time.Second, clock: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			old := newRig(t)
			old.time.mono += max(tt.ahead, 0)
			mustConfig(t, old.Client, testConfig(mockModel("a", 10, 100)))
			newGateNode(t, old, "n1").admit(t, limiter.Ticket{Model: "a"})
			b := parse(t, backupOf(t, old.s))

			r := fresh(t)
			r.time.mono += max(-tt.ahead, 0)
			r.time.step(old.time.now().Sub(r.time.now()))
			r.time.pass(tt.after)
			r.time.step(tt.clock)
			if _, err := r.Restore(t.Context(), b, WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			if n, left := used(t, r); n != tt.want || left != tt.resetIn {
				t.Errorf("%d requests used, window ends in %v", n, left)
			}
			wantSameDigest(t, replay(t, r.log.entries), r.s)
		})
	}
}

func TestWhatTheFreshClusterServedIsNotForgotten(t *testing.T) {
	old := newRig(t)
	mustConfig(t, old.Client, testConfig(mockModel("a", 10, 100)))
	gate := newGateNode(t, old, "n1")
	gate.admit(t, limiter.Ticket{Model: "a"})
	gate.admit(t, limiter.Ticket{Model: "a"})
	b := parse(t, backupOf(t, old.s))
	r := fresh(t, "a")
	r.time.pass(20 * time.Second)
	newGateNode(t, r, "n1").admit(t, limiter.Ticket{Model: "a"})
	if _, err := r.Restore(t.Context(), b, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if n, left := used(t, r); n != 3 || left != time.Minute {
		t.Errorf("%d requests used, window ends in %v", n, left)
	}
}

func TestARunningNodeRegistersAgain(t *testing.T) {
	old := filled(t)
	for i := range 5 { // the old cluster has given out more epochs
		if _, err := old.Applier("n1", nth(i)).Register(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b := parse(t, backupOf(t, old.s))
	r := fresh(t, "a")
	watcher := &forgetful{}
	r.s.o.Observer = func() Observer { return watcher }
	gate := newGateNode(t, r, "n1")
	stale := gate.batch.Epoch
	if _, err := r.Restore(t.Context(), b, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if watcher.forgotten != 1 {
		t.Error("the gate keeps its permits")
	}
	_, err := r.Applier("n1", "any").ApplyBatch(t.Context(), &limiter.Batch{Node: "n1", Epoch: stale, Seq: 9})
	wantErr(t, err, limiter.ErrOldEpoch)
	epoch, err := r.Applier("n1", "any").Register(t.Context())
	if err != nil || epoch <= 6 {
		t.Errorf("epoch %d, %v: it was somebody's in the old cluster", epoch, err)
	}
	if k, _ := r.s.View().KeyByAlias(nth(0)); k == nil {
		t.Fatal("no key")
	}
	// The old cluster's request in flight holds no slot here: both are free.
	gate = newGateNode(t, r, "n1")
	for range 2 {
		gate.admit(t, limiter.Ticket{Model: "a", Key: id(nth(0)), Team: "red", Priority: "prod"})
	}
}

// forgetful counts how often it was told to forget.
type forgetful struct{ forgotten int }

func (f *forgetful) Observe(limiter.Time, *limiter.Batch, *limiter.Answer, *limiter.Ledger, limiter.Policy) {
}
func (f *forgetful) Forget() { f.forgotten++ }

func TestAnswersOfTheOldClusterAreLeftBehind(t *testing.T) {
	old := filled(t) // created its keys with idempotency keys
	r := fresh(t)
	if _, err := r.Restore(t.Context(), parse(t, backupOf(t, old.s)), WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := r.CreateKey(t.Context(), testKey(nth(0)), WriteOptions{IdempotencyKey: nth(0)})
	wantErr(t, err, ErrExists)
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

func FuzzBackup(f *testing.F) {
	whole := backupOf(f, filled(f).s)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte(backupMagic))
	f.Add(withHeader(whole, func(string) string { return `{"format":1,"length":9223372036854775807}` }))
	f.Fuzz(func(t *testing.T, b []byte) {
		info, err := VerifyBackup(bytes.NewReader(b))
		if err == nil && info.Length > int64(len(b)) {
			t.Errorf("%d bytes of %d", len(b), info.Length)
		}
		stored, err := ParseBackup(b)
		if err != nil {
			return
		}
		if _, err := fresh(t).Restore(t.Context(), stored, WriteOptions{}); err != nil {
			t.Errorf("it parses, but is not restored: %v", err)
		}
	})
}

// FuzzAdoptedRecord goes around the checksums: whatever a record of a backup
// holds, taking the state over gives an error or a state that can be written
// and read again.
func FuzzAdoptedRecord(f *testing.F) {
	whole, err := readSnapshot(bytes.NewReader(parse(f, backupOf(f, filled(f).s)).snapshot))
	if err != nil {
		f.Fatal(err)
	}
	if err := whole.records(func(kind recordKind, payload []byte) error { f.Add(byte(kind), payload); return nil }); err != nil {
		f.Fatal(err)
	}
	r := fresh(f)
	f.Fuzz(func(t *testing.T, kind byte, payload []byte) {
		b := &contentBuilder{ledger: true}
		if b.add(recordKind(kind), payload) != nil {
			return
		}
		c, err := b.finish()
		if err != nil {
			return
		}
		if _, err := limiter.LoadLedger(c.ledger); err != nil {
			return
		}
		s := openState(t, newTestTime().options())
		if err := s.install(r.s.adopt(c)); err != nil {
			t.Fatalf("it cannot be adopted: %v", err)
		}
		if err := restore(openState(t, newTestTime().options()), takeSnapshot(t, s)); err != nil {
			t.Fatalf("it does not come back: %v", err)
		}
	})
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
