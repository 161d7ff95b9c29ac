package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/examples/harness"
)

const failovers = 10

// benchFailover kills the leader of three processes, again and again, and
// measures how long a survivor takes no management writes.
func benchFailover(ctx context.Context, _ options, r *report) (err error) {
	c, err := harness.Start(ctx, harness.Options{Nodes: 3, Config: gatewayConfig("http://127.0.0.1:9")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	r.section("Failover: three processes; the leader is killed (SIGKILL) %d times, and started again each time.", failovers)
	var gaps []time.Duration
	for i := range failovers {
		gap, err := killLeader(ctx, c, i)
		if err != nil {
			return err
		}
		gaps = append(gaps, gap)
		if err := c.Restart(ctx, time.Minute); err != nil {
			return err
		}
	}
	middle := median(gaps)
	r.judge("until a survivor takes a management write: median", fmt.Sprintf("%.2f s", middle.Seconds()), "≤ 1 s", middle <= time.Second)
	r.line("the same: longest", fmt.Sprintf("%.2f s", gaps[len(gaps)-1].Seconds()))
	return nil
}

// killLeader returns the time from the kill to the first write that a survivor
// acknowledged. Survivors take turns over the rounds.
func killLeader(ctx context.Context, c *harness.Cluster, round int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	leader, err := c.Leader(ctx)
	if err != nil {
		return 0, err
	}
	survivor := c.Others(leader)[round%2].Admin()
	if _, err := survivor.CreateKey(ctx, harness.KeySpec{}); err != nil {
		return 0, fmt.Errorf("write before the kill: %w", err)
	}
	began := time.Now()
	if err := leader.Kill(); err != nil {
		return 0, err
	}
	for {
		_, err := survivor.CreateKey(ctx, harness.KeySpec{})
		if err == nil {
			return time.Since(began), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("write after the kill: %w", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
