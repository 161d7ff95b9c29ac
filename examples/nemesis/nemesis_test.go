package main

import (
	"flag"
	"os"
	"testing"
	"time"

	"sluice/examples/harness"
)

var short = flag.Duration("nemesis", 7*time.Second, "how long each seed of the short run is under load")

// A seed of every kind. `make nemesis` is the long run.
func TestAFewSeeds(t *testing.T) {
	bin, err := harness.Build(t.Context(), t.TempDir(), "nemesis")
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range profiles {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(1)
			for newPlan(seed, *short, "").Profile != f.name || seed%2 != uint64(i%2) {
				seed++
			}
			dir, err := os.MkdirTemp("", "sluice-nemesis-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("logs: %s\nagain: go run ./examples/nemesis -seed %d -duration %s", dir, seed, *short)
				} else if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			})
			ports := [2]int{20_000 + 2000*i, 21_999 + 2000*i}
			facts, err := run(t.Context(), newPlan(seed, *short, ""), Setup{Binary: bin, Dir: dir, Ports: ports})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range check(facts) {
				t.Error(v)
			}
			t.Logf("seed %d: %d requests, %d executed, %d operations on registers", seed, len(facts.Sent), len(facts.Executed), len(facts.History))
			if len(facts.Executed) == 0 || len(facts.History) == 0 {
				t.Error("nothing happened")
			}
		})
	}
}
