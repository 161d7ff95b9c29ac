package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// honest returns the facts of a small run that kept every promise: a limit of
// three in one window, a register with two writes, three equal nodes.
func honest() *Facts {
	const ms = time.Millisecond
	f := &Facts{
		Plan: Plan{Seed: 1, Profile: "process", Mode: "deny", Nodes: 3, Window: 10 * time.Minute, OneWindow: true,
			Duration: time.Second, Models: []ModelPlan{{Name: "m", RPM: 3}}},
		Keys: map[string]KeyPlan{"k": {Name: "k"}, "two": {Name: "two", RPM: 2}},
		Sent: map[string]Sent{},
		History: []Op{
			{Register: "r", Client: 1, Kind: "create", Value: 1, Outcome: "ok", Call: 0, End: 10 * ms},
			{Register: "r", Client: 2, Kind: "update", Value: 2, Outcome: "ok", Call: 20 * ms, End: 30 * ms},
			{Register: "r", Client: 1, Kind: "read", Value: 2, Outcome: "ok", Call: 40 * ms, End: 50 * ms},
		},
		Present:   map[string]map[string]string{"n1": {"k": ""}, "n2": {"k": ""}},
		Registers: map[string]map[string]string{"r": {"n1": "2", "n2": "2"}},
		Digests:   []Digest{{"n1", 7, "a"}, {"n2", 7, "a"}, {"n3", 7, "a"}},
		Slots:     SlotFacts{Limit: 2, Statuses: []int{200, 200}, Extra: 429, Inflight: map[string]float64{"n1": 0}},
	}
	for range 3 {
		f.serve("k", "m")
	}
	f.serve("two", "other")
	f.serve("two", "other")
	return f
}

// serve adds a request that was sent, executed and answered.
func (f *Facts) serve(key, model string) {
	id, now := fmt.Sprint("q", len(f.Sent)), time.Duration(len(f.Sent))*10*time.Millisecond
	f.Sent[id] = Sent{ID: id, Key: key, Model: model, At: now, Done: now + time.Millisecond, Status: 200}
	f.Executed = append(f.Executed, Executed{ID: id, At: now})
}

// by adds n requests for the model that a node has admitted in a mode.
func (f *Facts) by(node, mode string, n int) {
	for range n {
		f.serve("k", "m")
		id := f.Executed[len(f.Executed)-1].ID
		s := f.Sent[id]
		s.Node, s.Mode = node, mode
		f.Sent[id] = s
	}
}

func TestTheCheckerFindsWhatIsForged(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name      string
		forge     func(*Facts)
		invariant string // "" for none
	}{
		{"nothing is forged", func(*Facts) {}, ""},
		{"a model serves one too many", func(f *Facts) { f.serve("k", "m") }, "admitted ≤ limit"},
		{"a key serves one too many", func(f *Facts) { f.serve("two", "other") }, "admitted ≤ limit"},
		{"a window serves more than two can", func(f *Facts) {
			f.Plan.OneWindow, f.Plan.Window = false, time.Second
			for range 4 {
				f.serve("k", "m")
			}
		}, "admitted ≤ limit"},
		{"a node alone admits more than its part", func(f *Facts) {
			f.Plan.Mode = "share"
			f.by("n1", "share", 2)
		}, "a node alone admits its part"},
		{"a node alone admits its part twice, a window apart", func(f *Facts) {
			f.Plan.Mode, f.Plan.OneWindow, f.Plan.Window = "share", false, time.Millisecond
			f.by("n1", "share", 2)
		}, ""},
		{"the ledger leans on what a node may add by itself", func(f *Facts) {
			f.Plan.Mode, f.Plan.Profile = "share", "network"
			f.Plan.Faults = []Fault{{Kind: "isolate"}}
			f.by("n2", "exact", 4)
		}, "admitted by the ledger ≤ limit"},
		{"a permit outlives its window", func(f *Facts) {
			f.Plan.OneWindow, f.Plan.Window = false, time.Second
			f.Keys["edge0"] = KeyPlan{Name: "edge0", RPM: 2}
			for i, at := range []time.Duration{100 * ms, 1300 * ms, 1400 * ms, 1500 * ms} {
				id := fmt.Sprint("edge", i)
				f.Sent[id] = Sent{ID: id, Key: "edge0", Model: "other", At: at, Status: 200}
				f.Executed = append(f.Executed, Executed{ID: id, At: at + 5*ms})
			}
		}, "admitted ≤ limit"},
		{"a window that was seen serves one too many", func(f *Facts) {
			f.Plan.OneWindow, f.Plan.Window = false, time.Second
			f.serve("k", "m")
			f.Windows = []WindowSeen{{Node: "n1", Model: "m", Start: 20 * ms}, {Node: "n2", Model: "m", Start: -time.Millisecond}}
		}, "admitted ≤ limit"},
		{"a window was seen to end before", func(f *Facts) {
			f.Plan.OneWindow, f.Plan.Window = false, time.Second
			f.serve("k", "m")
			f.Windows = []WindowSeen{{Node: "n1", Model: "m", Start: -980 * ms}, {Node: "n2", Model: "m", Start: 21 * ms}}
		}, ""},
		{"a node shows more than the limit", func(f *Facts) { f.Windows = []WindowSeen{{Node: "n1", Model: "m", Used: 4}} }, "used ≤ limit"},
		{"what is executed is not counted", func(f *Facts) { f.Windows = []WindowSeen{{Node: "n1", Model: "m", Used: 2}} }, "all that is executed is counted"},
		{"a priority takes more than its part", func(f *Facts) {
			f.Plan.Priorities = map[string]float64{"prod": 0.5}
		}, "admitted ≤ limit"},
		{"a request is executed twice", func(f *Facts) {
			f.Plan.Models[0].RPM = 9
			f.Executed = append(f.Executed, f.Executed[0])
		}, "executed at most once"},
		{"an answer comes from nowhere", func(f *Facts) { f.Executed = f.Executed[1:] }, "an answer is the provider's"},
		{"a refused request is executed", func(f *Facts) {
			s := f.Sent["q0"]
			s.Status, s.LimitedBy = 503, "quorum"
			f.Sent["q0"] = s
		}, "a refusal executes nothing"},
		{"a new key is unknown somewhere", func(f *Facts) { f.Sent["x"] = Sent{ID: "x", Key: "k", Status: 401} }, "an acknowledged key is known everywhere"},
		{"a write is lost", func(f *Facts) { f.Present["n2"]["k"] = "status 404" }, "acknowledged writes are on every node"},
		{"nodes show different values", func(f *Facts) { f.Registers["r"]["n2"] = "1" }, "acknowledged writes are on every node"},
		{"a read is stale", func(f *Facts) { f.History[2].Value = 1 }, "metadata is linearizable"},
		{"an acknowledged update is gone", func(f *Facts) { f.History[2].Value = 0 }, "metadata is linearizable"},
		{"a key is created twice", func(f *Facts) { f.History[1].Kind = "create" }, "metadata is linearizable"},
		{"a failed write shows", func(f *Facts) { f.History[1].Outcome = "failed" }, "metadata is linearizable"},
		{"an unknown write may show", func(f *Facts) { f.History[1].Outcome = "unknown" }, ""},
		{"an unknown write may not show", func(f *Facts) { f.History[1].Outcome, f.History[2].Value = "unknown", 1 }, ""},
		{"an unknown write shows and goes away", func(f *Facts) {
			f.History[1].Outcome = "unknown"
			f.History = append(f.History, Op{Register: "r", Client: 1, Kind: "read", Value: 1, Outcome: "ok", Call: 60 * ms, End: 70 * ms})
		}, "metadata is linearizable"},
		{"a node has another state", func(f *Facts) { f.Digests[2].SHA256 = "b" }, "all nodes have the same state"},
		{"a node stays behind", func(f *Facts) { f.Digests[2].Index = 6 }, "all nodes have the same state"},
		{"a slot is lost", func(f *Facts) { f.Slots.Statuses[1] = 429 }, "no slot is lost"},
		{"a slot is given twice", func(f *Facts) { f.Slots.Extra = 200 }, "no slot is given twice"},
		{"a receipt is left", func(f *Facts) { f.Slots.Inflight["n1"] = 1 }, "no receipt is left"},
		{"a limit is not served", func(f *Facts) {
			f.Plan.Profile, f.Plan.Models[0].RPM = "calm", 4
			for i := range 20 {
				id := fmt.Sprint("refused", i)
				f.Sent[id] = Sent{ID: id, Key: "k", Model: "m", Status: 429}
			}
		}, "demand beyond a limit fills it"},
		{"a node does not come back", func(f *Facts) { f.Troubles = []string{"n1 ended by itself"} }, "the cluster comes back"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := honest()
			c.forge(f)
			found := check(f)
			if c.invariant == "" {
				if len(found) > 0 {
					t.Errorf("accused: %v", found)
				}
				return
			}
			for _, v := range found {
				if v.Invariant == c.invariant {
					return
				}
			}
			t.Errorf("%q is not among %v", c.invariant, found)
		})
	}
}

func TestAShareIsBoundByTheNodesThatAreAlone(t *testing.T) {
	for _, c := range []struct {
		mode               string
		limit, cut, n, may int64
	}{
		{"deny", 10, 1, 3, 10},
		{"share", 10, 0, 3, 10},
		{"share", 9, 1, 3, 12},
		{"share", 10, 2, 5, 14},
		{"share", 10, 3, 3, 19},
		{"share", 1, 1, 3, 1},
	} {
		if got := bound(c.mode, c.limit, int(c.cut), int(c.n)); got != c.may {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestASeedIsAPlan(t *testing.T) {
	show := func(seed uint64) string { return fmt.Sprintf("%+v", newPlan(seed, 30*time.Second, "")) }
	kinds := map[string]bool{}
	for seed := range uint64(300) {
		if first, second := show(seed), show(seed); first != second {
			t.Fatalf("seed %d has two plans", seed)
		}
		p := newPlan(seed, 30*time.Second, "")
		kinds[p.Profile] = true
		inTracks := 0
		for _, track := range p.tracks() {
			inTracks += len(track)
		}
		if inTracks != len(p.Faults) {
			t.Errorf("seed %d: %d of %d faults are carried out", seed, inTracks, len(p.Faults))
		}
		for _, f := range p.Faults {
			kinds[f.Kind] = true
			if p.Profile == "clock" && strings.Contains("killall isolate cut split slow", f.Kind) {
				t.Errorf("seed %d sets clocks and has %s: a node may then start without a member to ask", seed, f)
			}
		}
		text := p.toml("http://x", len(p.Reloads))
		if !strings.Contains(text, "[[models]]") {
			t.Errorf("seed %d: %s", seed, text)
		}
	}
	if show(1) == show(2) {
		t.Error("two seeds have one plan")
	}
	for _, kind := range strings.Fields("calm process network disk all clock kill restart term roll killall pause transfer isolate cut oneway deaf split flap lag slow clock") {
		if !kinds[kind] {
			t.Errorf("no seed has %s", kind)
		}
	}
}
