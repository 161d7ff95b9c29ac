package admincli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice/admin"
)

func newExplainCommand(g *globalOptions) *cobra.Command {
	var key string
	var tokens int64
	cmd := &cobra.Command{Use: "explain MODEL", Short: "Say what one more request would meet, and what is in its way", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if tokens < 0 {
				return usagef("--tokens must be a whole number from 1")
			}
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.ExplainAnswer, error) {
				return c.ExplainLimits(ctx, args[0], key, tokens)
			}, showExplanation)
		}}
	cmd.Flags().StringVar(&key, "key", "", "whose request: a key's secret, hash or alias (default the master key)")
	cmd.Flags().Int64Var(&tokens, "tokens", 0, "tokens that it reserves, where limits.token_accounting is reserve (default 1)")
	return cmd
}

func showExplanation(p *printer, e *admin.ExplainAnswer) {
	verdict := "would be admitted"
	if !e.Admitted {
		verdict = fmt.Sprintf("would be refused by the %s of %s; fits in %s", *e.Dimension, *e.Scope, seconds(e.FitsInSeconds))
	}
	p.row(fmt.Sprintf("A request for %s of %d tokens %s.", e.Model, e.AssumedTokens, verdict))
	p.blank()
	p.row("SCOPE", "NAME", "RPM", "TPM", "IN FLIGHT", "ADMITS", "FITS IN")
	for _, s := range e.Scopes {
		fits := ""
		if !s.Admitted {
			fits = seconds(s.FitsInSeconds)
		}
		p.row(s.Scope, s.Name, gauge(s.RPM.Gauge), gauge(s.TPM.Gauge), gauge(s.Parallel.Gauge), yes(s.Admitted), fits)
	}
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
