package admincli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"sluice/admin"
)

func newPriorityCommand(g *globalOptions) *cobra.Command {
	return newGroup("priority", "The shares that priorities have reserved",
		newPriorityListCommand(g), newPrioritySetCommand(g), newPriorityUnsetCommand(g))
}

func newPriorityListCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the shares", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.PriorityList, error) {
				return c.Priorities(ctx)
			}, showPriorities)
		}}
}

func showPriorities(p *printer, l *admin.PriorityList) {
	p.row("PRIORITY", "SHARE")
	for _, e := range l.Priorities {
		p.row(e.Priority, share(e.Share))
	}
	if len(l.Priorities) == 0 {
		p.row("(nothing is reserved)", "")
	} else {
		p.row("(all others)", percent(l.DefaultPriority))
	}
	p.blank()
	p.row("Shares are enforced from a saturation of " + percent(l.SaturationThreshold) + " on.")
	for _, w := range l.Warnings {
		p.row("Warning: " + w)
	}
}

func newPrioritySetCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "set NAME SHARE", Short: "Reserve a share: 0.9 or 90% of a model, 9rpm or 100tpm", Args: exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := admin.ParseShare(args[1])
			if err != nil {
				return &UsageError{Err: err}
			}
			var warnings []string
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.ConfigWritten, error) {
				w, err := c.SetPriority(ctx, args[0], s)
				if err == nil {
					warnings = afterwards(ctx, c)
				}
				return w, err
			}, func(p *printer, w *admin.ConfigWritten) {
				p.row(fmt.Sprintf("%s has %s (configuration version %d, %s).", args[0], share(s), w.Version, w.Status))
				for _, warning := range warnings {
					p.row("Warning: " + warning)
				}
			})
		}}
}

// afterwards returns what is odd about the table now, such as shares that add up
// to more than there is. That it cannot be asked for is no fault of the write.
func afterwards(ctx context.Context, c *admin.Client) []string {
	l, err := c.Priorities(ctx)
	if err != nil {
		return nil
	}
	return l.Warnings
}

func newPriorityUnsetCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "unset NAME", Short: "Take a priority out of the table; its requests then share the default pool", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.ConfigWritten, error) {
				return c.UnsetPriority(ctx, args[0])
			}, func(p *printer, w *admin.ConfigWritten) {
				p.row(fmt.Sprintf("%s has no share of its own (configuration version %d, %s).", args[0], w.Version, w.Status))
			})
		}}
}
