package fsm

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"sluice/limiter"
)

// manyKeys returns a state with n keys, restored from a snapshot as a node that
// joins would get it.
func manyKeys(t testing.TB, o Options, n int) *State {
	t.Helper()
	b := &contentBuilder{ledger: true}
	for i := range n {
		k := testKey(nth(i))
		k.Alias, k.TeamID, k.RPM, k.TPM = "alias-"+nth(i), fmt.Sprint("team-", i%100), limiter.Of(60), limiter.Of(10_000)
		k.Metadata = map[string]any{"priority": "prod", "owner": "somebody"}
		b.keys = append(b.keys, &k)
	}
	c, err := b.finish()
	if err != nil {
		t.Fatal(err)
	}
	var snap bytes.Buffer
	if err := writeSnapshot(&snap, c); err != nil {
		t.Fatal(err)
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := restore(s, snap.Bytes()); err != nil {
		t.Fatal(err)
	}
	return s
}

const many = 100_000

func BenchmarkLookupIn100kKeys(b *testing.B) {
	s := manyKeys(b, Options{}, many)
	ids := make([]string, 1024)
	for i := range ids {
		ids[i] = id(nth(i * (many / len(ids))))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, ok := s.View().Key(ids[i%len(ids)]); !ok {
			b.Fatal("key is missing")
		}
	}
}

func BenchmarkCreateKeyAmong100k(b *testing.B) {
	s := manyKeys(b, Options{}, many)
	c := NewClient(&memLog{s: s}, s)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		k := testKey(fmt.Sprint("new", i))
		k.Alias = k.Name
		mustKey(b, c, k)
	}
}

func BenchmarkOpenCleanFileOf100kKeys(b *testing.B) {
	dir := b.TempDir()
	if err := manyKeys(b, Options{Dir: dir}, many).Close(); err != nil {
		b.Fatal(err)
	}
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		s, err := Open(Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if s.View().KeyCount() != many {
			b.Fatal("keys are missing")
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB-heap")
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkRestoreSnapshotOf100kKeys(b *testing.B) {
	s := manyKeys(b, Options{}, many)
	snap := takeSnapshot(b, s)
	b.SetBytes(int64(len(snap)))
	for b.Loop() {
		if err := restore(s, snap); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkApplyBatch applies batches of 64 tickets with four scopes each, with
// all of the encoding that the log adds to the Ledger's own work.
func BenchmarkApplyBatch(b *testing.B) {
	r := newRig(b)
	cfg := testConfig(mockModel("a", 1<<40, 1<<40))
	cfg.Reservation.Shares = map[string]limiter.Share{"prod": {Kind: limiter.SharePercent, Value: 0.9}}
	mustConfig(b, r.Client, cfg)
	mustTeam(b, r.Client, Team{ID: "red", RPM: limiter.Of(1 << 40)})
	tickets := make([]limiter.Ticket, 64)
	for i := range tickets {
		k := testKey(nth(i % 8))
		if i < 8 {
			k.RPM, k.TeamID = limiter.Of(1<<40), "red"
			mustKey(b, r.Client, k)
		}
		tickets[i] = limiter.Ticket{Model: "a", Key: k.ID, Team: "red", Priority: "prod"}
	}
	g := newGateNode(b, r, "n1")
	r.log.entries = nil
	b.ReportAllocs()
	for b.Loop() {
		g.send(b, nil, tickets...)
		r.log.entries = r.log.entries[:0]
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(tickets)), "ns/ticket")
}
