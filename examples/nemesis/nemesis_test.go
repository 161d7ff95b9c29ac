package main

import (
	"flag"
	"path/filepath"
	"testing"
	"time"

	"sluice/examples/harness"
)

var short = flag.Duration("nemesis", 7*time.Second, "how long each seed of the short run is under load")

// A seed of every kind, one after the other: real processes with real elections
// get the machine for themselves. `make nemesis` is the long run.
func TestAFewSeeds(t *testing.T) {
	bin, err := harness.Build(t.Context(), t.TempDir(), "nemesis")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range profiles {
		t.Run(f.name, func(t *testing.T) {
			seed := uint64(1)
			for newPlan(seed, *short, "deny").Profile != f.name {
				seed++
			}
			p := newPlan(seed, *short, "deny")
			s := Setup{Binary: bin, Dir: filepath.Join(dir, f.name)}
			facts, err := run(t.Context(), p, s)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range check(facts) {
				t.Errorf("%s\nagain: go run ./examples/nemesis -seed %d -duration %s", v, seed, *short)
			}
			t.Logf("seed %d: %d requests, %d executed, %d operations on registers", seed, len(facts.Sent), len(facts.Executed), len(facts.History))
			if len(facts.Executed) == 0 || len(facts.History) == 0 {
				t.Error("nothing happened")
			}
		})
	}
}
