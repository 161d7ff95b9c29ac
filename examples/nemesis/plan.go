package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Plan is everything that a seed decides. Equal seeds and durations have equal
// plans; what the plan meets on the machine differs from run to run.
type Plan struct {
	Seed      uint64
	Profile   string // which kinds of faults there are
	Mode      string // limits.on_no_quorum
	Nodes     int
	Window    time.Duration
	OneWindow bool // the whole run lies in every scope's first window
	Duration  time.Duration
	LeaseTTL  time.Duration

	Conserving bool // limits.allocation
	Reserve    bool // limits.token_accounting

	Models     []ModelPlan
	Priorities map[string]float64 // empty: no pools
	Teams      []TeamPlan
	Keys       []KeyPlan

	Workers int
	Pause   time.Duration // mean time between two requests of a worker
	Pulse   time.Duration // demand is high and low by turns of this length; 0: steady
	Weights []float64     // of the nodes; adds up to 1
	Faults  []Fault
	Reloads []Reload
}

// ModelPlan is a model group; a limit of 0 is none.
type ModelPlan struct {
	Name     string
	RPM, TPM int64
	DelayMS  int // of the provider
}

// TeamPlan is a team with a request limit.
type TeamPlan struct {
	Name string
	RPM  int64
}

// KeyPlan is a virtual key; limits of 0 are none.
type KeyPlan struct {
	Name        string
	Priority    string
	Team        string
	RPM         int64
	ModelRPM    map[string]int64
	MaxParallel int64
	Models      []string // that are asked with it
}

// plain reports whether nothing but the model limits the key.
func (k KeyPlan) plain() bool {
	return k.RPM == 0 && k.Team == "" && len(k.ModelRPM) == 0 && k.MaxParallel == 0
}

// Fault is one disturbance. Node counts from 0; -1 is whoever leads then.
type Fault struct {
	Kind string
	Node int
	At   time.Duration // from the start of the load
	For  time.Duration
	Size time.Duration // a delay, or a step of the clock
}

func (f Fault) String() string {
	who := "the leader"
	if f.Node >= 0 {
		who = fmt.Sprintf("n%d", f.Node+1)
	}
	return fmt.Sprintf("%-9s %-10s at %6.2fs for %5dms size %s", f.Kind, who, f.At.Seconds(), f.For.Milliseconds(), f.Size)
}

// Reload gives a model another request limit, by SIGHUP on one node.
type Reload struct {
	At    time.Duration
	Node  int
	Model string
	RPM   int64
}

// The profiles, and the kinds of faults in each. A wall clock that is stepped
// counts only where a node starts without a member to ask (README), so that
// profile restarts nodes one at a time and cuts none off.
var profiles = []struct {
	name   string
	weight int
	tracks [][]string // faults of one track follow each other, tracks run side by side
}{
	{"calm", 3, nil},
	{"process", 5, [][]string{{"kill", "kill", "pause", "pause", "pause", "term", "roll", "killall", "transfer"}}},
	{"network", 5, [][]string{{"isolate", "isolate", "cut", "oneway", "deaf", "split", "flap", "lag"}, {"pause", "transfer"}}},
	{"disk", 2, [][]string{{"slow"}, {"kill", "pause", "transfer"}}},
	{"all", 5, [][]string{{"kill", "pause", "term", "transfer", "killall"}, {"isolate", "cut", "oneway", "deaf", "split", "flap", "lag"}, {"slow"}}},
	{"clock", 2, [][]string{{"clock", "clock", "pause", "restart", "transfer"}}},
}

// newPlan derives the plan of a seed.
// newPlan draws what a seed stands for. mode is limits.on_no_quorum, "" to let the
// seed choose.
func newPlan(seed uint64, duration time.Duration, mode string) Plan {
	r := rand.New(rand.NewPCG(seed, 0x736c75696365))
	if mode == "" {
		mode = []string{"deny", "share"}[seed%2]
	}
	p := Plan{Seed: seed, Mode: mode, Duration: duration, Conserving: seed/2%2 == 1, Reserve: seed%5 == 0}
	total := 0
	for _, f := range profiles {
		total += f.weight
	}
	i := 0
	for n := r.IntN(total) - profiles[0].weight; n >= 0; n -= profiles[i].weight {
		i++
	}
	p.Profile = profiles[i].name
	p.Nodes = []int{3, 3, 5}[r.IntN(3)]
	p.OneWindow = r.IntN(2) == 0
	p.Window = 10 * time.Minute
	if !p.OneWindow {
		p.Window = time.Duration(2000+500*r.IntN(9)) * time.Millisecond
	}
	p.LeaseTTL = []time.Duration{500 * time.Millisecond, 500 * time.Millisecond, 0, 2 * time.Second}[r.IntN(4)]
	p.limits(r)
	p.Workers = 8 + r.IntN(9)
	p.Pause = time.Duration(20+r.IntN(60)) * time.Millisecond
	p.Weights = weights(r, p.Nodes)
	if p.Profile != "calm" && r.IntN(2) == 0 {
		p.Pulse = time.Duration(700+r.IntN(3000)) * time.Millisecond
	}
	for _, kinds := range profiles[i].tracks {
		p.Faults = append(p.Faults, p.track(r, kinds)...)
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	if p.Profile != "calm" && r.IntN(3) == 0 {
		p.reloads(r)
	}
	return p
}

// limits draws models, teams and keys. In a calm run nothing but its own limit
// holds a model back, so that its fill can be judged.
func (p *Plan) limits(r *rand.Rand) {
	pick := func(of ...int64) int64 { return of[r.IntN(len(of))] }
	big := pick(100, 200, 400)
	if p.OneWindow {
		big = pick(500, 1000, 2000)
	}
	p.Models = []ModelPlan{
		{Name: "small", RPM: pick(1, 2, 5, 10)},
		{Name: "middle", RPM: pick(20, 50, 100, 150)},
		{Name: "big", RPM: big, DelayMS: r.IntN(20)},
		{Name: "tokens", TPM: pick(300, 900, 3000)},
		{Name: "wide"},
		{Name: "slow", DelayMS: 150},
	}
	names := []string{"", "", ""}
	if p.Profile != "calm" && r.IntN(2) == 0 {
		p.Priorities = map[string]float64{"prod": 0.5, "dev": 0.2}
		names = []string{"prod", "dev", ""}
	}
	shared := []string{"small", "middle", "middle", "big", "big", "big", "tokens"}
	for i, name := range names {
		p.Keys = append(p.Keys, KeyPlan{Name: fmt.Sprintf("plain%d", i), Priority: name, Models: shared})
	}
	for i := range 3 {
		p.Keys = append(p.Keys, KeyPlan{Name: fmt.Sprintf("limited%d", i), RPM: pick(1, 2, 5, 10, 50), Models: []string{"wide"}})
	}
	for i := range 2 {
		team := TeamPlan{Name: fmt.Sprintf("team%d", i), RPM: pick(5, 10, 40, 150)}
		p.Teams = append(p.Teams, team)
		for j := range 2 {
			p.Keys = append(p.Keys, KeyPlan{Name: fmt.Sprintf("%s-%d", team.Name, j), Team: team.Name, Models: []string{"wide", "big"}})
		}
	}
	p.Keys = append(p.Keys,
		KeyPlan{Name: "permodel", ModelRPM: map[string]int64{"wide": pick(2, 5, 20), "big": pick(1, 10, 60)}, Models: []string{"wide", "big"}},
		KeyPlan{Name: "slots", MaxParallel: 3, Models: []string{"slow"}})
}

// weights makes demand even, or skewed towards one node.
func weights(r *rand.Rand, n int) []float64 {
	w := make([]float64, n)
	favourite, factor := r.IntN(n), []float64{1, 3, 8 * float64(n-1) / 2}[r.IntN(3)]
	sum := 0.0
	for i := range w {
		w[i] = 1
		if i == favourite {
			w[i] = factor
		}
		sum += w[i]
	}
	for i := range w {
		w[i] /= sum
	}
	return w
}

// track fills the time with faults of these kinds and pauses between them.
func (p *Plan) track(r *rand.Rand, kinds []string) []Fault {
	var list []Fault
	ms := func(low, high int) time.Duration { return time.Duration(low+r.IntN(high-low)) * time.Millisecond }
	for at := ms(500, 2500); at < p.Duration-time.Second; at += ms(300, 4000) {
		f := Fault{Kind: kinds[r.IntN(len(kinds))], Node: r.IntN(p.Nodes+2) - 2, At: at}
		f.Node = max(f.Node, -1) // the leader more often than others
		switch f.Kind {
		case "pause":
			f.For = ms(50, 600)
			if r.IntN(3) == 0 {
				f.For = ms(600, 6000)
			}
		case "kill", "term", "killall", "restart":
			f.For = ms(0, 2500)
		case "isolate", "cut", "oneway", "deaf", "split":
			f.For = ms(200, 5000)
		case "flap":
			f.For, f.Size = ms(1000, 4000), ms(50, 500)
		case "lag":
			f.For, f.Size = ms(500, 5000), ms(5, 250)
		case "slow":
			f.For, f.Size = ms(500, 6000), ms(5, 400)
		case "clock":
			f.Size = time.Duration(r.IntN(2*3600)-3600) * time.Second
		}
		list = append(list, f)
		at += f.For
	}
	return list
}

func (p *Plan) reloads(r *rand.Rand) {
	for i := range 1 + r.IntN(3) {
		m := p.Models[1+r.IntN(2)]
		p.Reloads = append(p.Reloads, Reload{
			At:   time.Duration((0.2 + 0.6*r.Float64()) * float64(p.Duration)),
			Node: r.IntN(p.Nodes), Model: m.Name,
			RPM: max(m.RPM*int64(50+r.IntN(150))/100, 1) + int64(i), // content that was not there before
		})
	}
	slices.SortFunc(p.Reloads, func(a, b Reload) int { return int(a.At - b.At) })
}

// limit returns the largest request limit that the model has in this run.
func (p *Plan) limit(model string) int64 {
	limit := int64(0)
	for _, m := range p.Models {
		if m.Name == model {
			limit = m.RPM
		}
	}
	for _, r := range p.Reloads {
		if r.Model == model {
			limit = max(limit, r.RPM)
		}
	}
	return limit
}
