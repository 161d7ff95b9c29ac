package main

import (
	"context"
	"time"

	"sluice/limiter"
)

// The leader tells the ledger which nodes are silent, so that the concurrency
// slots of a dead one do not refuse requests until it is started again.
const (
	listenEvery = 250 * time.Millisecond
	// silentAfter is longer than a pause that a node survives: by then a node
	// that is cut off has stopped to admit (limiter.DefaultPatience). With an
	// election before it and a look after it, it ends within five seconds.
	silentAfter = 3 * time.Second
)

// silence remembers since when nodes have not answered.
type silence map[string]time.Time

// heard notes at now who answers, and returns the process runs whose state in
// the ledger has to change.
func (s silence) heard(now time.Time, answers map[string]bool, runs []limiter.SessionInfo) (changes []limiter.SessionInfo) {
	for _, run := range runs {
		if answers[run.Node] {
			delete(s, run.Node)
		} else if _, ok := s[run.Node]; !ok {
			s[run.Node] = now
		}
		since, quiet := s[run.Node]
		silent := quiet && now.Sub(since) >= silentAfter
		// Between the two nothing is known for sure, and nothing changes.
		if silent != run.Silent && silent == quiet {
			run.Silent = silent
			changes = append(changes, run)
		}
	}
	return changes
}

// watchSilence starts the listening, which this node does while it leads.
func (a *app) watchSilence(context.Context) error {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s := silence{}
		for sleep(ctx, listenEvery) == nil {
			if a.node.Status().State != "leader" {
				clear(s) // what this node knows from an earlier term is too old
				continue
			}
			a.tellSilence(ctx, s)
		}
	}()
	a.cleanup.add("stop listening for silent nodes", func(context.Context) error {
		cancel()
		<-done
		return nil
	})
	return nil
}

// tellSilence asks every member how it is and writes down what has changed.
func (a *app) tellSilence(ctx context.Context, s silence) {
	ctx, cancel := context.WithTimeout(ctx, silentAfter)
	defer cancel()
	answers := map[string]bool{}
	for _, m := range a.node.Members(ctx) {
		answers[m.ID] = m.Reachable
	}
	for _, run := range s.heard(time.Now(), answers, a.state.Sessions()) {
		// A leader that fails to write this is followed by one that will.
		if err := a.client.SetSilent(ctx, run.Node, run.Epoch, run.Silent); err != nil {
			a.logger.Debug("a node's silence could not be written down", "member", run.Node, "error", err)
			continue
		}
		if run.Silent {
			a.logger.Warn("a node does not answer; its requests in flight count no more", "member", run.Node)
		} else {
			a.logger.Info("a node answers again; its requests in flight count", "member", run.Node)
		}
	}
}
