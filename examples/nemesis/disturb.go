package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sluice/examples/harness"
)

// faultFile is what the build with the tag nemesis reads (cmd/sluice).
type faultFile struct {
	Dial          map[string]string `json:"dial"`
	WriteDelayMS  int64             `json:"write_delay_ms"`
	ClockOffsetMS int64             `json:"clock_offset_ms"`
}

const faultFileName = "faults.json"

// disturber carries out faults. The tracks call it side by side.
type disturber struct {
	cluster *harness.Cluster
	links   *links
	note    func(format string, args ...any)

	mu    sync.Mutex
	files []faultFile
	down  map[int]bool // meant to be down
}

func newDisturber(c *harness.Cluster, note func(string, ...any)) (*disturber, error) {
	addrs := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		addrs[i] = n.ClusterAddr
	}
	l, err := openLinks(addrs)
	if err != nil {
		return nil, err
	}
	d := &disturber{cluster: c, links: l, note: note, files: make([]faultFile, len(addrs)), down: map[int]bool{}}
	for i := range d.files {
		d.files[i].Dial = l.dialMap(i)
		if err := d.write(i, func(*faultFile) {}); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	return d, nil
}

// write changes a node's fault file, whole at every moment.
func (d *disturber) write(i int, change func(*faultFile)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.files[i])
	text, err := json.Marshal(d.files[i])
	if err != nil {
		return fmt.Errorf("encode faults: %w", err)
	}
	path := filepath.Join(d.cluster.Nodes[i].Dir(), faultFileName)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return fmt.Errorf("write faults: %w", err)
	}
	return os.Rename(path+".new", path)
}

// target returns the node that a fault is meant for: its own, or the leader
// that some node names; node 0 if none does.
func (d *disturber) target(ctx context.Context, f Fault) int {
	if f.Node >= 0 {
		return f.Node
	}
	for _, n := range d.cluster.Nodes {
		if !n.Running() {
			continue
		}
		s, err := status(ctx, n, false)
		if err != nil || s.Leader == nil {
			continue
		}
		for j, m := range d.cluster.Nodes {
			if m.ID == s.Leader.ID {
				return j
			}
		}
	}
	return 0
}

// do carries out one fault and returns when it is over.
func (d *disturber) do(ctx context.Context, f Fault) error {
	at := d.target(ctx, f)
	n := d.cluster.Nodes[at]
	d.note("%s → %s", f, n.ID)
	defer d.note("%s ends", f.Kind)
	others := make([]int, 0, len(d.cluster.Nodes))
	for i := range d.cluster.Nodes {
		if i != at {
			others = append(others, i)
		}
	}
	self := []int{at}
	held := func(s *linkState) { s.held = true }
	switch f.Kind {
	case "kill", "restart":
		return d.stopped(ctx, at, f.For, (*harness.Node).Kill)
	case "term":
		return d.stopped(ctx, at, f.For, terminate)
	case "roll":
		return d.roll(ctx)
	case "killall":
		return d.killAll(ctx, f.For)
	case "pause":
		if err := n.Pause(); err != nil {
			return err
		}
		sleep(ctx, f.For)
		return n.Resume()
	case "transfer":
		_, err := n.Admin().Do(within(ctx, 3*time.Second), "POST", "/cluster/transfer", map[string]any{}, nil)
		if err != nil {
			d.note("transfer: %v", err) // a disturbed cluster may refuse
		}
		return nil
	case "slow":
		if err := d.write(at, func(x *faultFile) { x.WriteDelayMS = f.Size.Milliseconds() }); err != nil {
			return err
		}
		sleep(ctx, f.For)
		return d.write(at, func(x *faultFile) { x.WriteDelayMS = 0 })
	case "clock":
		return d.write(at, func(x *faultFile) { x.ClockOffsetMS = f.Size.Milliseconds() })
	case "isolate":
		d.links.apart(self, others, held)
	case "cut":
		d.links.apart(self, others, func(s *linkState) { s.cut = true })
	case "oneway": // it hears, and is not heard
		d.links.set(self, others, held)
	case "deaf": // it is heard, and does not hear
		d.links.set(others, self, held)
	case "split":
		minority := append(self, others[:(len(d.cluster.Nodes)-1)/2-1]...)
		d.links.apart(minority, others[(len(d.cluster.Nodes)-1)/2-1:], held)
	case "lag":
		d.links.apart(self, others, func(s *linkState) { s.delay = f.Size })
	case "flap":
		for end := time.Now().Add(f.For); time.Now().Before(end) && ctx.Err() == nil; {
			d.links.apart(self, others, held)
			sleep(ctx, f.Size)
			d.links.heal()
			sleep(ctx, f.Size)
		}
		return nil
	default:
		return fmt.Errorf("unknown fault %q", f.Kind)
	}
	sleep(ctx, f.For)
	d.links.heal()
	return nil
}

// stopped ends a process and starts it again after a while.
func (d *disturber) stopped(ctx context.Context, i int, pause time.Duration, stop func(*harness.Node) error) error {
	d.expect(i, true)
	defer d.expect(i, false)
	if err := stop(d.cluster.Nodes[i]); err != nil {
		return err
	}
	sleep(ctx, pause)
	return d.cluster.Nodes[i].Start()
}

func terminate(n *harness.Node) error {
	if err := n.Terminate(); err != nil {
		return err
	}
	code, err := n.Wait(within(context.Background(), 25*time.Second))
	if err == nil && code > 0 { // a process that only just starts is ended by the signal itself: -1
		err = fmt.Errorf("%s ended with %d after SIGTERM", n.ID, code)
	}
	return err
}

func (d *disturber) roll(ctx context.Context) error {
	for i, n := range d.cluster.Nodes {
		if err := d.stopped(ctx, i, 0, terminate); err != nil {
			return err
		}
		// A disturbed cluster need not become ready in this time.
		if err := n.Ready(within(ctx, 5*time.Second)); err != nil {
			d.note("roll: %s is not ready yet", n.ID)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

func (d *disturber) killAll(ctx context.Context, pause time.Duration) error {
	for i, n := range d.cluster.Nodes {
		d.expect(i, true)
		defer d.expect(i, false)
		if err := n.Kill(); err != nil && !errors.Is(err, harness.ErrNotRunning) {
			return err
		}
	}
	sleep(ctx, pause)
	for _, n := range d.cluster.Nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	return nil
}

// expect notes that a node is down because it was meant to be.
func (d *disturber) expect(i int, down bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down[i] = down
}

// endedByThemselves returns the nodes whose process is gone against the plan.
func (d *disturber) endedByThemselves() []*harness.Node {
	d.mu.Lock()
	defer d.mu.Unlock()
	var gone []*harness.Node
	for i, n := range d.cluster.Nodes {
		if !d.down[i] && !n.Running() {
			gone = append(gone, n)
		}
	}
	return gone
}

// heal ends every fault.
func (d *disturber) heal() error {
	d.links.heal()
	var errs []error
	for i := range d.cluster.Nodes {
		errs = append(errs, d.write(i, func(x *faultFile) { x.WriteDelayMS, x.ClockOffsetMS = 0, 0 }))
	}
	return errors.Join(errs...)
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// within is context.WithTimeout for a call whose end frees the timer soon enough.
func within(ctx context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d)
	context.AfterFunc(ctx, cancel)
	return ctx
}
