package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"sluice/examples/harness"
	"sluice/fsm"
	"sluice/limiter"
)

// benchKeys measures what many keys cost: start, memory, lookup.
func benchKeys(ctx context.Context, o options, r *report) error {
	c, err := harness.Start(ctx, harness.Options{Config: gatewayConfig("http://127.0.0.1:9")})
	if err != nil {
		return err
	}
	defer c.Close()
	n := c.Nodes[0]
	began := time.Now()
	if err := createKeys(ctx, n, o.keys); err != nil {
		return err
	}
	r.section("Keys: one node with %d virtual keys, each with limits and metadata.", o.keys)
	r.line("created over HTTP, each write synced", fmt.Sprintf("%.0f/s", float64(o.keys)/time.Since(began).Seconds()))

	if err := n.Terminate(); err != nil {
		return err
	}
	if _, err := n.Wait(ctx); err != nil {
		return err
	}
	clean, err := startToReady(ctx, n)
	if err != nil {
		return err
	}
	r.judge("start to ready after SIGTERM", fmt.Sprintf("%.2f s", clean.Seconds()), "≤ 3 s", clean <= 3*time.Second)
	mb, err := residentMB(ctx, n.PID())
	if err != nil {
		return err
	}
	r.judge("resident memory", fmt.Sprintf("%.0f MB", mb), "≤ 250 MB", mb <= 250)
	if err := n.Kill(); err != nil {
		return err
	}
	unclean, err := startToReady(ctx, n)
	if err != nil {
		return err
	}
	r.line("start to ready after SIGKILL, rebuilt from the log", fmt.Sprintf("%.2f s", unclean.Seconds()))
	return benchLookup(ctx, o, r)
}

func createKeys(ctx context.Context, n *harness.Node, keys int) error {
	const workers = 64
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	limit := plenty
	for range workers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(keys) && ctx.Err() == nil; i = next.Add(1) {
				_, err := n.Admin().CreateKey(ctx, harness.KeySpec{
					Alias: fmt.Sprintf("key-%d", i), RPM: &limit, TPM: &limit, Priority: "prod",
				})
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func startToReady(ctx context.Context, n *harness.Node) (time.Duration, error) {
	began := time.Now()
	if err := n.Start(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := n.Ready(ctx)
	return time.Since(began), err
}

// residentMB asks ps, which every Unix has.
func residentMB(ctx context.Context, pid int) (float64, error) {
	out, err := exec.CommandContext(ctx, "ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0, fmt.Errorf("ask ps for the memory of the node: %w", err)
	}
	kb, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		return 0, fmt.Errorf("read the answer of ps: %w", err)
	}
	return kb / 1024, nil
}

// localLog applies commands at once: a log of one replica that needs no disk.
type localLog struct {
	state *fsm.State
	index uint64
}

var _ fsm.Replicator = (*localLog)(nil)

// Apply is called by one goroutine.
func (l *localLog) Apply(_ context.Context, cmd []byte) ([]byte, uint64, error) {
	l.index++
	answer, ok := l.state.Apply(&raft.Log{Index: l.index, Term: 1, Data: l.state.Prepare(cmd)}).([]byte)
	if !ok {
		return nil, 0, fmt.Errorf("entry %d got no answer", l.index)
	}
	return answer, l.index, nil
}

// benchLookup measures finding a key in the view that requests read.
func benchLookup(ctx context.Context, o options, r *report) error {
	state, err := fsm.Open(fsm.Options{})
	if err != nil {
		return fmt.Errorf("open a state in memory: %w", err)
	}
	defer state.Close()
	client := fsm.NewClient(&localLog{state: state}, state)
	ids := make([]string, o.keys)
	for i := range ids {
		sum := sha256.Sum256(strconv.AppendInt(nil, int64(i), 10))
		ids[i] = hex.EncodeToString(sum[:])
		if _, err := client.CreateKey(ctx, fsm.Key{ID: ids[i], RPM: limiter.Of(plenty)}, fsm.WriteOptions{}); err != nil {
			return fmt.Errorf("create key %d: %w", i, err)
		}
	}
	missing := 0
	ns, _ := perOp(func(b *testing.B) {
		for i := range b.N {
			if _, ok := state.View().Key(ids[i*7919%len(ids)]); !ok {
				missing++
			}
		}
	})
	if missing > 0 {
		return fmt.Errorf("%d lookups found nothing", missing)
	}
	r.judge("lookup of a key", fmt.Sprintf("%.0f ns", ns), "≤ 1 µs", ns <= 1000)
	return nil
}
