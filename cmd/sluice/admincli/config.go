package admincli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"sluice/admin"
	"sluice/fsm"
)

func newConfigCommand(g *globalOptions) *cobra.Command {
	return newGroup("config", "The cluster-wide configuration and its versions",
		newConfigShowCommand(g), newConfigApplyCommand(g), newConfigHistoryCommand(g), newConfigRollbackCommand(g))
}

func newConfigShowCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "show", Short: "Show what holds now; -o json shows all of it", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.ConfigAnswer, error) {
				return c.Config(ctx)
			}, showConfig)
		}}
}

func showConfig(p *printer, a *admin.ConfigAnswer) {
	c := a.Config
	p.row("version", strconv.FormatUint(a.Version, 10))
	p.row("window", c.Window.String())
	showLimitSettings(p, &c)
	p.row("upstream timeouts", fmt.Sprintf("connect %v, first byte %v, idle %v", c.Upstream.ConnectTimeout, c.Upstream.FirstByteTimeout, c.Upstream.IdleTimeout))
	p.blank()
	p.row("MODEL", "RPM", "TPM", "DEPLOYMENTS")
	for _, m := range c.Models {
		p.row(m.Name, limit(m.RPM), limit(m.TPM), strconv.Itoa(len(m.Deployments)))
	}
	if len(c.Aliases) > 0 {
		p.blank()
		p.row("ALIAS", "STANDS FOR")
		for _, name := range slices.Sorted(maps.Keys(c.Aliases)) {
			p.row(name, c.Aliases[name])
		}
	}
	if len(c.Reservation.Shares) > 0 {
		p.blank()
		p.row("PRIORITY", "SHARE")
		for _, name := range slices.Sorted(maps.Keys(c.Reservation.Shares)) {
			p.row(name, share(c.Reservation.Shares[name]))
		}
		p.row("(all others)", percent(c.Reservation.Default))
	}
	for _, w := range a.Warnings {
		p.blank()
		p.row("Warning: " + w)
	}
}

// showLimitSettings shows every key of [limits] as it holds, under its name.
func showLimitSettings(p *printer, c *fsm.Config) {
	l := &c.Limits
	lease := fsm.DefaultLeaseTTL
	if l.LeaseTTL != nil {
		lease = *l.LeaseTTL
	}
	for _, s := range [][2]string{
		{"on_no_quorum", string(l.OnNoQuorum)},
		{"lease_ttl", lease.String()},
		{"allocation", l.Allocation},
		{"hold_back", strconv.FormatFloat(l.HoldBack, 'f', -1, 64)},
		{"active_window", cmp.Or(l.ActiveWindow, fsm.DefaultActiveWindow).String()},
		{"token_accounting", l.TokenAccounting},
		{"oversize", cmp.Or(l.Oversize, fsm.OversizeReject)},
		{"token_rate_limit_type", l.TokenRateLimitType},
		{"count_cached_tokens", strconv.FormatBool(l.CountCachedTokens)},
	} {
		p.row("limits."+s[0], s[1])
	}
}

func newConfigApplyCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "apply FILE", Short: "Make the cluster-wide part of a TOML file the new version", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := g.env.LoadConfig(args[0])
			if err != nil {
				return &UsageError{Err: err}
			}
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.ConfigWritten, error) {
				return c.ApplyConfig(ctx, cfg, filepath.Base(args[0]))
			}, showWritten)
		}}
}

func newConfigHistoryCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "history", Short: "List the versions that a rollback can name", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.ConfigHistory, error) {
				return c.ConfigHistory(ctx)
			}, func(p *printer, h *admin.ConfigHistory) {
				p.row("VERSION", "APPLIED", "SOURCE", "CURRENT")
				for _, v := range h.Versions {
					p.row(strconv.FormatUint(v.Version, 10), moment(&v.AppliedAt), v.Source, yes(v.Current))
				}
			})
		}}
}

func newConfigRollbackCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "rollback VERSION", Short: "Make an earlier version's content the new version", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			version, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return &UsageError{Err: errors.New("VERSION is a number; `sluice admin config history` lists them")}
			}
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.ConfigWritten, error) {
				return c.RollbackConfig(ctx, version)
			}, showWritten)
		}}
}

func showWritten(p *printer, w *admin.ConfigWritten) {
	p.row(fmt.Sprintf("Configuration version %d, %s.", w.Version, w.Status))
}
