package main

import "testing"

func TestGCPercent(t *testing.T) {
	for _, c := range []struct {
		name string
		live uint64
		want int
	}{
		{"nothing collected yet", 0, 100},
		{"a tiny heap", 1 << 20, 400},
		{"a small heap has 64 MiB to grow", 32 << 20, 200},
		{"a heap as large as that", 64 << 20, 100},
		{"a large heap collects as Go does", 1 << 30, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := gcPercent(c.live); got != c.want {
				t.Errorf("gcPercent(%d) = %d, want %d", c.live, got, c.want)
			}
		})
	}
}
