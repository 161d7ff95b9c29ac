package limiter

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The parts of the simulation (sim_test.go): a log that fails, one replica of
// the Ledger per process run that follows it late, and the books of what was
// lent and admitted, by which the run is judged.

// simWindow is one window of one scope.
type simWindow struct {
	ref   ScopeRef
	start Time
}

// simAlone is one scope on one node.
type simAlone struct {
	node string
	ref  ScopeRef
}

// simEntry is one entry of the log: a function, so that replicas run what the
// leader ran.
type simEntry struct {
	at    Time
	apply func(now Time, r *simReplica)
}

// simReplica is the state of one node.
type simReplica struct {
	ledger *Ledger
	policy atomic.Pointer[tablePolicy]
	gate   atomic.Pointer[Gate]
	todo   chan simEntry
	mu     sync.Mutex // of ledger, between the entries and Look
	late   *rand.Rand
	stall  atomic.Int64 // Time until which nothing is applied
}

// simLog is the log with its leader's state and the books.
type simLog struct {
	t     testing.TB
	start time.Time

	refs        []ScopeRef
	silentUntil atomic.Int64 // Time
	failures    float64      // part of the batches that fail
	steady      bool         // neither the policy nor a replica is ever replaced
	stalls      bool         // replicas may fall far behind
	share       bool         // nodes go on without the log

	mu       sync.Mutex
	leader   *simReplica
	runs     []*simRun
	replicas sync.WaitGroup
	admitted map[simWindow]int64
	reported map[simWindow]int64      // admitted without the log, and counted later
	alone    map[simAlone][]time.Time // when a node admitted without the log
	marks    map[string]bool          // by node
	most     map[simWindow]int64      // highest limit that held in the window
	full     map[ScopeRef]time.Time   // when the scope was last seen used up
	versions uint64
	slow     time.Duration // the latest that an answer came after its batch was applied
}

// simRun is one process run of a node: a Gate with its replica.
type simRun struct {
	*simLog
	node    string
	nonce   string
	replica *simReplica
	r       *rand.Rand // of the batcher
	dead    atomic.Bool
	out     map[simWindow]int64 // permits that were lent and neither used nor returned; under mu
	applied Time                // last batch; under mu
}

func (s *simLog) now() Time { return Time(time.Since(s.start)) }

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)+1))
}

// append decides an entry and sends it to the replicas. mu is held.
func (s *simLog) append(apply func(now Time, r *simReplica)) {
	e := simEntry{s.now(), apply}
	s.note()
	e.apply(e.at, s.leader)
	s.note()
	for _, run := range s.runs {
		if !run.dead.Load() {
			run.replica.todo <- e
		}
	}
}

// simScopes lists every scope that the simulation's tickets meet.
func simScopes() (out []ScopeRef) {
	for _, m := range simModels {
		out = append(out, ScopeRef{Scope: ScopeModel, Model: m})
		for _, p := range []string{"a", "b", ""} {
			out = append(out, ScopeRef{ScopePool, p, m})
		}
		for _, k := range simKeys {
			out = append(out, ScopeRef{ScopeKeyModel, k, m})
		}
	}
	for _, k := range simKeys {
		out = append(out, ScopeRef{Scope: ScopeKey, ID: k})
	}
	return append(out, ScopeRef{Scope: ScopeTeam, ID: "t0"})
}

// bound returns how many requests the scope may serve in a window. A pool may
// also serve what is decided below the threshold.
func bound(p *tablePolicy, ref ScopeRef) int64 {
	l := limitsOf(p, ref)
	if l == nil || !l.Requests.set {
		return math.MaxInt64
	}
	if ref.Scope != ScopePool {
		return l.Requests.n
	}
	m := p.models[ref.Model]
	if p.rules.Sharing.Conserving {
		return m.Limits.Requests.n
	}
	return max(l.Requests.n, int64(math.Ceil(m.Threshold*float64(m.Limits.Requests.n)-1e-9)))
}

// note keeps what the leader's counters and the policy say now.
func (s *simLog) note() {
	p, now := s.leader.policy.Load(), s.now()
	for _, ref := range s.refs {
		c, l := s.leader.ledger.counter(ref), limitsOf(p, ref)
		if l == nil {
			continue
		}
		n, limited := l.Requests.Get()
		if ref.Scope == ScopePool && p.rules.Sharing.Conserving {
			m := p.models[ref.Model]
			c := s.leader.ledger.claims(&question{now: now, model: ref.Model, policy: m, pool: m.Pool(ref.ID), rules: &p.rules}, false)
			if c.rooms(&question{model: ref.Model, policy: m, pool: m.Pool(ref.ID), rules: &p.rules}).requests == 0 {
				s.full[ref] = time.Now()
			}
			limited = false
		}
		if limited && n == 0 {
			s.full[ref] = time.Now()
		}
		if c == nil {
			continue
		}
		start := s.leader.ledger.startOf(ref, c)
		end := start.Add(p.rules.Window)
		if start == NoWindow {
			continue
		}
		w := simWindow{ref, start}
		if most, ok := l.Tokens.Get(); ok && s.steady && p.rules.Reserve && !p.rules.Alone && ref.Scope != ScopePool && now < end && c.tokens > most {
			s.t.Errorf("%+v counts %d reserved and used tokens, limit %d", w, c.tokens, most)
		}
		if now < end {
			s.most[w] = max(s.most[w], bound(p, ref))
		}
		if limited && c.requests >= n {
			if at := s.start.Add(time.Duration(min(now, end))); at.After(s.full[ref]) {
				s.full[ref] = at
			}
		}
	}
}

// book counts what a batch has lent, to requests that it admitted too. mu is held.
func (run *simRun) book(b *Batch, a *Answer) {
	for _, r := range b.Returns {
		run.out[simWindow{r.Ref, r.Start}] -= r.N
	}
	for i, gr := range a.Grants {
		if gr.N > 0 {
			run.out[simWindow{b.Grants[i].Ref, gr.Start}] += gr.N
		}
	}
	for i := range a.Decisions {
		d := &a.Decisions[i]
		if !d.Admitted {
			continue
		}
		for scope := range d.Standings {
			st := &d.Standings[scope]
			if !st.counts {
				continue
			}
			w := simWindow{refOf(Scope(scope), &b.Reserves[i], d.Pool), st.Start}
			if !st.held {
				run.out[w]++ // until the request is told
			}
		}
	}
}

// bookDecided counts what the log has admitted and somebody was told of.
func (run *simRun) bookDecided(rc *Receipt) {
	run.mu.Lock()
	defer run.mu.Unlock()
	for scope := range rc.decision.Standings {
		if st := &rc.decision.Standings[scope]; st.counts {
			w := simWindow{refOf(Scope(scope), rc.ticket, rc.decision.Pool), st.Start}
			run.admitted[w]++
			run.out[w]--
		}
	}
}

// bookReports counts what a batch reported, where the ledger did. mu is held.
func (run *simRun) bookReports(now Time, b *Batch) {
	for i := range b.Reports {
		r := &b.Reports[i]
		c := run.leader.ledger.counter(r.Ref)
		if c == nil {
			continue
		}
		start := run.leader.ledger.startOf(r.Ref, c)
		if start != NoWindow && now.Add(-r.Age) >= start && now < start.Add(run.leader.policy.Load().rules.Window) {
			run.reported[simWindow{r.Ref, start}] += r.Requests
		}
	}
}

// bookAlone keeps when a request was admitted without the log.
func (run *simRun) bookAlone(rc *Receipt) {
	run.mu.Lock()
	defer run.mu.Unlock()
	for s := range rc.decision.Standings {
		if rc.decision.Standings[s].counts {
			k := simAlone{run.node, refOf(Scope(s), rc.ticket, rc.decision.Pool)}
			run.alone[k] = append(run.alone[k], time.Now())
		}
	}
}

// checkAlone holds that no node has ever admitted more than its part by itself.
func (s *simLog) checkAlone(parts int) {
	p := s.leader.policy.Load()
	for k, times := range s.alone {
		l := limitsOf(p, k.ref)
		if k.ref.Scope == ScopePool {
			continue // it may borrow
		}
		n, limited := l.Requests.Get()
		if !limited {
			continue
		}
		part := int(n) / parts
		for i := part; i < len(times); i++ {
			if d := times[i].Sub(times[i-part]); d < p.rules.Window {
				s.t.Errorf("%+v admitted %d without the log within %v, its part is %d", k, part+1, d, part)
				break
			}
		}
	}
}

// bookWarm counts what permits have admitted, each of them in its window.
func (run *simRun) bookWarm(rc *Receipt) {
	run.mu.Lock()
	defer run.mu.Unlock()
	now := run.now()
	for i := range rc.path.steps {
		st := &rc.path.steps[i]
		w := simWindow{st.account.ref, rc.leases[st.scope].start}
		run.admitted[w]++
		run.out[w]--
		if p := run.leader.policy.Load(); run.steady && (now < w.start || now >= w.start.Add(p.rules.Window)) {
			run.t.Errorf("%v admitted at %v in the window of %v", w.ref, now, w.start)
		}
	}
}

// follow applies the log on a replica, each entry up to 20 ms late.
func (r *simReplica) follow(s *simLog) {
	for e := range r.todo {
		if due := s.start.Add(time.Duration(e.at) + between(r.late, 0, 20*time.Millisecond)); r.late.IntN(3) > 0 {
			time.Sleep(time.Until(due))
		}
		if stall := time.Duration(Time(r.stall.Load()) - s.now()); stall > 0 {
			time.Sleep(stall)
		}
		e.apply(e.at, r)
	}
}

// ApplyBatch may answer late or not at all, whether or not the batch was applied.
func (run *simRun) ApplyBatch(ctx context.Context, b *Batch) (*Answer, error) {
	if err := run.reach(ctx); err != nil {
		return nil, err
	}
	var answer *Answer
	var failed error
	sent := *b
	defer func() {
		run.mu.Lock()
		run.slow = max(run.slow, run.now().Sub(run.applied))
		run.mu.Unlock()
	}()
	run.mu.Lock()
	run.append(func(now Time, r *simReplica) {
		r.mu.Lock()
		defer r.mu.Unlock()
		again := r.ledger.Applied(&sent)
		a, err := r.ledger.Apply(now, &sent, r.policy.Load())
		if r == run.leader {
			if failed = err; err == nil {
				answer = &Answer{slices.Clone(a.Decisions), slices.Clone(a.Grants)}
				if !again {
					run.applied = now
					run.book(&sent, a)
					run.bookReports(now, &sent)
				}
			}
			return
		}
		if g := r.gate.Load(); g != nil && err == nil && !again {
			g.Observe(now, &sent, a, r.ledger, r.policy.Load())
		}
	})
	run.mu.Unlock()
	if failed == nil && run.r.Float64() < run.failures {
		return nil, errDown
	}
	time.Sleep(between(run.r, 0, 3*time.Millisecond))
	return answer, failed
}

// reach waits for the log, which may be out of reach.
func (run *simRun) reach(ctx context.Context) error {
	time.Sleep(between(run.r, 100*time.Microsecond, 5*time.Millisecond))
	if run.now() < Time(run.silentUntil.Load()) {
		select {
		case <-ctx.Done():
		case <-time.After(between(run.r, 0, time.Second)):
		}
		return errDown
	}
	if run.dead.Load() || run.r.Float64() < run.failures {
		return errDown
	}
	return nil
}

func (run *simRun) Register(ctx context.Context) (epoch uint64, err error) {
	if err := run.reach(ctx); err != nil {
		return 0, err
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	run.append(func(now Time, r *simReplica) {
		r.mu.Lock()
		got := r.ledger.Register(now, run.node, run.nonce)
		r.mu.Unlock()
		if r == run.leader {
			epoch = got
		}
	})
	return epoch, nil
}

// begin starts a process run of the node from the leader's snapshot.
func (s *simLog) begin(node string, lease func() time.Duration, parts int, r *rand.Rand) *simRun {
	s.mu.Lock()
	run := &simRun{
		simLog: s, node: node, nonce: fmt.Sprint("run", len(s.runs)), out: map[simWindow]int64{},
		r:       rand.New(rand.NewPCG(r.Uint64(), 0)),
		replica: &simReplica{todo: make(chan simEntry, 1<<16), late: rand.New(rand.NewPCG(r.Uint64(), 1))},
	}
	run.replica.policy.Store(s.leader.policy.Load())
	run.replica.restore(s.leader.ledger, s.now())
	s.runs = append(s.runs, run)
	marked := s.marks[node]
	s.mu.Unlock()
	g, err := New(Options{
		Node: node, Applier: run, Policy: func() Policy { return run.replica.policy.Load() },
		OnNoQuorum: func() NoQuorum {
			if s.share {
				return NoQuorumShare
			}
			return NoQuorumDeny
		},
		Lease: lease, Parts: func() int { return parts },
		Look: func(t *Ticket) Outlook {
			run.replica.mu.Lock()
			defer run.replica.mu.Unlock()
			return run.replica.ledger.Look(s.now(), t, run.replica.policy.Load())
		},
		Mark: func(on bool) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.marks[node] = on
			return nil
		},
		Marked:   marked,
		Patience: between(r, 100*time.Millisecond, 2*time.Second),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	run.replica.gate.Store(g)
	s.replicas.Go(func() { run.replica.follow(s) })
	return run
}

// restore replaces the ledger by a copy of from, as a snapshot does.
func (r *simReplica) restore(from *Ledger, now Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, err := LoadLedger(from.Save(now, r.policy.Load().rules.Window))
	if err != nil {
		panic(err)
	}
	r.ledger = l
	if g := r.gate.Load(); g != nil {
		g.Forget()
	}
}

// die ends the run as a crash does: nothing is sent any more.
func (run *simRun) die() {
	run.mu.Lock()
	run.dead.Store(true)
	close(run.replica.todo)
	run.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	run.replica.gate.Load().Close(ctx)
}

// replacePolicy puts a new policy into the log.
func (s *simLog) replacePolicy(p *tablePolicy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions++
	p.version = s.versions
	s.append(func(_ Time, r *simReplica) { r.policy.Store(p) })
}
