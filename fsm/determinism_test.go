package fsm

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/limiter"
)

// workload drives a rig with a random but repeatable mix of all commands. What
// a command answers does not matter here.
type workload struct {
	r     *rig
	rand  *rand.Rand
	gates []*gateNode
	open  []limiter.Settle
}

func newWorkload(t testing.TB, seed uint64) *workload {
	t.Helper()
	w := &workload{r: newRig(t), rand: rand.New(rand.NewPCG(seed, 1))}
	mustConfig(t, w.r.Client, w.config())
	for _, n := range []string{"n1", "n2"} {
		w.gates = append(w.gates, newGateNode(t, w.r, n))
	}
	return w
}

func (w *workload) config() Config {
	cfg := testConfig(mockModel("a", w.rand.Int64N(20), -1), mockModel("b", -1, 100), mockModel("openai/*", 5, 50))
	cfg.Window = time.Duration(1+w.rand.IntN(3)) * 20 * time.Second
	cfg.Reservation.Shares = map[string]limiter.Share{"prod": {Kind: limiter.SharePercent, Value: 0.5}, "dev": {Kind: limiter.SharePercent, Value: 0.7}}
	if w.rand.IntN(2) == 0 {
		cfg.Aliases = map[string]string{"fast": "a"}
	}
	return cfg
}

func (w *workload) name() string { return fmt.Sprintf("k%d", w.rand.IntN(4)) }

func (w *workload) options() WriteOptions {
	if w.rand.IntN(3) > 0 {
		return WriteOptions{}
	}
	return WriteOptions{IdempotencyKey: fmt.Sprint(w.rand.IntN(20))}
}

func (w *workload) limit() limiter.Limit {
	if w.rand.IntN(3) == 0 {
		return limiter.Limit{}
	}
	return limiter.Of(w.rand.Int64N(6))
}

func (w *workload) step(t testing.TB) {
	t.Helper()
	ctx := t.Context()
	w.r.time.pass(time.Duration(w.rand.IntN(5000)) * time.Millisecond)
	switch w.rand.IntN(15) {
	case 0, 1:
		k := testKey(w.name())
		k.Alias, k.TeamID, k.RPM, k.MaxParallel = fmt.Sprint(w.rand.IntN(3)), fmt.Sprintf("t%d", w.rand.IntN(2)), w.limit(), w.limit()
		k.ModelTPM = map[string]limiter.Limit{"fast": w.limit(), "a": w.limit()}
		k.Metadata = map[string]any{"priority": "prod", "x": 1.5, "y": []any{"z"}}
		_, _ = w.r.CreateKey(ctx, k, w.options())
	case 2:
		p := Patch{"tpm_limit": json.RawMessage(fmt.Sprint(w.rand.IntN(50))), "tags": json.RawMessage(`["x"]`), "key_alias": json.RawMessage(`"0"`)}
		_, _ = w.r.UpdateKey(ctx, id(w.name()), p, w.options())
	case 3:
		_, _ = w.r.DeleteKeys(ctx, []string{id(w.name())}, w.options())
	case 4:
		_, _ = w.r.RegenerateKey(ctx, id(w.name()), id(w.name()), "n", nil, w.options())
	case 5:
		_, _ = w.r.CreateTeam(ctx, Team{ID: fmt.Sprintf("t%d", w.rand.IntN(2)), TPM: w.limit(), ModelRPM: map[string]limiter.Limit{"a": w.limit()}}, w.options())
	case 6:
		_, _ = w.r.UpdateTeam(ctx, "t0", Patch{"metadata": json.RawMessage(`{"priority":"dev"}`)}, w.options())
	case 7:
		if w.rand.IntN(4) == 0 {
			_, _ = w.r.DeleteTeams(ctx, []string{"t1"}, w.options())
		}
	case 8:
		_, _ = w.r.ProposeConfig(ctx, w.config(), "file")
	case 9:
		_, _ = w.r.SetShare(ctx, "prod", limiter.Share{Kind: limiter.SharePercent, Value: w.rand.Float64()}, WriteOptions{})
	case 10:
		_, _ = w.r.RollbackConfig(ctx, uint64(w.rand.IntN(5)), WriteOptions{})
	case 11:
		g := w.gates[w.rand.IntN(len(w.gates))]
		_ = w.r.SetSilent(ctx, g.batch.Node, g.batch.Epoch, w.rand.IntN(3) > 0)
	default:
		w.batch(t, w.gates[w.rand.IntN(len(w.gates))])
	}
}

func (w *workload) batch(t testing.TB, g *gateNode) {
	t.Helper()
	var tickets []limiter.Ticket
	for range 1 + w.rand.IntN(6) {
		tickets = append(tickets, randomTicket(w.rand))
	}
	settles := w.open
	w.open = nil
	for i, d := range g.send(t, settles, tickets...).Decisions {
		if !d.Admitted {
			continue
		}
		s := limiter.Settle{Ticket: tickets[i], Pool: d.Pool, Slots: d.Slots, Count: 1, Usage: limiter.Usage{Input: w.rand.Int64N(20), Output: 5}}
		for scope := range d.Standings {
			s.Starts[scope] = d.Standings[scope].Start
		}
		w.open = append(w.open, s)
	}
}

func TestEqualLogsGiveEqualStates(t *testing.T) {
	for seed := range uint64(8) {
		w := newWorkload(t, seed)
		for range 200 {
			w.step(t)
		}
		wantSameDigest(t, replay(t, w.r.log.entries), w.r.s)
	}
}

func TestSnapshotAtEveryPrefixAndReplayOfTheRestGiveTheSameState(t *testing.T) {
	w := newWorkload(t, 42)
	for range 80 {
		w.step(t)
	}
	entries := w.r.log.entries
	source := openState(t, newTestTime().options())
	for n := range entries {
		s := openState(t, newTestTime().options())
		if err := restore(s, takeSnapshot(t, source)); err != nil {
			t.Fatalf("restore at %d: %v", n, err)
		}
		wantSameDigest(t, s, source)
		feed(s, entries[n:])
		wantSameDigest(t, s, w.r.s)
		source.Apply(entries[n])
	}
}

func TestCleanStateFileAtAnyPrefixAndReplayOfTheRestGiveTheSameState(t *testing.T) {
	w := newWorkload(t, 7)
	for range 60 {
		w.step(t)
	}
	entries := w.r.log.entries
	o := newTestTime().options()
	o.Dir = t.TempDir()
	for n := 0; n <= len(entries); n += 9 {
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		feed(s, entries[:n]) // what the file holds already is skipped
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s, err = Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if s.LoadedIndex() != uint64(n) {
			t.Fatalf("loaded index is %d, want %d", s.LoadedIndex(), n)
		}
		wantSameDigest(t, s, replay(t, entries[:n]))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := openState(t, o)
	feed(s, entries)
	wantSameDigest(t, s, w.r.s)
}

func TestRetriedBatchReturnsTheFirstAnswerAfterARestoreToo(t *testing.T) {
	r := newRig(t)
	mustConfig(t, r.Client, testConfig(mockModel("a", 1, -1)))
	g := newGateNode(t, r, "n1")
	first := g.send(t, nil, limiter.Ticket{Model: "a"}, limiter.Ticket{Model: "a"})
	s := openState(t, r.time.options())
	if err := restore(s, takeSnapshot(t, r.s)); err != nil {
		t.Fatal(err)
	}
	again, err := rigFor(t, s, r.time).Applier("n1", "nonce-n1").ApplyBatch(t.Context(), &g.batch)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(again), fmt.Sprint(first); got != want || !again.Decisions[0].Admitted || again.Decisions[1].Admitted {
		t.Errorf("second answer is %s\nfirst was %s", got, want)
	}
}
