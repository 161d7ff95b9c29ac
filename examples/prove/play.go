package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

const patience = 30 * time.Second // for a leader and for a restart

// player sends the demand. Many goroutines note what came of their requests.
type player struct {
	up *upstream.Server

	mu   sync.Mutex
	out  outcome
	dead *harness.Node // killed and not ready again
}

// play sends the demand, each node's part at a steady pace, and kills and
// restarts the leader when the provider has counted half of the limit.
func play(ctx context.Context, c *harness.Cluster, up *upstream.Server) (outcome, error) {
	p := &player{up: up}
	var wg sync.WaitGroup
	for i, n := range c.Nodes {
		wg.Go(func() { p.send(ctx, n, demand*parts[i]/10) })
	}
	err := p.killLeader(ctx, c)
	wg.Wait()
	p.out.served = up.Count(modelName)
	return p.out, errors.Join(err, ctx.Err())
}

// send starts count requests at a steady pace and waits for all the answers.
func (p *player) send(ctx context.Context, n *harness.Node, count int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(spread / time.Duration(count))
	defer tick.Stop()
	for range count {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		wg.Go(func() {
			before := p.isDead(n)
			r, err := n.Admin().Chat(ctx, modelName)
			p.note(r, err, before || p.isDead(n))
		})
	}
}

func (p *player) isDead(n *harness.Node) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead == n
}

func (p *player) note(r *harness.Reply, err error, dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.sent++
	why := ""
	switch {
	case err != nil:
		why = err.Error()
	case r.Status == http.StatusOK:
		return
	case r.Status == http.StatusTooManyRequests:
		p.out.refused++
		return
	default:
		why = fmt.Sprintf("status %d: %.200s", r.Status, r.Body)
	}
	if dead {
		p.out.lost++
		return
	}
	p.out.failures++
	if p.out.first == "" {
		p.out.first = why
	}
}

// killLeader waits for half of the limit, kills the leader and starts it again.
func (p *player) killLeader(ctx context.Context, c *harness.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for p.up.Count(modelName) < limit/2 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until half of the limit is served: %w", ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.dead = leader
	p.out.killed = fmt.Sprintf("%s, when %d were served; started again at once", leader.ID, p.up.Count(modelName))
	p.mu.Unlock()
	if err := leader.Kill(); err != nil {
		return err
	}
	if err := leader.Start(); err != nil {
		return err
	}
	if err := leader.Ready(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = nil
	return nil
}
