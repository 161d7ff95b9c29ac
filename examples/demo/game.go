package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

// unlimited as a demand means: as much as it can get.
const unlimited = -1

// workers is the number of requests that each team has in flight, one per node.
const workers = nodes

// slack is what a team may be off by: tokens are recorded when an answer is
// complete, so what was in flight when a bound was reached is served beyond it.
// Its neighbour then finds that much less left of the model.
const slack = 2 * workers * tokensPerAnswer

// row is one window of the example; demands and figures are tokens.
type row struct {
	threshold        float64
	demandA, demandB int
	wantA, wantB     int
	quietB           bool // B must not see a single 429
}

// game plays rows against a cluster.
type game struct {
	cluster    *harness.Cluster
	up         *upstream.Server
	keyA, keyB string
	threshold  float64
}

// newGame makes the two teams and a key for each.
func newGame(ctx context.Context, c *harness.Cluster, up *upstream.Server) (*game, error) {
	g := &game{cluster: c, up: up, threshold: rows[0].threshold}
	admin := c.Nodes[0].Admin()
	for priority, key := range map[string]*string{"team_a": &g.keyA, "team_b": &g.keyB} {
		id, err := admin.CreateTeam(ctx, harness.TeamSpec{Alias: priority, Metadata: map[string]any{"priority": priority}})
		if err != nil {
			return nil, err
		}
		k, err := admin.CreateKey(ctx, harness.KeySpec{TeamID: id})
		if err != nil {
			return nil, err
		}
		*key = k.Secret
	}
	return g, nil
}

func (g *game) playAll(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "window  threshold  A demands  B demands   served A  served B   429s A  429s B   expected")
	var faults []error
	for i, r := range rows {
		if err := g.reconfigure(ctx, r.threshold); err != nil {
			return err
		}
		before := g.up.Count("")
		a, b, err := g.play(ctx, r)
		if err != nil {
			return err
		}
		fault := r.check(a, b, int(g.up.Count("")-before))
		mark := "ok"
		if fault != nil {
			mark = "WRONG"
			faults = append(faults, fmt.Errorf("window %d: %w", i+1, fault))
		}
		fmt.Fprintf(out, "%6d  %9.1f  %9s  %9s  %9d %9d  %7d %7d   %d / %d  %s\n",
			i+1, r.threshold, demand(r.demandA), demand(r.demandB), a.tokens(), b.tokens(), a.refused.Load(), b.refused.Load(), r.wantA, r.wantB, mark)
	}
	return errors.Join(faults...)
}

func demand(tokens int) string {
	switch tokens {
	case unlimited:
		return "> 100 %"
	case 0:
		return "nothing"
	}
	return fmt.Sprint(tokens)
}

// check compares what the teams were served with what the example says, and
// with what the provider executed.
func (r row) check(a, b *team, executed int) error {
	var errs []error
	if got := a.tokens(); got < r.wantA-slack || got > r.wantA+slack {
		errs = append(errs, fmt.Errorf("team A was served %d tokens, want %d ± %d", got, r.wantA, slack))
	}
	if got := b.tokens(); got < r.wantB-slack || got > r.wantB+slack {
		errs = append(errs, fmt.Errorf("team B was served %d tokens, want %d ± %d", got, r.wantB, slack))
	}
	if n := b.refused.Load(); r.quietB && n > 0 {
		errs = append(errs, fmt.Errorf("team B stays below its share and was still refused %d times", n))
	}
	if served := int(a.served.Load() + b.served.Load()); served != executed {
		errs = append(errs, fmt.Errorf("%d requests were answered, but the provider executed %d", served, executed))
	}
	return errors.Join(errs...)
}

// reconfigure changes the threshold on the running cluster.
func (g *game) reconfigure(ctx context.Context, threshold float64) error {
	if threshold == g.threshold {
		return nil
	}
	g.threshold = threshold
	return g.cluster.Nodes[0].ApplyConfig(ctx, config(g.up.URL(), threshold))
}

// play waits for a fresh window, lets both teams ask for what they want, and
// returns when the demands are met or only refused any more.
func (g *game) play(ctx context.Context, r row) (a, b *team, err error) {
	if err := g.freshWindow(ctx); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, window*8/10)
	defer cancel()
	a, b = newTeam(g.keyA, r.demandA), newTeam(g.keyB, r.demandB)
	var wg sync.WaitGroup
	for _, n := range g.cluster.Nodes {
		for _, t := range []*team{a, b} {
			wg.Go(func() { t.work(ctx, n) })
		}
	}
	wg.Wait()
	return a, b, errors.Join(a.err(), b.err())
}

// freshWindow waits until no window of the model is open on any node.
func (g *game) freshWindow(ctx context.Context) error {
	for _, n := range g.cluster.Nodes {
		for {
			l, err := n.Admin().Limits(ctx, modelName)
			if err != nil {
				return err
			}
			if l.ResetsAt == nil {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(max(time.Until(*l.ResetsAt), 10*time.Millisecond)):
			}
		}
	}
	return nil
}

// team asks for tokens over all nodes.
type team struct {
	key     string
	left    atomic.Int64 // requests still wanted
	served  atomic.Int64
	refused atomic.Int64
	failure atomic.Pointer[error]
}

func newTeam(key string, demand int) *team {
	t := &team{key: key}
	if demand == unlimited {
		demand = 100 * tpm
	}
	t.left.Store(int64(demand / tokensPerAnswer))
	return t
}

func (t *team) tokens() int { return int(t.served.Load()) * tokensPerAnswer }

func (t *team) err() error {
	if p := t.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// work sends requests to one node until the demand is met or the window is
// nearly over. A refused request is not taken back: it was wanted.
func (t *team) work(ctx context.Context, n *harness.Node) {
	client := n.As(t.key)
	for t.left.Add(-1) >= 0 {
		r, err := client.Chat(ctx, modelName)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.failure.Store(&err)
			return
		case r.Status == http.StatusOK:
			t.served.Add(1)
		case r.Status == http.StatusTooManyRequests:
			t.refused.Add(1)
			time.Sleep(20 * time.Millisecond) // an impatient client
		default:
			err := fmt.Errorf("%s answered %d: %s", n.ID, r.Status, r.Body)
			t.failure.Store(&err)
			return
		}
	}
}
