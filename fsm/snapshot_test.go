package fsm

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"sluice/limiter"
)

// filled returns a rig whose state has something of everything.
func filled(t testing.TB) *rig {
	t.Helper()
	r := newRig(t)
	cfg := testConfig(mockModel("a", 10, 100))
	cfg.Reservation.Shares = map[string]limiter.Share{"prod": {Kind: limiter.SharePercent, Value: 0.9}}
	mustConfig(t, r.Client, cfg)
	mustTeam(t, r.Client, Team{ID: "red", RPM: limiter.Of(5)})
	for i := range 3 {
		k := testKey(nth(i))
		k.Alias, k.TeamID, k.MaxParallel = nth(i), "red", limiter.Of(2)
		if _, err := r.CreateKey(t.Context(), k, WriteOptions{IdempotencyKey: nth(i)}); err != nil {
			t.Fatal(err)
		}
	}
	newGateNode(t, r, "n1").admit(t, limiter.Ticket{Model: "a", Key: id(nth(0)), Team: "red", Priority: "prod"})
	return r
}

func TestDamagedSnapshotIsRefusedAndTheOldStateStays(t *testing.T) {
	whole := takeSnapshot(t, filled(t).s)
	s := filled(t).s
	mustKey(t, NewClient(&memLog{s: s}, s), testKey("own"))
	before := s.Digest()
	check := func(t *testing.T, b []byte) {
		t.Helper()
		wantErr(t, restore(s, b), ErrDamaged)
		if s.Digest() != before {
			t.Fatal("the state changed")
		}
	}
	t.Run("cut anywhere", func(t *testing.T) {
		for n := 0; n < len(whole); n += 1 + n/50 {
			check(t, whole[:n])
		}
	})
	t.Run("any bit flipped", func(t *testing.T) {
		for n := 0; n < len(whole); n += 7 {
			b := bytes.Clone(whole)
			b[n] ^= 1 << (n % 8)
			if err := restore(s, b); err == nil {
				t.Fatalf("byte %d altered, and nobody minds", n)
			}
		}
		if s.Digest() != before {
			t.Fatal("the state changed")
		}
	})
	t.Run("bytes behind the end", func(t *testing.T) { check(t, append(bytes.Clone(whole), 0)) })
	t.Run("a record twice", func(t *testing.T) {
		b := &contentBuilder{}
		err := (&content{view: s.View()}).records(func(kind recordKind, p []byte) error {
			return errors.Join(b.add(kind, p), b.add(kind, p))
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.finish(); err == nil {
			t.Error("nobody minds")
		}
	})
	if err := restore(s, whole); err != nil {
		t.Errorf("the whole one: %v", err)
	}
}

func TestSnapshotOfANewerFormatIsRefusedByName(t *testing.T) {
	s := filled(t).s
	before := s.Digest()
	b := bytes.Replace(takeSnapshot(t, s), []byte(`"format":1`), []byte(`"format":3`), 1)
	err := restore(s, b)
	wantErr(t, err, ErrNewerFormat)
	if !strings.Contains(err.Error(), "format is 3") || s.Digest() != before {
		t.Errorf("error is %v", err)
	}
}

func TestRestoreReplacesEverything(t *testing.T) {
	source := filled(t).s
	s := openState(t, newTestTime().options())
	r := rigFor(t, s, newTestTime())
	for i := range 20 {
		mustKey(t, r.Client, testKey("own"+nth(i)))
	}
	if err := restore(s, takeSnapshot(t, source)); err != nil {
		t.Fatal(err)
	}
	wantSameDigest(t, s, source)
	if k, ok := s.View().KeyByAlias(nth(1)); !ok || k.Policy() == nil {
		t.Errorf("key is %+v", k)
	}
}

func TestSnapshotIsOfItsMomentWhateverIsAppliedMeanwhile(t *testing.T) {
	r := filled(t)
	want := takeSnapshot(t, r.s)
	snap, err := r.s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	mustKey(t, r.Client, testKey("later"))
	mustConfig(t, r.Client, testConfig())
	if _, err := r.DeleteTeams(t.Context(), []string{"red"}, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	out := &sink{}
	if err := snap.Persist(out); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Error("later writes are in the snapshot")
	}
}

func TestFailedPersistCancelsTheSink(t *testing.T) {
	snap, err := filled(t).s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	out := &sink{limit: 100}
	wantErr(t, snap.Persist(out), errSink)
	if !out.cancelled || out.closed {
		t.Errorf("cancelled %v, closed %v", out.cancelled, out.closed)
	}
}

func FuzzSnapshot(f *testing.F) {
	f.Add(takeSnapshot(f, filled(f).s))
	f.Add([]byte(snapshotMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := openState(t, newTestTime().options())
		before := s.Digest()
		if err := restore(s, b); err != nil && s.Digest() != before {
			t.Errorf("half restored: %v", err)
		}
	})
}

// FuzzRecord goes around the checksum: whatever a record holds, putting a state
// together from it gives an error or a state that can be written again.
func FuzzRecord(f *testing.F) {
	c := filled(f).s
	c.mu.Lock()
	whole := c.capture()
	c.mu.Unlock()
	err := whole.records(func(kind recordKind, payload []byte) error {
		f.Add(byte(kind), payload)
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, kind byte, payload []byte) {
		b := &contentBuilder{ledger: true}
		if b.add(recordKind(kind), payload) != nil {
			return
		}
		c, err := b.finish()
		if err != nil {
			return
		}
		s := openState(t, newTestTime().options())
		if s.install(c) != nil {
			return
		}
		again := openState(t, newTestTime().options())
		if err := restore(again, takeSnapshot(t, s)); err != nil {
			t.Fatalf("it does not come back: %v", err)
		}
		wantSameDigest(t, again, s)
	})
}
