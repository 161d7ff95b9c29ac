// Command demo starts three sluice nodes on loopback and plays the worked
// example of two teams that share a model's tokens, then stops them. It prints
// what each team was served per window and exits 0 only if the figures are
// right:
//
//	make demo
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// The example's figures. The window is a minute in real life.
const (
	modelName       = "shared-model"
	tpm             = 1000
	tokensPerAnswer = 10
	window          = 4 * time.Second
	nodes           = 3
)

// rows are the windows of the example.
var rows = []row{
	{threshold: 0.5, demandA: unlimited, demandB: 0, wantA: 500, wantB: 0},
	{threshold: 0.5, demandA: unlimited, demandB: 500, wantA: 500, wantB: 500},
	{threshold: 0.5, demandA: unlimited, demandB: 400, wantA: 500, wantB: 400, quietB: true},
	{threshold: 0.8, demandA: unlimited, demandB: 0, wantA: 800, wantB: 0},
}

func run(ctx context.Context, out io.Writer) (err error) {
	up, err := upstream.Start(upstream.Options{})
	if err != nil {
		return err
	}
	defer up.Close()
	up.Play(upstream.Match{}, upstream.Step{Times: upstream.Forever, Usage: &upstream.Usage{Prompt: 4, Completion: 6}})

	fmt.Fprintf(out, "Starting %d nodes …\n", nodes)
	c, err := harness.Start(ctx, harness.Options{Nodes: nodes, Config: config(up.URL(), rows[0].threshold)})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := c.Close(); err == nil {
			err = cerr
		}
	}()
	g, err := newGame(ctx, c, up)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: tpm %d, team_a 50 %%, team_b 50 %%, answers of %d tokens, window %s, requests over %d nodes\n\n",
		modelName, tpm, tokensPerAnswer, window, nodes)
	if err := g.playAll(ctx, out); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nAs it should be: nobody was served more than its share once the model was saturated,\nidle capacity was lent up to the threshold,\nand the sum over all nodes kept to the limit plus the answers in flight when it was reached.")
	return nil
}

func config(upstreamURL string, threshold float64) string {
	return fmt.Sprintf(`
[gateway]
master_key = "os.environ/SLUICE_MASTER_KEY"
window     = "%s"

[cluster]
secret = "os.environ/SLUICE_CLUSTER_SECRET"

[[models]]
name     = %q
tpm      = %d
provider = "openai_compatible"
api_base = "%s/v1"

[priority_reservation]
team_a = 0.5
team_b = 0.5

[priority_reservation_settings]
saturation_threshold = %g
`, window, modelName, tpm, upstreamURL, threshold)
}
