package fsm

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"time"

	"sluice/limiter"
)

func randomTicket(r *rand.Rand) limiter.Ticket {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	return limiter.Ticket{
		Model: pick("a", "b", "openai/x"), Key: pick("", id("k0"), id("k1"), id("k2")),
		Team: pick("", "t0", "t1"), Priority: pick("", "prod", "dev", "nobody"),
	}
}

func randomStart(r *rand.Rand) limiter.Time {
	if r.IntN(2) == 0 {
		return limiter.NoWindow
	}
	return limiter.Time(r.Int64N(1 << 40))
}

func randomBatch(r *rand.Rand) *limiter.Batch {
	b := &limiter.Batch{Node: "n1", Epoch: r.Uint64(), Seq: r.Uint64()}
	for range r.IntN(5) {
		s := limiter.Settle{Ticket: randomTicket(r), Pool: "prod", Slots: limiter.SlotSet(r.IntN(64)), Count: 1 + r.Int64N(9),
			Usage: limiter.Usage{Input: r.Int64N(1000), Output: r.Int64N(1 << 40), Cached: r.Int64N(10)}}
		for i := range s.Starts {
			s.Starts[i] = randomStart(r)
		}
		b.Settles = append(b.Settles, s)
	}
	for range r.IntN(5) {
		b.Reserves = append(b.Reserves, randomTicket(r))
	}
	if r.IntN(2) == 0 {
		for i := range b.Reserves {
			b.Reserves[i].Estimate = limiter.Usage{Input: r.Int64N(1 << 40), Output: r.Int64N(1000)}
		}
		for i := range b.Settles {
			b.Settles[i].Reserved = r.Int64N(1 << 40)
		}
	}
	ref := func() limiter.ScopeRef {
		return limiter.ScopeRef{Scope: limiter.Scope(r.IntN(limiter.NumScopes)), ID: "k", Model: "a"}
	}
	if r.IntN(2) == 0 && len(b.Reserves) > 0 {
		b.Held = make([]limiter.Held, len(b.Reserves))
		for i := range b.Held {
			for s := range b.Held[i] {
				b.Held[i][s] = randomStart(r)
			}
		}
	}
	for range r.IntN(3) {
		b.Returns = append(b.Returns, limiter.Return{Ref: ref(), Start: limiter.Time(r.Int64N(1 << 40)), N: r.Int64N(99)})
		b.Grants = append(b.Grants, limiter.Ask{Ref: ref(), Want: r.Int64N(99), Parts: 1 + r.Int64N(5), For: time.Duration(r.Int64N(1 << 30))})
	}
	for range max(r.IntN(6)-3, 0) {
		b.Reports = append(b.Reports, limiter.Report{Ref: ref(), Requests: r.Int64N(99), Tokens: r.Int64N(1 << 40), Slots: r.Int64N(9), Age: time.Duration(r.Int64N(1 << 40))})
	}
	return b
}

func randomAnswer(r *rand.Rand) *limiter.Answer {
	limit := func() limiter.Limit {
		if r.IntN(2) == 0 {
			return limiter.Limit{}
		}
		return limiter.Of(r.Int64N(100))
	}
	a := &limiter.Answer{}
	for range r.IntN(5) {
		d := limiter.Decision{Admitted: r.IntN(2) == 0, Slots: limiter.SlotSet(r.IntN(64))}
		if r.IntN(2) == 0 {
			d.Saturation, d.Pool = r.Float64(), "prod"
		}
		for i := range d.Standings {
			d.Standings[i].Start = limiter.NoWindow
			if r.IntN(2) == 0 {
				d.Standings[i] = limiter.Standing{Start: randomStart(r),
					Limits: limiter.Limits{Requests: limit(), Tokens: limit(), Parallel: limit()},
					Used:   limiter.Used{Requests: r.Int64N(9), Tokens: r.Int64N(9), Parallel: r.Int64N(9)}}
			}
		}
		if !d.Admitted {
			d.Scope, d.Dimension = limiter.Scope(r.IntN(limiter.NumScopes)), limiter.Dimension(r.IntN(3))
			d.RetryIn, d.ResetIn = time.Duration(r.Int64()), time.Duration(r.Int64())
			d.Final, d.Oversize = r.IntN(2) == 0, r.IntN(2) == 0
		}
		if r.IntN(2) == 0 {
			d.Need = r.Int64N(1 << 40)
		}
		d.Strict = r.IntN(2) == 0
		a.Decisions = append(a.Decisions, d)
	}
	for range r.IntN(3) {
		a.Grants = append(a.Grants, limiter.Grant{N: r.Int64N(99), Start: limiter.Time(r.Int64N(1 << 40)), EndIn: time.Duration(r.Int64N(1 << 40)),
			Room: r.Int64N(3), Strict: r.IntN(2) == 0, Limits: limiter.Limits{Requests: limit()}, Used: limiter.Used{Requests: r.Int64N(9), Tokens: r.Int64N(9)}})
	}
	return a
}

func TestBatchesAndAnswersComeBackAsTheyWent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		b := randomBatch(r)
		got, err := readBatch(appendBatch(nil, b))
		if err != nil || !reflect.DeepEqual(got, b) {
			t.Fatalf("%v\n got %+v\nwant %+v", err, got, b)
		}
		a := randomAnswer(r)
		back, err := readAnswer(appendAnswer(nil, a))
		if err != nil || !reflect.DeepEqual(back, a) {
			t.Fatalf("%v\n got %+v\nwant %+v", err, back, a)
		}
	}
}

func TestAmountsAreCutWhereTheyCannotBeTrue(t *testing.T) {
	b := &limiter.Batch{Settles: []limiter.Settle{{Count: -1, Usage: limiter.Usage{Input: -5, Output: 1 << 62}}}}
	got, err := readBatch(appendBatch(nil, b))
	if err != nil {
		t.Fatal(err)
	}
	if s := got.Settles[0]; s.Count != 0 || s.Usage.Input != 0 || s.Usage.Output != maxAmount {
		t.Errorf("got %+v", s)
	}
}

func TestCutOrLengthenedBytesAreRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	b := randomBatch(r)
	for len(b.Settles) == 0 || len(b.Reserves) == 0 {
		b = randomBatch(r)
	}
	whole := appendBatch(nil, b)
	for n := range whole {
		if _, err := readBatch(whole[:n]); err == nil {
			t.Fatalf("a batch cut after %d of %d bytes was read", n, len(whole))
		}
	}
	if _, err := readBatch(append(whole, 0)); err == nil {
		t.Error("a batch with a byte behind it was read")
	}
}

func TestHostileLengthsAllocateNothing(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, b := range [][]byte{huge, append([]byte{1}, huge...), append([]byte{1, 1, 'n', 0, 0, 0}, huge...)} {
		if _, err := readBatch(b); err == nil {
			t.Error("read as a batch")
		}
		if _, err := readAnswer(b); err == nil {
			t.Error("read as an answer")
		}
	}
	snap := append([]byte(snapshotMagic), 0xff, 0xff, 0xff, 0xff, 'H')
	if _, err := readSnapshot(bytes.NewReader(snap)); err == nil {
		t.Error("read as a snapshot")
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

func FuzzEntry(f *testing.F) {
	f.Add(appendEntry(5, 6, command{kind: cmdBatch, key: "k", payload: []byte("p")}.encode()))
	f.Add(appendEntry(5, 6, command{kind: 99, ignorable: true}.encode()))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEntry(b)
		if err != nil {
			return
		}
		if again := appendEntry(e.stamp, e.wall, e.cmd.encode()); !bytes.Equal(again, b) {
			t.Errorf("%x came back as %x", b, again)
		}
	})
}

func FuzzBatch(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 5 {
		f.Add(appendBatch(nil, randomBatch(r)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		batch, err := readBatch(b)
		if err != nil {
			return
		}
		again, err := readBatch(appendBatch(nil, batch))
		if err != nil || !reflect.DeepEqual(again, batch) {
			t.Errorf("%v: %+v came back as %+v", err, batch, again)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 5 {
		f.Add(appendAnswer(nil, randomAnswer(r)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := readAnswer(b)
		if err != nil {
			return
		}
		if _, err := readAnswer(appendAnswer(nil, a)); err != nil {
			t.Errorf("%+v does not come back: %v", a, err)
		}
		if _, err := decodeAnswer(b); err != nil {
			return
		}
	})
}

// FuzzApply gives a state machine arbitrary entries: it may refuse or stop, but
// never panic, and a second one must come to the same state.
func FuzzApply(f *testing.F) {
	for kind := cmdRegister; kind <= cmdSetSilent; kind++ {
		f.Add(byte(kind), []byte(`{}`))
	}
	f.Add(byte(cmdCreateKey), []byte(`{"key":{"token":"`+id("a")+`","key_alias":" x","rpm_limit":1,"metadata":{"priority":"p"}}}`))
	f.Add(byte(cmdUpdateKey), []byte(`{"id":"`+id("seed")+`","patch":{"rpm_limit":null,"tags":[1]}}`))
	f.Add(byte(cmdApplyConfig), []byte(mustJSON(f, configCommand{Config: testConfig(mockModel("a", 1, 1))})))
	f.Add(byte(cmdBatch), appendBatch(nil, randomBatch(rand.New(rand.NewPCG(9, 9)))))
	seed := appendEntry(1, 1, command{kind: cmdCreateKey, payload: []byte(`{"key":{"token":"` + id("seed") + `","key_name":"","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}}`)}.encode())
	f.Fuzz(func(t *testing.T, kind byte, payload []byte) {
		entry := appendEntry(2, 2, command{kind: commandType(kind), payload: payload}.encode())
		states := []*State{openState(t, newTestTime().options()), openState(t, newTestTime().options())}
		for _, s := range states {
			for i, data := range [][]byte{seed, entry} {
				l := memLog{s: s}
				l.apply(uint64(i+1), data)
			}
		}
		wantSameDigest(t, states[0], states[1])
	})
}
