package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	simModels = []string{"m0", "m1"}
	simKeys   = []string{"k0", "k1", "k2", "k3"}
)

// simPolicy makes up limits; names of pools stay, so that a request counts in
// the same one before and after a change.
func simPolicy(r *rand.Rand, window time.Duration, reserved bool) *tablePolicy {
	lim := func(most int) Limit {
		switch r.IntN(8) {
		case 0:
			return Limit{}
		case 1:
			return Of(int64(r.IntN(4)))
		}
		return Of(int64(r.IntN(most)))
	}
	tokens := func(most int) Limit {
		if r.IntN(2) == 0 {
			return Limit{}
		}
		return lim(most)
	}
	p := newTable()
	p.rules = Rules{Window: window, TokenType: TokenType(r.IntN(3)), IgnoreCached: r.IntN(2) == 0}
	if r.IntN(3) == 0 {
		p.rules.Sharing = Sharing{Conserving: true, HoldBack: float64(r.IntN(3)) / 8, Active: between(r, 10*time.Millisecond, window)}
	}
	p.rules.Reserve, p.rules.Alone = r.IntN(3) == 0, r.IntN(8) == 0
	for _, m := range simModels {
		res := Reservation{Default: float64(r.IntN(5)) / 4, Threshold: float64(r.IntN(5)) / 4}
		if reserved && m == "m0" {
			res.Shares = map[string]Share{"a": share(r.Float64()), "b": share(float64(r.IntN(3)) / 4)}
		}
		p.model(m, Limits{Requests: lim(300), Tokens: tokens(5000)}, res)
	}
	p.keys["k1"] = &SubjectPolicy{Limits: Limits{Requests: lim(120), Tokens: tokens(1000)}}
	p.keys["k2"] = &SubjectPolicy{Limits: Limits{Requests: lim(200)}, PerModel: map[string]Limits{"m0": {Requests: lim(60)}, "m1": {Tokens: tokens(500)}}}
	p.keys["k3"] = &SubjectPolicy{Limits: Limits{Requests: lim(200), Parallel: Of(int64(1 + r.IntN(3)))}}
	p.teams["t0"] = &SubjectPolicy{Limits: Limits{Requests: lim(300), Tokens: tokens(5000)}}
	return p
}

// sim is one seeded run: nodes, their clients, and what befalls them.
type sim struct {
	*simLog
	r       *rand.Rand
	until   time.Time
	nodes   []atomic.Pointer[simRun]
	lease   atomic.Int64
	clients sync.WaitGroup
}

func simTicket(r *rand.Rand) Ticket {
	t := Ticket{Model: simModels[r.IntN(5)/4], Key: simKeys[r.IntN(len(simKeys))], Priority: []string{"a", "b", "c", ""}[r.IntN(4)]}
	if r.IntN(3) == 0 {
		t.Team = "t0"
	}
	t.Estimate = Usage{Input: 50, Output: 10} // never less than what is used
	return t
}

// simulate plays one seed and holds the books against the limits.
func simulate(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	s := &sim{r: r, nodes: make([]atomic.Pointer[simRun], 1+r.IntN(4)), simLog: &simLog{
		t: t, start: time.Now(), refs: simScopes(), leader: &simReplica{ledger: NewLedger()}, steady: r.IntN(2) == 0,
		share:    seed%2 == 1,
		reported: map[simWindow]int64{}, alone: map[simAlone][]time.Time{}, marks: map[string]bool{},
		admitted: map[simWindow]int64{}, most: map[simWindow]int64{}, full: map[ScopeRef]time.Time{},
	}}
	if r.IntN(2) == 0 {
		s.failures = r.Float64() / 4
	}
	s.stalls = r.IntN(4) == 0
	window, reserved := between(r, 200*time.Millisecond, time.Second), r.IntN(4) > 0
	s.leader.policy.Store(simPolicy(r, window, reserved))
	s.lease.Store(int64(between(r, 20*time.Millisecond, time.Second)))
	s.until = s.start.Add(between(r, window, 2*window))
	for i := range s.nodes {
		s.begin(i)
		seed := r.Uint64()
		s.clients.Go(func() { s.client(i, rand.New(rand.NewPCG(seed, 4))) })
	}
	s.clients.Go(func() { s.fate(window, reserved) })
	s.clients.Wait()
	s.end()
}

func (s *sim) begin(node int) {
	lease := func() time.Duration { return time.Duration(s.lease.Load()) }
	s.nodes[node].Store(s.simLog.begin(fmt.Sprint("n", node), lease, len(s.nodes), s.r))
}

// fate changes the configuration, silences the log, kills nodes.
func (s *sim) fate(window time.Duration, reserved bool) {
	kinds := []int{0, 1, 1, 2, 3, 4}
	if s.steady {
		kinds = []int{1, 1, 2}
	}
	if s.stalls {
		kinds = append(kinds, 5, 5)
	}
	for {
		time.Sleep(between(s.r, window/10, window))
		if !time.Now().Before(s.until) {
			return
		}
		switch kinds[s.r.IntN(len(kinds))] {
		case 0:
			if s.r.IntN(3) == 0 {
				window = between(s.r, 200*time.Millisecond, time.Second)
			}
			s.replacePolicy(simPolicy(s.r, window, reserved))
		case 1:
			i := s.r.IntN(len(s.nodes))
			s.nodes[i].Load().die()
			time.Sleep(between(s.r, 0, window/4))
			s.begin(i)
		case 2:
			s.silentUntil.Store(int64(s.now().Add(between(s.r, 0, window))))
		case 3:
			s.lease.Store(int64(s.r.IntN(2)) * int64(between(s.r, 10*time.Millisecond, time.Second)))
		case 5:
			s.nodes[s.r.IntN(len(s.nodes))].Load().replica.stall.Store(int64(s.now().Add(between(s.r, 0, window))))
		case 4:
			run := s.nodes[s.r.IntN(len(s.nodes))].Load()
			s.mu.Lock()
			run.replica.todo <- simEntry{s.now(), func(now Time, r *simReplica) { r.restore(r.ledger, now) }}
			s.mu.Unlock()
		}
	}
}

// client asks one node, now alone and now in a burst.
func (s *sim) client(node int, r *rand.Rand) {
	pace := 1 + r.Float64()*20
	var flying sync.WaitGroup
	defer flying.Wait()
	for time.Now().Before(s.until) {
		time.Sleep(time.Duration(r.ExpFloat64() * pace * float64(time.Millisecond)))
		n := 1
		if r.IntN(40) == 0 {
			n = r.IntN(60)
		}
		for range n {
			seed := r.Uint64()
			flying.Go(func() { s.request(s.nodes[node].Load(), rand.New(rand.NewPCG(seed, 5))) })
		}
	}
}

func (s *sim) request(run *simRun, r *rand.Rand) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if r.IntN(6) == 0 {
		ctx, cancel = context.WithTimeout(ctx, between(r, 0, 30*time.Millisecond))
	}
	defer cancel()
	began := time.Now()
	rc, err := run.replica.gate.Load().Admit(ctx, simTicket(r))
	var ref *Refusal
	switch {
	case err == nil:
		switch {
		case rc.alone != nil:
			run.bookAlone(rc)
		case rc.decision == nil:
			run.bookWarm(rc)
		default:
			run.bookDecided(rc)
		}
		s.checkHeaders(rc)
		time.Sleep(between(r, 0, 50*time.Millisecond))
		rc.Settle(Usage{Input: r.Int64N(50), Output: r.Int64N(10), Cached: r.Int64N(60)})
	case errors.As(err, &ref):
		s.checkRefusal(ref, began)
	case !errors.Is(err, ErrNoQuorum) && !errors.Is(err, ErrClosed) && ctx.Err() == nil:
		s.t.Error(err)
	}
}

func (s *sim) checkHeaders(rc *Receipt) {
	for scope, st := range rc.Decision().Standings {
		if st.Used.Requests < 0 || st.Used.Tokens < 0 {
			s.t.Errorf("%v reports %+v", Scope(scope), st.Used)
		}
	}
}

// checkRefusal holds that the scope was used up when the request came, or not
// long before: nobody is refused for what has passed.
func (s *sim) checkRefusal(f *Refusal, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Oversize {
		return
	}
	if f.RetryAfter <= 0 || f.Remaining < 0 {
		s.t.Errorf("%v: retry after %v, remaining %d", f, f.RetryAfter, f.Remaining)
	}
	start, window := f.Standings[f.Scope].Start, s.leader.policy.Load().rules.Window
	if over := start.Add(window + 100*time.Millisecond); s.steady && start != NoWindow && over < Time(began.Sub(s.start)) {
		s.t.Errorf("at %v %v is refused by the window of %v", s.now(), f, start)
	}
	if f.Dimension != Requests || s.stalls || s.share {
		return
	}
	pool := ""
	if p := s.leader.policy.Load().models[f.Ticket.Model].Pool(f.Ticket.Priority); p != nil {
		pool = p.Name
	}
	ref := refOf(f.Scope, &f.Ticket, pool)
	s.note()
	if last := s.full[ref]; last.Before(began.Add(-100*time.Millisecond - s.slow)) {
		s.t.Errorf("at %v %v is refused (%v), which was last used up at %v", s.now(), ref, f, last.Sub(s.start))
	}
}

// end closes everything and judges.
func (s *sim) end() {
	s.silentUntil.Store(0)
	for i := range s.nodes {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := s.nodes[i].Load().replica.gate.Load().Close(ctx); err != nil {
			s.t.Error(err)
		}
		cancel()
	}
	closed := s.now()
	s.mu.Lock()
	for i := range s.nodes {
		close(s.nodes[i].Load().replica.todo)
	}
	s.mu.Unlock()
	s.replicas.Wait()
	for w, n := range s.admitted {
		if most, ok := s.most[w]; !ok || n > most {
			s.t.Errorf("%+v served %d, limit %d", w, n, most)
		}
	}
	stranded := map[simWindow]int64{}
	for _, run := range s.runs {
		for w, n := range run.out {
			stranded[w] += n
			if n < 0 {
				s.t.Errorf("%s %s used %d permits of %+v that it did not have", run.node, run.nonce, -n, w)
			}
			alive := closed < w.start.Add(s.leader.policy.Load().rules.Window)
			if n > 0 && alive && s.steady && !run.dead.Load() {
				s.t.Errorf("%s kept %d permits of %+v", run.node, n, w)
			}
		}
		run.checkClosed()
	}
	s.checkLedger(stranded, closed)
	if s.steady {
		s.checkAlone(len(s.nodes))
	}
}

// checkLedger holds that it counts what was admitted and what dead nodes took along.
func (s *sim) checkLedger(stranded map[simWindow]int64, now Time) {
	p := s.leader.policy.Load()
	for _, ref := range s.refs {
		c := s.leader.ledger.counter(ref)
		if c == nil {
			continue
		}
		w := simWindow{ref, s.leader.ledger.startOf(ref, c)}
		if want := s.admitted[w] + stranded[w] + s.reported[w]; s.steady && w.start != NoWindow && now < w.start.Add(p.rules.Window) && c.requests != want {
			s.t.Errorf("%+v counts %d, admitted %d, stranded %d", w, c.requests, s.admitted[w], stranded[w])
		}
	}
	for _, ss := range []*subjects{&s.leader.ledger.keys, &s.leader.ledger.teams} {
		for id, sub := range ss.byID {
			if sub.holds() || sub.parallel != 0 {
				s.t.Errorf("slots of %s are left: %+v", id, sub.slots)
			}
		}
	}
}

// checkClosed holds that a closed Gate has nothing and owes nothing.
func (run *simRun) checkClosed() {
	g := run.replica.gate.Load()
	if n := len(g.waiting) + len(g.inflight) + len(g.parked); n != 0 {
		run.t.Errorf("%s: %d waiters are left", run.node, n)
	}
	if run.dead.Load() {
		return
	}
	if g.alone.owes() {
		run.t.Errorf("%s: owes reports", run.node)
	}
	for ref, c := range g.alone.counts {
		if c.slots != 0 {
			run.t.Errorf("%s: %d slots of %v are left", run.node, c.slots, ref)
		}
	}
	if g.bank.owes() || len(g.lent) != 0 || len(g.settling.list) != 0 {
		run.t.Errorf("%s: owes %v, lent %d, unsettled %d", run.node, g.bank.owes(), len(g.lent), len(g.settling.list))
	}
	g.bank.accounts.Range(func(_, v any) bool {
		a := v.(*account)
		if a.lease.Load() != nil || a.pending.Load() != 0 {
			run.t.Errorf("%s: %v has %d pending, lease %v", run.node, a.ref, a.pending.Load(), a.lease.Load())
		}
		return true
	})
}

// TestSimulation plays random nodes, failures and changes; a failing seed is in
// the test's name.
func TestSimulation(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, seed) })
		})
	}
}
