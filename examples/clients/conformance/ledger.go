package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// ledger is what sluice's metrics say that it has counted since its start.
type ledger struct {
	input, output, cached int64
	inflight              int64
}

func (r *rig) ledger(ctx context.Context) (ledger, error) {
	reply, err := r.node.Admin().Get(ctx, "/metrics")
	if err != nil {
		return ledger{}, fmt.Errorf("read sluice's metrics: %w", err)
	}
	if reply.Status != http.StatusOK {
		return ledger{}, fmt.Errorf("read sluice's metrics: status %d", reply.Status)
	}
	return readLedger(string(reply.Body))
}

// readLedger adds up the series of Prometheus' text format that matter.
func readLedger(text string) (ledger, error) {
	var l ledger
	for line := range strings.Lines(text) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		name, labels, _ := strings.Cut(series, "{")
		if !ok || name != "sluice_tokens_total" && name != "sluice_inflight" {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return ledger{}, fmt.Errorf("read the metric %q: %w", line, err)
		}
		switch {
		case name == "sluice_inflight":
			l.inflight += int64(n)
		case strings.Contains(labels, `kind="input"`):
			l.input += int64(n)
		case strings.Contains(labels, `kind="output"`):
			l.output += int64(n)
		case strings.Contains(labels, `kind="cached"`):
			l.cached += int64(n)
		}
	}
	return l, nil
}

// since is what was counted after an earlier look.
func (l ledger) since(before ledger) Usage {
	return Usage{Input: l.input - before.input, Output: l.output - before.output, Cached: l.cached - before.cached}
}
