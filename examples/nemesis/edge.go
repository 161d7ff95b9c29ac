package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"sluice/examples/harness"
)

const (
	edgeLimit = 40
	edgeLead  = time.Second // of steady demand before the window ends
	edgeEvery = 40 * time.Millisecond
)

// edges attacks the end of a window: a key's window is opened with one request,
// nodes are made to hold permits by steady demand shortly before it ends, and
// then far too many requests come at the start of the next one. A permit that
// outlives its window, in a node that was stopped perhaps, is one too many then.
func (m *manager) edges(ctx context.Context, r *rand.Rand) {
	l, nodes := m.load, m.load.cluster.Nodes
	for i := 0; ctx.Err() == nil; i++ {
		limit := int64(edgeLimit)
		k := KeyPlan{Name: fmt.Sprintf("edge%d", i), RPM: limit, Models: []string{"wide"}}
		made, err := nodes[r.IntN(len(nodes))].Admin().CreateKey(within(context.WithoutCancel(ctx), patience),
			harness.KeySpec{Secret: fmt.Sprintf("sk-edge-%d-%d", l.plan.Seed, i), RPM: &limit})
		if err != nil {
			sleep(ctx, 500*time.Millisecond)
			continue
		}
		l.know(k, made.Secret)
		l.send(ctx, nodes[r.IntN(len(nodes))], k.Name, "wide", false)
		end := time.Now().Add(l.plan.Window)
		sleep(ctx, time.Until(end)-edgeLead)
		var steady sync.WaitGroup
		for j := 0; time.Now().Before(end) && j < edgeLimit/2 && ctx.Err() == nil; j++ {
			steady.Go(func() { l.send(ctx, nodes[j%len(nodes)], k.Name, "wide", false) })
			sleep(ctx, edgeEvery)
		}
		sleep(ctx, time.Until(end.Add(30*time.Millisecond)))
		if ctx.Err() == nil {
			l.burst(ctx, k.Name, "wide", 2*edgeLimit)
		}
		steady.Wait()
	}
}
