package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"sluice/limiter"
)

const loneAdmissions = 2000

// benchLog measures what the log adds to a request that comes alone: one node
// in this process, its log synced, one waiter that settles and asks again. The
// disk is measured before and after, in the same run.
func benchLog(ctx context.Context, o options, r *report) (err error) {
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
	if err := m.openGate(nil); err != nil {
		return err
	}
	if err := configure(ctx, []*member{m}, o.rounds); err != nil {
		return err
	}
	var waits, syncs, commits []time.Duration
	for round := range o.rounds {
		d, err := measureDisk()
		if err != nil {
			return err
		}
		syncs, commits = append(syncs, d.fsync), append(commits, d.commit)
		w, err := loneWaits(ctx, m.gate, limiter.Ticket{Model: roundModel(round)}, loneAdmissions)
		if err != nil {
			return err
		}
		waits = append(waits, w)
	}
	fsync, wait := median(syncs), median(waits)
	r.section("Log: one node, its log synced, one waiter; medians of %d rounds of %d admissions.", o.rounds, loneAdmissions)
	r.line("one fsync: 4 KiB appended to a file, then synced", micros(fsync))
	r.line("one BoltDB commit of a small value (two syncs)", micros(median(commits)))
	r.judge("p50 that the log adds to a lone request", fmt.Sprintf("%s = %.1f fsync", micros(wait), float64(wait)/float64(max(fsync, time.Microsecond))),
		"≤ 2 fsync", wait <= 2*fsync)
	return nil
}

// loneWaits returns the median time of an admission.
func loneWaits(ctx context.Context, g *limiter.Gate, t limiter.Ticket, n int) (time.Duration, error) {
	waits := make([]time.Duration, n)
	for i := range waits {
		began := time.Now()
		receipt, err := g.Admit(ctx, t)
		if err != nil {
			return 0, fmt.Errorf("admit: %w", err)
		}
		waits[i] = time.Since(began)
		receipt.Settle(limiter.Usage{Input: 10, Output: 20})
	}
	return median(waits), nil
}
