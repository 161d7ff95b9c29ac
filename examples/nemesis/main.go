// Command nemesis plays seeded faults against clusters of real processes and
// checks afterwards what the README promises.
//
//	go run ./examples/nemesis -seeds 20 -duration 30s -parallel 2
//	go run ./examples/nemesis -seed 17        # one seed again
//
// A seed decides the size of the cluster, its limits, keys and demand, and what
// is done to it: kill -9, SIGSTOP, restarts, partitions, slow disks, clocks that
// are set, leaders that hand over, limits that change. How that meets the
// machine's own timing is not decided, so that a seed may need several runs to
// fail again.
//
// What is checked is the provider's own record of what it executed, and what
// the healed cluster shows. See facts.go for what is recorded and check for the
// list of invariants; windows.go says how a limit is judged without knowing
// where its windows begin. This package must not know how sluice works inside.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"sluice/examples/harness"
)

type options struct {
	seed, first     uint64
	seeds, parallel int
	duration        time.Duration
	mode, profile   string
	bin, dir, ports string
	facts           string
	keep            bool
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 0, "play this seed only")
	flag.Uint64Var(&o.first, "first", 1, "the first of the seeds")
	flag.IntVar(&o.seeds, "seeds", 20, "how many seeds to play")
	flag.IntVar(&o.parallel, "parallel", max(runtime.NumCPU()-1, 1), "how many at a time")
	flag.DurationVar(&o.duration, "duration", 30*time.Second, "how long each is under load")
	flag.StringVar(&o.mode, "mode", "", "limits.on_no_quorum (default: deny for even seeds, share for odd ones)")
	flag.StringVar(&o.profile, "profile", "", "only seeds of this profile (calm, process, network, disk, all, clock)")
	flag.StringVar(&o.bin, "bin", "", "a binary built with -tags nemesis (default: built now)")
	flag.StringVar(&o.dir, "dir", "", "where logs go (default: a temporary directory)")
	flag.StringVar(&o.ports, "ports", "20000-32000", "ports that nodes may have")
	flag.BoolVar(&o.keep, "keep", false, "keep the logs of seeds that pass")
	flag.StringVar(&o.facts, "facts", "", "judge this facts.json of an earlier run again, and play nothing")
	flag.Parse()
	if o.facts != "" {
		if err := judgeAgain(o.facts); err != nil {
			fmt.Fprintln(os.Stderr, "nemesis:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed, err := play(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "nemesis:", err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

// play runs the seeds that the options choose and returns how many failed.
func play(ctx context.Context, o options) (failed int, err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "sluice-nemesis-"); err != nil {
			return 0, fmt.Errorf("make a directory: %w", err)
		}
	}
	for _, path := range []*string{&o.dir, &o.bin} { // nodes run elsewhere
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return 0, err
			}
		}
	}
	var low, high int
	if _, err := fmt.Sscanf(o.ports, "%d-%d", &low, &high); err != nil {
		return 0, fmt.Errorf("-ports %q: use LOW-HIGH", o.ports)
	}
	if o.bin == "" {
		if o.bin, err = harness.Build(ctx, o.dir, "nemesis"); err != nil {
			return 0, err
		}
	}
	plans := make(chan Plan)
	go func() {
		defer close(plans)
		for seed, left := o.first, o.seeds; left > 0; seed++ {
			if o.seed != 0 {
				seed, left = o.seed, 1
			}
			p := newPlan(seed, o.duration, o.mode)
			if o.profile != "" && p.Profile != o.profile && o.seed == 0 {
				continue
			}
			left--
			select {
			case plans <- p:
			case <-ctx.Done():
				return
			}
		}
	}()
	var sum summary
	var lanes sync.WaitGroup
	width := (high - low + 1) / max(o.parallel, 1)
	for lane := range o.parallel {
		lanes.Go(func() {
			for p := range plans {
				s := Setup{Binary: o.bin, Dir: filepath.Join(o.dir, fmt.Sprintf("seed-%d", p.Seed)),
					Ports: [2]int{low + lane*width, low + (lane+1)*width - 1}}
				began := time.Now()
				f, err := run(ctx, p, s)
				if ctx.Err() != nil {
					return
				}
				sum.add(p, s, f, err, time.Since(began), o.keep)
			}
		})
	}
	lanes.Wait()
	sum.print()
	if sum.failed == 0 && !o.keep {
		err = os.RemoveAll(o.dir)
	}
	return sum.failed, errors.Join(ctx.Err(), err)
}

// summary adds up what was played. Any goroutine may add.
type summary struct {
	mu                                sync.Mutex
	seeds, failed                     int
	requests, admitted, refused, lost int
	writes, ops                       int
	faults                            map[string]int
	profiles                          map[string]int
	worst                             float64
	worstSeed                         uint64
}

func (s *summary) add(p Plan, setup Setup, f *Facts, err error, took time.Duration, keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults == nil {
		s.faults, s.profiles, s.worst = map[string]int{}, map[string]int{}, 1
	}
	s.seeds++
	s.profiles[p.Profile]++
	var broken []string
	if err != nil {
		broken = append(broken, err.Error())
	} else {
		s.count(p, f)
		for _, v := range check(f) {
			broken = append(broken, v.String())
		}
	}
	fmt.Printf("seed %-5d %-8s %d nodes window %-5s %6.1fs: ", p.Seed, p.Profile, p.Nodes, p.Window, took.Seconds())
	if f != nil && (keep || len(broken) > 0) {
		if err := save(filepath.Join(setup.Dir, "facts.json"), f); err != nil {
			broken = append(broken, err.Error())
		}
	}
	if len(broken) == 0 {
		fmt.Printf("ok, %d requests, %d executed, %d operations on registers\n", len(f.Sent), len(f.Executed), len(f.History))
		if !keep {
			_ = os.RemoveAll(setup.Dir) // what is left is a nuisance, no fault
		}
		return
	}
	s.failed++
	fmt.Printf("FAILED\n")
	for _, b := range broken {
		fmt.Printf("  %s\n", b)
	}
	fmt.Printf("  logs: %s\n  again: go run ./examples/nemesis -seed %d -duration %s -mode %s\n", setup.Dir, p.Seed, p.Duration, p.Mode)
}

func (s *summary) count(p Plan, f *Facts) {
	for _, x := range p.Faults {
		s.faults[x.Kind]++
	}
	s.faults["reload"] += len(p.Reloads)
	s.requests += len(f.Sent)
	s.admitted += len(f.Executed)
	for _, x := range f.Sent {
		switch x.Status {
		case 200:
		case 429:
			s.refused++
		default:
			s.lost++
		}
	}
	for _, o := range f.History {
		s.ops++
		if o.Kind != "read" && o.Outcome == "ok" {
			s.writes++
		}
	}
	for _, m := range p.Models {
		if ratio, ok := fill(f, m); ok && p.Profile == "calm" && ratio < s.worst {
			s.worst, s.worstSeed = ratio, p.Seed
		}
	}
}

// fill says how full windows were at least where nothing disturbed them.
func (s *summary) fill() string {
	if s.profiles["calm"] == 0 {
		return "fill without faults: no calm seed"
	}
	return fmt.Sprintf("worst fill without faults %.3f (seed %d)", s.worst, s.worstSeed)
}

func (s *summary) print() {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := func(m map[string]int) string {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(m)) {
			parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
		}
		return strings.Join(parts, ", ")
	}
	fmt.Printf("\n%d seeds, %d failed (%s)\n%d requests: %d executed, %d refused, %d without either; %d acknowledged writes, %d operations judged\nfaults: %s\n%s\n",
		s.seeds, s.failed, list(s.profiles), s.requests, s.admitted, s.refused, s.lost, s.writes, s.ops, list(s.faults), s.fill())
}
