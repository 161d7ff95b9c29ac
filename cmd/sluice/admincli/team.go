package admincli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"sluice/admin"
)

func newTeamCommand(g *globalOptions) *cobra.Command {
	return newGroup("team", "Teams of keys that share limits and a priority",
		newTeamNewCommand(g), newTeamListCommand(g), newTeamInfoCommand(g), newTeamUpdateCommand(g), newTeamDeleteCommand(g),
		newTeamBlockCommand(g, true), newTeamBlockCommand(g, false))
}

func newTeamNewCommand(g *globalOptions) *cobra.Command {
	var o recordOptions
	var id string
	cmd := &cobra.Command{Use: "new", Short: "Create a team", Args: exactly(0)}
	o.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&id, "id", "", "its id (default: a random one)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		fields, err := o.fields(cmd.Flags(), "team_alias")
		if err != nil {
			return err
		}
		if id != "" {
			fields["team_id"] = id
		}
		if o.metadataChanged(cmd.Flags()) {
			if fields["metadata"], err = o.mergeMetadata(cmd.Flags(), nil); err != nil {
				return err
			}
		}
		return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.TeamRow, error) {
			return c.NewTeam(ctx, fields)
		}, func(p *printer, t *admin.TeamRow) { showTeam(p, *t) })
	}
	return cmd
}

func newTeamListCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List teams by alias", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) ([]admin.TeamListRow, error) {
				return c.ListTeams(ctx)
			}, func(p *printer, teams []admin.TeamListRow) {
				p.row("ALIAS", "ID", "PRIORITY", "RPM", "TPM", "PARALLEL", "MODELS", "STATE", "KEYS")
				for _, t := range teams {
					p.row(text(t.TeamAlias), t.TeamID, priorityIn(t.Metadata), limit(t.RPM), limit(t.TPM), limit(t.MaxParallel),
						all(t.Models), teamState(t.TeamRow), strconv.Itoa(len(t.Keys)))
				}
			})
		}}
}

func newTeamInfoCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "info ID", Short: "Show a team and its keys", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.TeamInfoAnswer, error) {
				return c.TeamInfo(ctx, args[0])
			}, func(p *printer, t *admin.TeamInfoAnswer) {
				showTeam(p, t.TeamInfo.TeamRow)
				p.blank()
				showKeys(p, t.Keys)
			})
		}}
}

func newTeamUpdateCommand(g *globalOptions) *cobra.Command {
	var o recordOptions
	cmd := &cobra.Command{Use: "update ID", Short: "Change what the flags name; none clears", Args: exactly(1)}
	o.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fields, err := o.fields(cmd.Flags(), "team_alias")
		if err != nil {
			return err
		}
		if !o.metadataChanged(cmd.Flags()) {
			if err := needChange(cmd, fields); err != nil {
				return err
			}
		}
		return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.TeamUpdated, error) {
			if o.metadataChanged(cmd.Flags()) {
				old, err := c.TeamInfo(ctx, args[0])
				if err != nil {
					return nil, err
				}
				if fields["metadata"], err = o.mergeMetadata(cmd.Flags(), old.TeamInfo.Metadata); err != nil {
					return nil, err
				}
			}
			return c.UpdateTeam(ctx, args[0], fields)
		}, func(p *printer, t *admin.TeamUpdated) { showTeam(p, t.Data) })
	}
	return cmd
}

func newTeamDeleteCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "delete ID...", Short: "Delete teams and all their keys", Args: atLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.TeamsDeleted, error) {
				return c.DeleteTeams(ctx, args)
			}, func(p *printer, d *admin.TeamsDeleted) {
				p.row("DELETED")
				for _, t := range d.DeletedTeams {
					p.row(t)
				}
			})
		}}
}

func newTeamBlockCommand(g *globalOptions, block bool) *cobra.Command {
	use, short := "block ID", "Refuse all keys of a team until it is unblocked"
	if !block {
		use, short = "unblock ID", "Let the keys of a blocked team work again"
	}
	return &cobra.Command{Use: use, Short: short, Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.TeamRow, error) {
				return c.BlockTeam(ctx, args[0], block)
			}, func(p *printer, t *admin.TeamRow) { showTeam(p, *t) })
		}}
}

func showTeam(p *printer, t admin.TeamRow) {
	p.row("id", t.TeamID)
	p.row("alias", text(t.TeamAlias))
	p.row("priority", priorityIn(t.Metadata))
	p.row("models", all(t.Models))
	p.row("rpm", limit(t.RPM))
	p.row("tpm", limit(t.TPM))
	p.row("max parallel", limit(t.MaxParallel))
	p.row("state", teamState(t))
	p.row("created", moment(&t.CreatedAt))
	p.row("metadata", otherMetadata(t.Metadata))
}

func teamState(t admin.TeamRow) string {
	if t.Blocked {
		return "blocked"
	}
	return "active"
}
