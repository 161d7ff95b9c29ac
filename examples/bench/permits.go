package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

// admissionCosts are what one admission of a ticket with four limited scopes
// costs, in one and the same gate.
type admissionCosts struct {
	warm  []float64       // ns, with permits, all cores at once
	crowd []float64       // ns, through the log, with many waiters
	lone  []time.Duration // through the log, one waiter
}

// benchPermits puts an admission with permits beside one that waits for the
// log, and beside one that a Redis script decides.
func benchPermits(ctx context.Context, o options, r *report) (err error) {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return fmt.Errorf("make a directory for the node: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	m, err := openMember(ctx, "n1", dir, nil)
	if m != nil {
		defer func() { err = errors.Join(err, closeCluster([]*member{m})) }()
	}
	if err != nil {
		return err
	}
	var lease atomic.Int64 // 0: every admission is decided in the log
	if err := m.openGate(func() time.Duration { return time.Duration(lease.Load()) }); err != nil {
		return err
	}
	ticket, err := governedTicket(ctx, m)
	if err != nil {
		return err
	}
	r.section("Permits and Redis: one admission that meets a key's, a team's, the model's and a pool's limits. sluice with its log\nsynced, the client in the process; Redis over loopback, without persistence, the same decision as a Lua script;\nmedians of %d interleaved rounds.", o.rounds)
	redis, err := startRedis(ctx)
	if err != nil && !errors.Is(err, errNoRedis) {
		return err
	}
	if redis != nil {
		defer redis.stop()
	}
	var costs admissionCosts
	var asked redisCosts
	for range o.rounds {
		if err := costs.round(ctx, m.gate, ticket, &lease, o.slice/2); err != nil {
			return err
		}
		if redis != nil {
			if err := asked.round(redis, o.slice/2); err != nil {
				return err
			}
		}
	}
	warm, crowd, lone := median(costs.warm), median(costs.crowd), median(costs.lone)
	r.line(fmt.Sprintf("with permits, %d cores at once: median burst", runtime.GOMAXPROCS(0)), fmt.Sprintf("%.0f ns", warm))
	r.line("through the log, alone: p50", micros(lone))
	r.line(fmt.Sprintf("through the log, %d waiters: each", waiters), fmt.Sprintf("%.0f ns", crowd))
	times := float64(lone) / warm
	r.judge("waiting for the log : permits", fmt.Sprintf("%.0f", times), "≥ 1000", times >= 1000)
	if redis == nil {
		r.line("Redis", "skipped: no redis-server in PATH (apt-get install redis-server)")
		return nil
	}
	asked.report(r, warm, crowd)
	return nil
}

// redisCosts are the same of Redis.
type redisCosts struct {
	one, many       []float64 // decisions per second over 1 and over 64 connections
	oneP50, manyP50 []time.Duration
}

const redisConns = 64

func (c *redisCosts) round(s *redisServer, d time.Duration) error {
	rate, p50, err := s.measure(1, d)
	if err != nil {
		return err
	}
	c.one, c.oneP50 = append(c.one, rate), append(c.oneP50, p50)
	rate, p50, err = s.measure(redisConns, d)
	c.many, c.manyP50 = append(c.many, rate), append(c.manyP50, p50)
	return err
}

func (c *redisCosts) report(r *report, warm, crowd float64) {
	one, many := 1e9/median(c.one), 1e9/median(c.many)
	r.line("Redis, 1 connection", fmt.Sprintf("%.0f/s, p50 %s", 1e9/one, micros(median(c.oneP50))))
	r.line(fmt.Sprintf("Redis, %d connections", redisConns), fmt.Sprintf("%.0f/s, p50 %s", 1e9/many, micros(median(c.manyP50))))
	r.line("Redis : permits, 1 connection / 64 (time each)", fmt.Sprintf("%.0f / %.0f", one/warm, many/warm))
	r.line("Redis, 64 connections : log with a crowd (time each)", fmt.Sprintf("%.1f", many/crowd))
}

// governedTicket configures a model with pools, a team and a key, all limited.
func governedTicket(ctx context.Context, m *member) (limiter.Ticket, error) {
	percent := func(v float64) limiter.Share { return limiter.Share{Kind: limiter.SharePercent, Value: v} }
	t := limiter.Ticket{Model: benchModel, Key: fmt.Sprintf("%064x", 1), Team: "team", Priority: "prod"}
	limit := limiter.Of(plenty)
	_, err := m.client.ApplyConfig(ctx, fsm.Config{
		Window:      time.Hour,
		Reservation: limiter.Reservation{Threshold: 0.5, Default: 0.25, Shares: map[string]limiter.Share{"prod": percent(0.9), "dev": percent(0.1)}},
		Models: []fsm.Model{{Name: benchModel, RPM: limit, TPM: limit, Deployments: []fsm.Deployment{
			{ID: benchModel, Provider: "mock", MockResponse: "x"},
		}}},
	}, "benchmark", fsm.WriteOptions{})
	if err != nil {
		return t, fmt.Errorf("configure the model: %w", err)
	}
	if _, err := m.client.CreateTeam(ctx, fsm.Team{ID: t.Team, RPM: limit, TPM: limit}, fsm.WriteOptions{}); err != nil {
		return t, fmt.Errorf("create the team: %w", err)
	}
	if _, err := m.client.CreateKey(ctx, fsm.Key{ID: t.Key, TeamID: t.Team, RPM: limit, TPM: limit}, fsm.WriteOptions{}); err != nil {
		return t, fmt.Errorf("create the key: %w", err)
	}
	return t, nil
}

func (c *admissionCosts) round(ctx context.Context, g *limiter.Gate, t limiter.Ticket, lease *atomic.Int64, d time.Duration) error {
	lease.Store(0)
	lone, err := loneWaits(ctx, g, t, loneAdmissions/4)
	if err != nil {
		return err
	}
	crowd, err := admitFor(ctx, g, t, waiters, d)
	if err != nil {
		return err
	}
	lease.Store(int64(fsm.DefaultLeaseTTL))
	if _, err := admitFor(ctx, g, t, runtime.GOMAXPROCS(0), d/2); err != nil { // until it is warm
		return err
	}
	warm, err := admitWarm(ctx, g, t, runtime.GOMAXPROCS(0), d)
	c.lone, c.crowd, c.warm = append(c.lone, lone), append(c.crowd, crowd), append(c.warm, warm)
	return err
}

// burst is as many admissions as are timed together.
const burst = 256

// admitWarm is admitFor for admissions that find a permit: it takes the median
// of short bursts, so that those which met a moment without permits, or without
// a core, do not count.
func admitWarm(ctx context.Context, g *limiter.Gate, t limiter.Ticket, goroutines int, d time.Duration) (ns float64, err error) {
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		all []time.Duration
	)
	end := time.Now().Add(d)
	for range goroutines {
		wg.Go(func() {
			var took []time.Duration
			var failed error
			for failed == nil && time.Now().Before(end) {
				began := time.Now()
				for i := 0; i < burst && failed == nil; i++ {
					_, failed = g.Admit(ctx, t)
				}
				took = append(took, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			err = errors.Join(err, failed)
		})
	}
	wg.Wait()
	if err != nil {
		return 0, fmt.Errorf("admit: %w", err)
	}
	return float64(median(all)) / burst / float64(goroutines), nil
}

// admitFor admits from many goroutines for d and returns the time by the wall
// that each admission took of it, in ns.
func admitFor(ctx context.Context, g *limiter.Gate, t limiter.Ticket, goroutines int, d time.Duration) (ns float64, err error) {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		all  int64
		stop atomic.Bool
	)
	began := time.Now()
	for range goroutines {
		wg.Go(func() {
			n := int64(0)
			var failed error
			for ; failed == nil && !stop.Load(); n++ {
				_, failed = g.Admit(ctx, t)
			}
			mu.Lock()
			defer mu.Unlock()
			all += n
			err = errors.Join(err, failed)
		})
	}
	time.Sleep(d)
	stop.Store(true)
	wg.Wait()
	if err != nil {
		return 0, fmt.Errorf("admit: %w", err)
	}
	return float64(time.Since(began)) / float64(all), nil
}
