package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"

	"sluice/examples/harness"
)

// manager makes management requests while the cluster is disturbed.
type manager struct {
	load *load

	mu       sync.Mutex
	history  []Op
	current  []string // the registers in use
	ops      map[string]int
	unknowns map[string]int
	count    int64
	tried    int // writes
}

const (
	registersAtOnce = 4
	// A register is left for a new one after so many operations, or unknown
	// outcomes, each of which the search has to try everywhere.
	opsOfRegister      = 120
	unknownsOfRegister = 5
)

func newManager(l *load) *manager {
	m := &manager{load: l, ops: map[string]int{}, unknowns: map[string]int{}}
	for range registersAtOnce {
		m.current = append(m.current, m.name())
	}
	return m
}

// name returns a new register's. The caller holds mu, or is newManager.
func (m *manager) name() string {
	m.count++
	return fmt.Sprintf("sk-register-%d-%d", m.load.plan.Seed, m.count)
}

func (m *manager) choose(r *rand.Rand) (register string, value int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := r.IntN(len(m.current))
	if name := m.current[i]; m.ops[name] >= opsOfRegister || m.unknowns[name] >= unknownsOfRegister {
		m.current[i] = m.name()
	}
	m.count++
	m.ops[m.current[i]]++
	return m.current[i], m.count
}

func (m *manager) add(o Op) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.Kind != "read" {
		m.tried++
	}
	if o.Outcome == "unknown" {
		if o.Kind == "read" {
			return // it says nothing
		}
		m.unknowns[o.Register]++
	}
	m.history = append(m.history, o)
}

// writer works on registers until ctx ends.
func (m *manager) writer(ctx context.Context, client int, r *rand.Rand) {
	nodes := m.load.cluster.Nodes
	for ctx.Err() == nil {
		o := Op{Client: client}
		o.Register, o.Value = m.choose(r)
		o.Kind = []string{"create", "update", "update", "update", "delete", "read", "read", "read", "read"}[r.IntN(9)]
		n := nodes[r.IntN(len(nodes))]
		again := nodes[r.IntN(len(nodes))]
		if r.IntN(2) == 0 {
			again = nil
		}
		m.add(m.operate(ctx, n, again, o))
		sleep(ctx, time.Duration(r.ExpFloat64()*float64(60*time.Millisecond)))
	}
}

// operate does o on n. If its outcome is unknown it is repeated once on again,
// with the same Idempotency-Key.
func (m *manager) operate(ctx context.Context, n, again *harness.Node, o Op) Op {
	since := m.load.since
	o.Node, o.Call = n.ID, since()
	if o.Kind == "read" {
		o.Value, o.Outcome = read(ctx, n, o.Register)
		o.End = since()
		return o
	}
	header := map[string][]string{"Idempotency-Key": {fmt.Sprintf("%s-%d", o.Register, o.Value)}}
	o.Outcome, o.Why = write(ctx, n, o, header)
	if o.Outcome == "unknown" && again != nil {
		o.Node += "+" + again.ID
		outcome, why := write(ctx, again, o, header)
		o.Why += "; " + why
		if outcome != "failed" {
			o.Outcome = outcome
		}
	}
	o.End = since()
	return o
}

func write(ctx context.Context, n *harness.Node, o Op, header map[string][]string) (outcome, why string) {
	path, body := "/key/generate", map[string]any{"key": o.Register, "metadata": map[string]any{"v": o.Value}}
	switch o.Kind {
	case "update":
		path = "/key/update"
	case "delete":
		path, body = "/key/delete", map[string]any{"keys": []string{o.Register}}
	}
	r, err := n.Admin().Do(within(context.WithoutCancel(ctx), patience), "POST", path, body, header)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "failed", err.Error()
	case err != nil:
		return "unknown", err.Error()
	case r.Status == 200:
		return "ok", ""
	case r.Status == 404, r.Status == 409 && o.Kind == "create":
		return "refused", ""
	}
	why = fmt.Sprintf("%d %s", r.Status, r.ErrorMessage())
	if r.Status == 503 && !strings.Contains(string(r.Body), "outcome_unknown") {
		return "failed", why
	}
	return "unknown", why
}

// read returns the register's value as the node shows it. A node that could not
// ask the leader promises nothing: "failed".
func read(ctx context.Context, n *harness.Node, register string) (int64, string) {
	r, err := n.Admin().Get(within(context.WithoutCancel(ctx), patience), "/key/info?key="+register)
	if err != nil || r.Header.Get("X-Sluice-Stale") != "" {
		return 0, "failed"
	}
	var body struct {
		Info struct {
			Metadata struct {
				V int64 `json:"v"`
			} `json:"metadata"`
		} `json:"info"`
	}
	switch {
	case r.Status == 404:
		return 0, "ok"
	case r.Status == 200 && json.Unmarshal(r.Body, &body) == nil:
		return body.Info.Metadata.V, "ok"
	}
	return 0, "failed"
}

// freshKeys makes keys with small limits, each of which is asked for at once by
// far too many on all nodes, until ctx ends.
func (m *manager) freshKeys(ctx context.Context, r *rand.Rand) {
	nodes := m.load.cluster.Nodes
	for i := 0; ctx.Err() == nil; i++ {
		limit := []int64{1, 2, 5, 10}[r.IntN(4)]
		k := KeyPlan{Name: fmt.Sprintf("fresh%d", i), RPM: limit, Models: []string{"wide"}}
		made, err := nodes[r.IntN(len(nodes))].Admin().CreateKey(within(context.WithoutCancel(ctx), patience),
			harness.KeySpec{Secret: fmt.Sprintf("sk-fresh-%d-%d", m.load.plan.Seed, i), RPM: &limit})
		m.mu.Lock()
		m.tried++
		m.mu.Unlock()
		if err == nil {
			m.load.know(k, made.Secret)
			m.load.burst(ctx, k.Name, "wide", int(2*limit)+len(nodes))
		}
		sleep(ctx, time.Duration(400+r.IntN(600))*time.Millisecond)
	}
}
