package admincli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"sluice/admin"
)

func newModelCommand(g *globalOptions) *cobra.Command {
	return newGroup("model", "Models and their deployments", newModelListCommand(g))
}

func newModelListCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List models, one line for each deployment", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.ModelInfo, error) {
				return c.Models(ctx)
			}, func(p *printer, m *admin.ModelInfo) {
				p.row("MODEL", "RPM", "TPM", "DEPLOYMENT", "UPSTREAM", "WEIGHT", "BASE")
				for _, e := range m.Data {
					p.row(e.ModelName, limit(e.ModelInfo.ModelRPM), limit(e.ModelInfo.ModelTPM), e.ModelInfo.ID,
						e.LitellmParams.Model, strconv.FormatInt(e.LitellmParams.Weight, 10), text(e.LitellmParams.APIBase))
				}
			})
		}}
}
