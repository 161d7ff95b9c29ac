// Package admintest gives tests of the control plane a real state machine
// behind a log that has one member and lives in memory.
//
// It must not know the handlers: both their tests and those of the command
// line build on it.
package admintest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"sluice/fsm"
	"sluice/fsm/fsmtest"
	"sluice/limiter"
)

// Log is fsmtest's log with faults in its way. Any goroutine may call.
type Log struct {
	inner *fsmtest.Log
	mu    sync.Mutex
	fail  []Fault
}

var _ fsm.Replicator = (*Log)(nil)

// Fault is what happens to one write instead of success.
type Fault struct {
	Err     error // returned to the writer
	Applied bool  // the write happens all the same
}

// Fail puts faults in the way of the next writes, one each.
func (l *Log) Fail(f ...Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = append(l.fail, f...)
}

// Apply applies one command.
func (l *Log) Apply(ctx context.Context, cmd []byte) ([]byte, uint64, error) {
	fault := l.next()
	if fault.Err != nil && !fault.Applied {
		return nil, 0, fault.Err
	}
	answer, index, err := l.inner.Apply(ctx, cmd)
	if fault.Err != nil {
		return nil, 0, fault.Err
	}
	return answer, index, err
}

func (l *Log) next() Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.fail) == 0 {
		return Fault{}
	}
	f := l.fail[0]
	l.fail = l.fail[1:]
	return f
}

// Open returns an empty state machine, its log and a client of both. now is both
// clocks, nil for the real ones.
func Open(t testing.TB, now func() time.Time) (*fsm.State, *Log, *fsm.Client) {
	t.Helper()
	o := fsm.Options{Now: now}
	if now != nil {
		begin := now()
		o.Mono = func() time.Duration { return now().Sub(begin) }
	}
	state, err := fsm.Open(o)
	if err != nil {
		t.Fatalf("open state: %v", err)
	}
	t.Cleanup(func() {
		if err := state.Close(); err != nil && !errors.Is(err, fsm.ErrClosed) {
			t.Errorf("close state: %v", err)
		}
	})
	log := &Log{inner: fsmtest.NewLog(state)}
	return state, log, fsm.NewClient(log, state)
}

// Config returns a configuration with two mock models, an alias and two shares.
func Config() fsm.Config {
	return fsm.Config{
		Window: time.Minute,
		Models: []fsm.Model{
			{Name: "my-fake-model", TPM: limiter.Of(60), Deployments: []fsm.Deployment{{ID: "fake-1", Provider: fsm.ProviderMock, MockResponse: "hello-world"}}},
			{Name: "gpt-5.6-luna", RPM: limiter.Of(10), TPM: limiter.Of(1000), Deployments: []fsm.Deployment{
				{ID: "luna-1", Provider: fsm.ProviderCompatible, Model: "luna", APIBase: "https://llm.example/v1", APIKey: "os.environ/UPSTREAM_KEY"}}},
		},
		Aliases: map[string]string{"fast": "gpt-5.6-luna"},
		Reservation: limiter.Reservation{Default: 0.25, Threshold: 0.5, Shares: map[string]limiter.Share{
			"prod": {Kind: limiter.SharePercent, Value: 0.9}, "dev": {Kind: limiter.SharePercent, Value: 0.1}}},
	}
}

// Count admits one request through the log and records its tokens, so that
// windows have something to show.
func Count(t testing.TB, c *fsm.Client, node string, ticket limiter.Ticket, tokens int64) {
	t.Helper()
	a := c.Applier(node, "test-run")
	epoch, err := a.Register(t.Context())
	if err != nil {
		t.Fatalf("register: %v", err)
	}
	answer, err := a.ApplyBatch(t.Context(), &limiter.Batch{Node: node, Epoch: epoch, Seq: 1, Reserves: []limiter.Ticket{ticket}})
	if err != nil || len(answer.Decisions) != 1 || !answer.Decisions[0].Admitted {
		t.Fatalf("admit %+v: %+v, %v", ticket, answer, err)
	}
	d := answer.Decisions[0]
	settle := limiter.Settle{Ticket: ticket, Pool: d.Pool, Slots: d.Slots, Count: 1, Usage: limiter.Usage{Output: tokens}}
	for i, s := range d.Standings {
		settle.Starts[i] = s.Start
	}
	if _, err := a.ApplyBatch(t.Context(), &limiter.Batch{Node: node, Epoch: epoch, Seq: 2, Settles: []limiter.Settle{settle}}); err != nil {
		t.Fatalf("settle %+v: %v", ticket, err)
	}
}
