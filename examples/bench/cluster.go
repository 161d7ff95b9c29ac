package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"sluice/fsm"
	"sluice/limiter"
	"sluice/node"
)

const (
	waiters    = 256
	admissions = 60_000 // of each round; the model's limit
)

// member is what one sluice process has inside, without HTTP.
type member struct {
	state  *fsm.State
	node   *node.Node
	client *fsm.Client
	gate   *limiter.Gate

	observer atomic.Pointer[limiter.Gate] // gate, for the state
}

// benchCluster measures admissions through the log of three nodes, in one
// process: three disks' worth of synced writes, TLS between the nodes, no HTTP.
func benchCluster(ctx context.Context, o options, r *report) (err error) {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return fmt.Errorf("make a directory for the cluster: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	members, err := openCluster(ctx, dir)
	defer func() { err = errors.Join(err, closeCluster(members)) }()
	if err != nil {
		return err
	}
	if err := configure(ctx, members, o.rounds); err != nil {
		return err
	}
	r.section("Cluster: three nodes on loopback in one process, logs synced, every admission in the log;\n%d waiters spread over the nodes, each admission settled; a model whose limit is %d requests; medians of %d rounds.", waiters, admissions, o.rounds)
	var speeds []float64
	exact := true
	for round := range o.rounds {
		perSecond, admitted, err := fill(ctx, members, roundModel(round))
		if err != nil {
			return err
		}
		speeds = append(speeds, perSecond)
		exact = exact && admitted == admissions
		if admitted != admissions {
			r.line("admitted in this round", fmt.Sprint(admitted))
		}
	}
	perSecond := median(speeds)
	r.judge("admissions per second through the log", fmt.Sprintf("%.0f/s", perSecond), "≥ 20000/s", perSecond >= 20_000)
	r.judge("admitted when far more was asked for", fmt.Sprintf("exactly %d: %v", admissions, exact), "exact", exact)
	return nil
}

// openCluster starts the first node alone and lets the others join it. What was
// opened is returned also on an error.
func openCluster(ctx context.Context, dir string) ([]*member, error) {
	var members []*member
	var join []string
	for i := range 3 {
		m, err := openMember(ctx, fmt.Sprintf("n%d", i+1), dir, join)
		if m != nil {
			members = append(members, m)
		}
		if err != nil {
			return members, err
		}
		join = []string{members[0].node.Addr()}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for voters(ctx, members[0]) < len(members) {
		select {
		case <-ctx.Done():
			return members, fmt.Errorf("wait for three voters: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	for _, m := range members {
		if err := m.openGate(nil); err != nil {
			return members, err
		}
	}
	return members, nil
}

func openMember(ctx context.Context, id, dir string, join []string) (*member, error) {
	m := &member{}
	data := filepath.Join(dir, id)
	var err error
	if m.state, err = fsm.Open(fsm.Options{Dir: data, Observer: m.observe}); err != nil {
		return nil, fmt.Errorf("open the state of %s: %w", id, err)
	}
	m.state.UseWallClock() // a new cluster: there is nobody to ask
	m.node, err = node.Open(ctx, node.Options{
		ID: id, DataDir: data, Listen: "127.0.0.1:0", Join: join, Secret: "a secret of the benchmark only",
		FSM: m.state, Prepare: m.state.Prepare, AppliedIndex: m.state.AppliedIndex,
	})
	if err != nil {
		return m, fmt.Errorf("open node %s: %w", id, err)
	}
	m.client = fsm.NewClient(m.node, m.state)
	select {
	case <-m.node.Formed():
		return m, nil
	case <-ctx.Done():
		return m, fmt.Errorf("wait for %s to be a member: %w", id, ctx.Err())
	}
}

func (m *member) observe() fsm.Observer {
	if g := m.observer.Load(); g != nil {
		return g
	}
	return nil
}

// openGate opens the gate; without a lease everything is decided in the log.
func (m *member) openGate(lease func() time.Duration) (err error) {
	id := m.node.ID()
	m.gate, err = limiter.New(limiter.Options{
		Node:       id,
		Applier:    m.client.Applier(id, fmt.Sprintf("%s-%d", id, time.Now().UnixNano())),
		Policy:     func() limiter.Policy { return m.state.View().Policy() },
		OnNoQuorum: func() limiter.NoQuorum { return limiter.NoQuorumDeny },
		Patience:   20 * time.Second,
		Lease:      lease,
	})
	if err == nil {
		m.observer.Store(m.gate)
	}
	return err
}

func voters(ctx context.Context, m *member) int {
	n := 0
	for _, other := range m.node.Members(ctx) {
		if other.Voter {
			n++
		}
	}
	return n
}

func closeCluster(members []*member) error {
	var errs []error
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, m := range members {
		if m.gate != nil {
			errs = append(errs, m.gate.Close(ctx))
		}
	}
	for _, m := range members {
		if m.node != nil {
			errs = append(errs, m.node.Shutdown(ctx))
		}
		errs = append(errs, m.state.Close())
	}
	return errors.Join(errs...)
}

func roundModel(round int) string { return fmt.Sprintf("model-%d", round) }

// configure gives every round a model of its own, whose window is fresh.
func configure(ctx context.Context, members []*member, rounds int) error {
	c := fsm.Config{Window: time.Hour, Reservation: limiter.Reservation{Threshold: 0, Default: 1}}
	for round := range rounds {
		c.Models = append(c.Models, fsm.Model{
			Name: roundModel(round), RPM: limiter.Of(admissions), TPM: limiter.Of(plenty),
			Deployments: []fsm.Deployment{{ID: roundModel(round), Provider: "mock", MockResponse: "x"}},
		})
	}
	for _, m := range members {
		if _, err := m.client.ApplyConfig(ctx, c, "benchmark", fsm.WriteOptions{}); err != nil {
			return fmt.Errorf("configure the models: %w", err)
		}
	}
	return nil
}

// fill asks for admissions until every waiter was refused, and returns how fast
// they came and how many they were.
func fill(ctx context.Context, members []*member, model string) (perSecond float64, admitted int64, err error) {
	var (
		count atomic.Int64
		last  atomic.Int64 // nanoseconds until the last admission
		wg    sync.WaitGroup
		mu    sync.Mutex
	)
	began := time.Now()
	for w := range waiters {
		gate := members[w%len(members)].gate
		wg.Go(func() {
			for {
				receipt, aerr := gate.Admit(ctx, limiter.Ticket{Model: model})
				var refusal *limiter.Refusal
				if errors.As(aerr, &refusal) {
					return
				}
				if aerr != nil {
					mu.Lock()
					defer mu.Unlock()
					err = aerr
					return
				}
				receipt.Settle(limiter.Usage{Input: 10, Output: 20})
				count.Add(1)
				last.Store(int64(time.Since(began)))
			}
		})
	}
	wg.Wait()
	if err != nil {
		return 0, 0, fmt.Errorf("admit: %w", err)
	}
	return float64(count.Load()) / time.Duration(last.Load()).Seconds(), count.Load(), nil
}
