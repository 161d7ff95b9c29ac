package fsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

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
