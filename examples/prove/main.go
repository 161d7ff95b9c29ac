// Command prove lets a sceptic see for himself what sluice says of itself: that
// a limit is exact over several nodes and through the death of one, that this
// takes no Redis and no database, and what an admission costs.
//
//	make prove
//
// It starts three real processes, asks them for four times a limit, kills the
// leader half-way, and lets the provider count. Then it measures one admission
// in this process. It exits 0 only if the figures are right.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

const (
	modelName = "proved-model"
	nodes     = 3
	limit     = 1000 // requests in one window
	demand    = 4 * limit
	least     = 800 // served at least, although a node takes permits along when it dies
	spread    = 20 * time.Second
	window    = time.Minute
)

// parts is how the demand falls on the nodes, in tenths.
var parts = [nodes]int{8, 1, 1}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "Exact: %d requests in one window of %s is the limit of a model, on %d nodes\n", limit, window, nodes)
	o, err := proveExact(ctx, out)
	if err != nil {
		return err
	}
	o.print(out)
	if err := o.verdict(); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nFast: one admission that meets the limits of a key, a team, a model and a priority, in this process")
	s, err := measureSpeed(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  with permits, on all %d cores at once     %8.0f ns each\n", runtime.GOMAXPROCS(0), s.warm)
	fmt.Fprintf(out, "  decided in a log that is synced, alone   %8.0f µs each\n", float64(s.lone.Nanoseconds())/1000)
	fmt.Fprintf(out, "\nProved: %d served of %d, never more; no Redis, no database; %.0f ns for a warm admission.\n", o.served, limit, s.warm)
	return nil
}

// proveExact plays the demand against a cluster that it starts and stops.
func proveExact(ctx context.Context, out io.Writer) (o outcome, err error) {
	up, err := upstream.Start(upstream.Options{Keep: -1})
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, up.Close()) }()
	c, err := harness.Start(ctx, harness.Options{Nodes: nodes, Config: config(up.URL())})
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	fmt.Fprintln(out, "  processes that run (this one is client and provider):")
	for _, n := range c.Nodes {
		fmt.Fprintf(out, "    sluice serve  pid %-7d %s\n", n.PID(), n.ID)
	}
	fmt.Fprintf(out, "  %d requests within %s, spread %d:%d:%d over the nodes …\n", demand, spread, parts[0], parts[1], parts[2])
	return play(ctx, c, up)
}

func config(upstreamURL string) string {
	return fmt.Sprintf(`
[gateway]
master_key = "os.environ/SLUICE_MASTER_KEY"
window     = %q

[cluster]
secret = "os.environ/SLUICE_CLUSTER_SECRET"

[[models]]
name     = %q
rpm      = %d
provider = "openai_compatible"
api_base = "%s/v1"
`, window, modelName, limit, upstreamURL)
}
