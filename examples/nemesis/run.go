package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

// Setup is what a run needs of the machine.
type Setup struct {
	Binary string // built with the tag nemesis
	Dir    string // for the nodes' files and logs; it must not exist
	Ports  [2]int
}

// healing is how long the cluster may take to be well after the last fault.
const healing = 45 * time.Second

// run plays a plan and returns what it left behind. An error means that the
// run could not be made, not that a promise was broken.
func run(ctx context.Context, p Plan, s Setup) (*Facts, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory for the run: %w", err)
	}
	journal, err := os.Create(filepath.Join(s.Dir, "nemesis.log"))
	if err != nil {
		return nil, fmt.Errorf("make a journal: %w", err)
	}
	defer journal.Close()
	epoch := time.Now()
	var writing sync.Mutex
	note := func(format string, args ...any) {
		writing.Lock()
		defer writing.Unlock()
		fmt.Fprintf(journal, "%s %8.3f %s\n", time.Now().Format("15:04:05.000"), time.Since(epoch).Seconds(), fmt.Sprintf(format, args...))
	}
	up, err := upstream.Start(upstream.Options{Keep: 200_000})
	if err != nil {
		return nil, err
	}
	defer up.Close()
	for _, m := range p.Models {
		up.Play(upstream.Match{Model: m.Name}, upstream.Step{Times: upstream.Forever, DelayMS: m.DelayMS})
	}
	var d *disturber
	c, err := harness.Start(ctx, harness.Options{
		Nodes: p.Nodes, Config: p.toml(up.URL(), 0), Binary: s.Binary, Dir: s.Dir, Ports: s.Ports,
		Env: []string{"SLUICE_NEMESIS=" + faultFileName, "UPSTREAM_KEY=sk-provider"},
		Prepared: func(c *harness.Cluster) (err error) {
			d, err = newDisturber(c, note)
			return err
		},
	})
	if d != nil {
		defer d.links.close()
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r := &runner{plan: p, cluster: c, disturber: d, up: up, note: note, epoch: epoch}
	r.load = &load{plan: &r.plan, cluster: c, since: func() time.Duration { return time.Since(epoch) },
		sent: map[string]Sent{}, keys: map[string]KeyPlan{}, secrets: map[string]string{}}
	r.manager, r.watcher = newManager(r.load), &watcher{epoch: epoch}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	r.play(ctx)
	r.settle(ctx)
	return r.facts(), ctx.Err()
}

type runner struct {
	plan      Plan
	cluster   *harness.Cluster
	disturber *disturber
	up        *upstream.Server
	load      *load
	manager   *manager
	watcher   *watcher
	note      func(string, ...any)
	epoch     time.Time

	mu       sync.Mutex
	troubles []string
	end      Facts // what is looked at when all is quiet
}

func (r *runner) trouble(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	r.troubles = append(r.troubles, text)
	r.note("TROUBLE %s", text)
}

// again repeats what a lost leader may refuse before anything is disturbed. What
// an attempt without an answer has made is in nobody's way.
func again[T any](ctx context.Context, do func() (T, error)) (made T, err error) {
	for range 10 {
		if made, err = do(); err == nil || ctx.Err() != nil {
			break
		}
		sleep(ctx, 500*time.Millisecond)
	}
	return made, err
}

// prepare makes the teams and keys of the plan.
func (r *runner) prepare(ctx context.Context) error {
	admin := r.cluster.Nodes[0].Admin()
	teams := map[string]string{}
	for _, t := range r.plan.Teams {
		id, err := again(ctx, func() (string, error) { return admin.CreateTeam(ctx, harness.TeamSpec{RPM: &t.RPM}) })
		if err != nil {
			return err
		}
		teams[t.Name] = id
	}
	for _, k := range r.plan.Keys {
		spec := harness.KeySpec{TeamID: teams[k.Team], Priority: k.Priority}
		if k.RPM > 0 {
			spec.RPM = &k.RPM
		}
		if k.MaxParallel > 0 {
			spec.MaxParallel = &k.MaxParallel
		}
		if len(k.ModelRPM) > 0 {
			spec.Metadata = map[string]any{"model_rpm_limit": k.ModelRPM}
		}
		made, err := again(ctx, func() (harness.Key, error) { return admin.CreateKey(ctx, spec) })
		if err != nil {
			return err
		}
		r.load.know(k, made.Secret)
	}
	return nil
}

// play runs load, writers and faults for the plan's time.
func (r *runner) play(ctx context.Context) {
	p := &r.plan
	loaded, stop := context.WithTimeout(ctx, p.Duration)
	defer stop()
	var wg sync.WaitGroup
	source := func(n int) *rand.Rand { return rand.New(rand.NewPCG(p.Seed, uint64(n))) }
	for i := range p.Workers {
		wg.Go(func() { r.load.worker(loaded, source(i)) })
	}
	for i := range 3 {
		wg.Go(func() { r.manager.writer(loaded, i, source(100+i)) })
	}
	for _, n := range r.cluster.Nodes {
		wg.Go(func() { r.watcher.watch(loaded, n) })
	}
	wg.Go(func() { r.manager.freshKeys(loaded, source(200)) })
	if !p.OneWindow {
		wg.Go(func() { r.manager.edges(loaded, source(300)) })
	}
	began := time.Now()
	for _, track := range p.tracks() {
		wg.Go(func() {
			for _, f := range track {
				sleep(loaded, time.Until(began.Add(f.At)))
				if loaded.Err() != nil {
					return
				}
				if err := r.disturber.do(loaded, f); err != nil {
					r.trouble("%s: %v", f, err)
				}
			}
		})
	}
	wg.Go(func() {
		for i, x := range p.Reloads {
			sleep(loaded, time.Until(began.Add(x.At)))
			r.reload(i, x)
		}
	})
	wg.Wait()
}

// tracks parts the faults into rows that are carried out one after the other:
// those of processes, of the network and of disks do not wait for each other.
func (p *Plan) tracks() [][]Fault {
	kinds := [][]string{
		{"kill", "restart", "term", "roll", "killall", "pause", "transfer", "clock"},
		{"isolate", "cut", "oneway", "deaf", "split", "flap", "lag"},
		{"slow"},
	}
	var all [][]Fault
	for _, k := range kinds {
		all = append(all, slices.DeleteFunc(slices.Clone(p.Faults), func(f Fault) bool { return !slices.Contains(k, f.Kind) }))
	}
	return all
}

// reload gives every node the new file, and has one of them read it.
func (r *runner) reload(i int, x Reload) {
	text := r.plan.toml(r.up.URL(), i+1)
	r.note("reload %+v", x)
	for j, n := range r.cluster.Nodes {
		err := n.Rewrite(text)
		if err == nil && j == x.Node {
			err = n.Hangup()
		}
		if err != nil && !errors.Is(err, harness.ErrNotRunning) {
			r.trouble("reload: %v", err)
		}
	}
}

// settle heals everything, waits until the cluster is well, and looks at it.
func (r *runner) settle(ctx context.Context) {
	r.note("healing")
	if err := r.disturber.heal(); err != nil {
		r.trouble("heal: %v", err)
	}
	for _, n := range r.disturber.endedByThemselves() {
		r.trouble("%s ended by itself:\n%s", n.ID, n.LogTail(15))
	}
	for _, n := range r.cluster.Nodes {
		if n.Running() {
			_ = n.Resume()
			continue
		}
		if err := n.Start(); err != nil {
			r.trouble("%v", err)
		}
	}
	began := time.Now()
	if err := r.cluster.Ready(ctx, healing); err != nil {
		r.trouble("not well after %s: %v", healing, err)
		return
	}
	r.note("well after %s", time.Since(began))
	r.look(ctx)
}

// facts gathers everything.
func (r *runner) facts() *Facts {
	f := r.end
	f.Plan, f.Troubles = r.plan, r.troubles
	r.load.mu.Lock()
	defer r.load.mu.Unlock()
	f.Keys, f.Sent = r.load.keys, r.load.sent
	f.Executed = executed(r.up, r.epoch)
	f.History, f.Windows = r.manager.history, r.watcher.seen
	return &f
}
