package limiter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// cutCluster is Gates over one Ledger, each of which can be cut off from it: it
// gets no answer then, and looks at the Ledger as it was.
type cutCluster struct {
	*sharedLog
	mu     sync.Mutex
	frozen []*Ledger // of those that are cut off
	marks  []bool

	noReports bool // batches with reports get no answer
}

type cutApplier struct {
	sharedApplier
	c *cutCluster
	i int
}

func (a *cutApplier) ApplyBatch(ctx context.Context, b *Batch) (*Answer, error) {
	if a.c.cutOff(a.i) != nil || len(b.Reports) > 0 && a.c.swallowsReports() {
		return nil, errDown
	}
	return a.sharedApplier.ApplyBatch(ctx, b)
}

func (c *cutCluster) cutOff(i int) *Ledger {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frozen[i]
}

func (c *cutCluster) swallowsReports() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.noReports
}

func (c *cutCluster) swallowReports(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noReports = on
}

func newCutCluster(t *testing.T, n int, p *tablePolicy, policy NoQuorum) *cutCluster {
	t.Helper()
	c := &cutCluster{
		sharedLog: &sharedLog{ledger: NewLedger(), policy: p, start: time.Now(), commit: time.Millisecond},
		frozen:    make([]*Ledger, n), marks: make([]bool, n),
	}
	for i := range n {
		g, err := New(c.options(i, n, policy))
		if err != nil {
			t.Fatal(err)
		}
		c.gates = append(c.gates, g)
	}
	time.Sleep(10 * time.Millisecond) // all have registered
	return c
}

func (c *cutCluster) options(i, n int, policy NoQuorum) Options {
	name := fmt.Sprint("n", i)
	return Options{
		Node: name, Applier: &cutApplier{sharedApplier{c.sharedLog, name}, c, i},
		Policy:     func() Policy { return c.policy },
		OnNoQuorum: func() NoQuorum { return policy },
		Lease:      func() time.Duration { return 500 * time.Millisecond },
		Parts:      func() int { return n },
		Look: func(t *Ticket) Outlook {
			l := c.cutOff(i)
			if l == nil {
				l = c.ledger
			}
			c.sharedLog.mu.Lock()
			defer c.sharedLog.mu.Unlock()
			return l.Look(c.now(), t, c.policy)
		},
		Mark: func(on bool) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.marks[i] = on
			return nil
		},
	}
}

// cut takes the nodes off the log, and waits until they have noticed.
func (c *cutCluster) cut(t *testing.T, nodes ...int) {
	t.Helper()
	time.Sleep(time.Second) // what was lent has come back
	c.sharedLog.mu.Lock()
	copied, err := LoadLedger(c.ledger.Save(c.now(), c.policy.rules.Window))
	c.sharedLog.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	for _, i := range nodes {
		c.frozen[i] = copied
	}
	c.mu.Unlock()
	for _, i := range nodes {
		go c.gates[i].Admit(t.Context(), Ticket{Model: "unlimited", Key: "max1"}) // it finds out
	}
	time.Sleep(DefaultPatience + 10*time.Millisecond)
	for _, i := range nodes {
		if !c.gates[i].Degraded() {
			t.Fatalf("node %d has not noticed", i)
		}
	}
}

func (c *cutCluster) marked(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marks[i]
}

func (c *cutCluster) heal() {
	c.mu.Lock()
	clear(c.frozen)
	c.mu.Unlock()
	time.Sleep(maxBackoff + 100*time.Millisecond)
}

// ask sends n requests to the node and returns how many were admitted.
func (c *cutCluster) ask(t *testing.T, node, n int, tk Ticket) (rs []*Receipt) {
	t.Helper()
	for range n {
		r, err := c.gates[node].Admit(t.Context(), tk)
		var refusal *Refusal
		switch {
		case err == nil:
			rs = append(rs, r)
		case !errors.As(err, &refusal) && !errors.Is(err, ErrNoQuorum):
			t.Fatal(err)
		}
	}
	return rs
}

func alonePolicy(rpm int64) *tablePolicy {
	p := newTable().model("m", Limits{Requests: Of(rpm)}, Reservation{}).model("unlimited", Limits{}, Reservation{})
	p.keys["max1"] = &SubjectPolicy{Limits: Limits{Parallel: Of(1000)}}
	return p
}
