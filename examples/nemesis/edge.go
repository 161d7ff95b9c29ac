package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
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
		sleep(ctx, time.Until(end.Add(l.plan.stretch()+50*time.Millisecond)))
		if ctx.Err() == nil {
			l.burst(ctx, k.Name, "wide", 2*edgeLimit)
		}
		steady.Wait()
	}
}

// checkEdges judges those keys exactly. The first window begins after the first
// request was sent and before the first was executed. So what was sent after it
// must be over, and executed before the second one can be, lies in the second.
func checkEdges(f *Facts) []Violation {
	if f.Plan.OneWindow {
		return nil
	}
	type key struct {
		sent, executed time.Duration // of the first request
		all            []admission
	}
	keys := map[string]*key{}
	for _, s := range f.Sent {
		if !strings.HasPrefix(s.Key, "edge") {
			continue
		}
		k := keys[s.Key]
		if k == nil {
			k = &key{sent: s.At}
			keys[s.Key] = k
		}
		k.sent = min(k.sent, s.At)
	}
	for _, e := range f.Executed {
		if k := keys[f.Sent[e.ID].Key]; k != nil {
			if len(k.all) == 0 || e.At < k.executed {
				k.executed = e.At
			}
			k.all = append(k.all, admission{ID: e.ID, Sent: f.Sent[e.ID].At, Arrived: e.At})
		}
	}
	var found []Violation
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		k := keys[name]
		over, next := k.executed+f.Plan.Window+f.Plan.stretch(), k.sent+2*f.Plan.Window-clockSlack
		inside := []string{}
		for _, a := range k.all {
			if a.Sent >= over && a.Arrived < next {
				inside = append(inside, fmt.Sprintf("%s sent %s executed %s", a.ID, a.Sent, a.Arrived))
			}
		}
		limit := bound(f.Plan.Mode, f.Keys[name].RPM, f.alone(), f.Plan.Nodes)
		if int64(len(inside)) > limit {
			found = append(found, violated("admitted ≤ limit", "key %s, first window from %s to %s: %d of %d were executed in the second:\n%s",
				name, k.sent, over, len(inside), limit, lines(inside)))
		}
	}
	return found
}
