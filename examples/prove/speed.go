package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/fsm"
	"sluice/limiter"
	"sluice/node"
)

const (
	plenty  = 1 << 40 // a limit that nobody reaches
	burst   = 256     // admissions that are timed together
	lone    = 1000    // admissions through the log
	warming = time.Second
	timed   = 4 * time.Second
)

// speed is what one admission costs: the median of bursts over all cores, with
// permits, and the median of lone ones that wait for a synced log.
type speed struct {
	warm float64 // ns
	lone time.Duration
}

// measureSpeed opens what a lone node has inside, without HTTP.
func measureSpeed(ctx context.Context) (s speed, err error) {
	dir, err := os.MkdirTemp("", "sluice-prove-")
	if err != nil {
		return s, fmt.Errorf("make a directory for the node: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var gate atomic.Pointer[limiter.Gate]
	state, err := fsm.Open(fsm.Options{Dir: dir, Observer: func() fsm.Observer {
		if g := gate.Load(); g != nil {
			return g
		}
		return nil
	}})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	state.UseWallClock() // a new cluster: there is nobody to ask
	n, err := node.Open(ctx, node.Options{
		ID: "n1", DataDir: dir, Listen: "127.0.0.1:0", Secret: "a secret of the measurement only",
		FSM: state, Prepare: state.Prepare, AppliedIndex: state.AppliedIndex,
	})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, n.Shutdown(context.WithoutCancel(ctx))) }()
	select {
	case <-n.Formed():
	case <-ctx.Done():
		return s, ctx.Err()
	}
	client := fsm.NewClient(n, state)
	var lease atomic.Int64 // 0: every admission is decided in the log
	g, err := limiter.New(limiter.Options{
		Node: "n1", Applier: client.Applier("n1", "prove"),
		Policy:     func() limiter.Policy { return state.View().Policy() },
		OnNoQuorum: func() limiter.NoQuorum { return limiter.NoQuorumDeny },
		Patience:   20 * time.Second,
		Lease:      func() time.Duration { return time.Duration(lease.Load()) },
	})
	if err != nil {
		return s, err
	}
	gate.Store(g)
	defer func() { err = errors.Join(err, g.Close(context.WithoutCancel(ctx))) }()
	t, err := governed(ctx, client)
	if err != nil {
		return s, err
	}
	if s.lone, err = loneMedian(ctx, g, t); err != nil {
		return s, err
	}
	lease.Store(int64(fsm.DefaultLeaseTTL))
	if _, err := warmMedian(ctx, g, t, warming); err != nil {
		return s, err
	}
	s.warm, err = warmMedian(ctx, g, t, timed)
	return s, err
}

// governed configures a model with a priority, a team and a key, all limited.
func governed(ctx context.Context, c *fsm.Client) (limiter.Ticket, error) {
	t := limiter.Ticket{Model: modelName, Key: fmt.Sprintf("%064x", 1), Team: "team", Priority: "prod"}
	many := limiter.Of(plenty)
	_, err := c.ApplyConfig(ctx, fsm.Config{
		Window: time.Hour,
		Reservation: limiter.Reservation{Threshold: 0.5, Default: 0.25, Shares: map[string]limiter.Share{
			t.Priority: {Kind: limiter.SharePercent, Value: 0.9},
		}},
		Models: []fsm.Model{{Name: t.Model, RPM: many, TPM: many, Deployments: []fsm.Deployment{
			{ID: t.Model, Provider: "mock", MockResponse: "x"},
		}}},
	}, "prove", fsm.WriteOptions{})
	if err != nil {
		return t, fmt.Errorf("configure the model: %w", err)
	}
	if _, err := c.CreateTeam(ctx, fsm.Team{ID: t.Team, RPM: many, TPM: many}, fsm.WriteOptions{}); err != nil {
		return t, fmt.Errorf("create the team: %w", err)
	}
	if _, err := c.CreateKey(ctx, fsm.Key{ID: t.Key, TeamID: t.Team, RPM: many, TPM: many}, fsm.WriteOptions{}); err != nil {
		return t, fmt.Errorf("create the key: %w", err)
	}
	return t, nil
}

func loneMedian(ctx context.Context, g *limiter.Gate, t limiter.Ticket) (time.Duration, error) {
	took := make([]time.Duration, lone)
	for i := range took {
		began := time.Now()
		receipt, err := g.Admit(ctx, t)
		if err != nil {
			return 0, fmt.Errorf("admit through the log: %w", err)
		}
		took[i] = time.Since(began)
		receipt.Settle(limiter.Usage{Input: 10, Output: 20})
	}
	slices.Sort(took)
	return took[lone/2], nil
}

// warmMedian admits on all cores for d and returns the time by the wall that
// one admission took of it, in ns. It takes the median of short bursts, so that
// the few which wait for new permits, or for a core, do not count.
func warmMedian(ctx context.Context, g *limiter.Gate, t limiter.Ticket, d time.Duration) (ns float64, err error) {
	cores := runtime.GOMAXPROCS(0)
	took, errs := make([][]time.Duration, cores), make([]error, cores)
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for core := range cores {
		wg.Go(func() {
			for errs[core] == nil && time.Now().Before(end) {
				began := time.Now()
				for i := 0; i < burst && errs[core] == nil; i++ {
					_, errs[core] = g.Admit(ctx, t)
				}
				took[core] = append(took[core], time.Since(began))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("admit with permits: %w", err)
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	return float64(all[len(all)/2]) / burst / float64(cores), nil
}
