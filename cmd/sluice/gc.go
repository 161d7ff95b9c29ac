package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapRoom is what the heap may grow by between two collections, as far as
	// mostGC allows. A node with few keys has a live heap of a few MiB, which at
	// thousands of requests a second Go's default collects dozens of times in each.
	heapRoom  = 64 << 20 // bytes
	defaultGC = 100      // percent, Go's own
	mostGC    = 400      // percent: what is live can multiply between two looks at it
	gcCheck   = time.Second
)

// gcPercent returns how much garbage there may be, in percent of the live heap:
// heapRoom for a small one, Go's default for a large one.
func gcPercent(live uint64) int {
	if live == 0 { // nothing was collected yet: not known
		return defaultGC
	}
	return int(min(max(defaultGC, heapRoom*100/live), mostGC))
}

// tendGC keeps the collector at gcPercent until ctx ends. Who sets GOGC decides
// himself.
func tendGC(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(gcCheck)
	defer tick.Stop()
	for set := defaultGC; ; {
		metrics.Read(sample)
		// To set it stops the world: not for a trifle.
		if want := gcPercent(sample[0].Value.Uint64()); want > set*5/4 || want < set*4/5 {
			set = want
			debug.SetGCPercent(set)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
