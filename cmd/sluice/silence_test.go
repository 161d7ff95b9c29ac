package main

import (
	"testing"
	"time"

	"sluice/limiter"
)

func TestANodeIsSilentAfterAWhileAndBackAtOnce(t *testing.T) {
	start := time.Unix(1000, 0)
	s := silence{}
	runs := []limiter.SessionInfo{{Node: "n1", Epoch: 1}, {Node: "n2", Epoch: 2}, {Node: "removed", Epoch: 3, Silent: true}}
	for _, step := range []struct {
		name    string
		after   time.Duration
		n2      bool
		changed bool
	}{
		{"it answers", 0, true, false},
		{"a pause begins", time.Second, false, false},
		{"the pause ends", 3900 * time.Millisecond, true, false},
		{"another begins", 7 * time.Second, false, false},
		{"and lasts", 9900 * time.Millisecond, false, false},
		{"too long", 10 * time.Second, false, true},
		{"still", 11 * time.Second, false, false},
		{"it is back", 12 * time.Second, true, true},
		{"and stays", 13 * time.Second, true, false},
	} {
		changes := s.heard(start.Add(step.after), map[string]bool{"n1": true, "n2": step.n2}, runs)
		if got := len(changes) > 0; got != step.changed || len(changes) > 1 {
			t.Fatalf("%s: changes are %+v", step.name, changes)
		}
		for _, c := range changes {
			if c.Node != "n2" || c.Epoch != 2 || c.Silent == runs[1].Silent {
				t.Fatalf("%s: changed %+v", step.name, c)
			}
			runs[1] = c
		}
	}
}
