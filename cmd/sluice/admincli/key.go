package admincli

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/admin"
)

// keyOptions are the flags that describe a key.
type keyOptions struct {
	recordOptions
	team, user, duration string
}

func (o *keyOptions) AddFlags(f *pflag.FlagSet) {
	o.recordOptions.AddFlags(f)
	f.StringVar(&o.team, "team", "", "id of the team it belongs to, or none")
	f.StringVar(&o.user, "user", "", "user it belongs to, or none")
	f.StringVar(&o.duration, "duration", "", "lifetime from now: 30s, 15m, 12h, 30d, 1w, 1mo, or none for ever")
}

func (o *keyOptions) fields(f *pflag.FlagSet) (admin.Fields, error) {
	out, err := o.recordOptions.fields(f, "key_alias")
	if err != nil {
		return nil, err
	}
	for flag, field := range map[string]string{"team": "team_id", "user": "user_id", "duration": "duration"} {
		if v := f.Lookup(flag); v.Changed {
			out[field] = nullable(v.Value.String())
		}
	}
	if o.duration != "" && o.duration != none {
		if _, err := admin.ParseLifetime(o.duration); err != nil {
			return nil, usagef("--duration: %w", err)
		}
	}
	return out, nil
}

func newKeyCommand(g *globalOptions) *cobra.Command {
	return newGroup("key", "Virtual keys",
		newKeyGenerateCommand(g), newKeyListCommand(g), newKeyInfoCommand(g), newKeyUpdateCommand(g), newKeyDeleteCommand(g),
		newKeyBlockCommand(g, true), newKeyBlockCommand(g, false), newKeyRegenerateCommand(g))
}

func newKeyGenerateCommand(g *globalOptions) *cobra.Command {
	var o keyOptions
	cmd := &cobra.Command{Use: "generate", Short: "Create a key and show its secret, once", Args: exactly(0)}
	o.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		fields, err := o.fields(cmd.Flags())
		if err != nil {
			return err
		}
		if o.metadataChanged(cmd.Flags()) {
			if fields["metadata"], err = o.mergeMetadata(cmd.Flags(), nil); err != nil {
				return err
			}
		}
		return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.KeyCreated, error) {
			return c.GenerateKey(ctx, fields)
		}, func(p *printer, k *admin.KeyCreated) { showCreated(cmd, p, k) })
	}
	return cmd
}

func newKeyListCommand(g *globalOptions) *cobra.Command {
	var team, user string
	cmd := &cobra.Command{Use: "list", Short: "List keys, newest first", Args: exactly(0)}
	cmd.Flags().StringVar(&team, "team", "", "only keys of this team")
	cmd.Flags().StringVar(&user, "user", "", "only keys of this user")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		filter := url.Values{}
		if team != "" {
			filter.Set("team_id", team)
		}
		if user != "" {
			filter.Set("user_id", user)
		}
		return request(g, cmd, func(ctx context.Context, c *admin.Client) ([]admin.KeyRow, error) {
			return c.ListKeys(ctx, filter)
		}, showKeys)
	}
	return cmd
}

func newKeyInfoCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "info KEY", Short: "Show a key, by its secret or its hash", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.KeyInfoAnswer, error) {
				return c.KeyInfo(ctx, args[0])
			}, func(p *printer, k *admin.KeyInfoAnswer) { showKey(p, k.Key, k.Info.KeyColumns) })
		}}
}

func newKeyUpdateCommand(g *globalOptions) *cobra.Command {
	var o keyOptions
	cmd := &cobra.Command{Use: "update KEY", Short: "Change what the flags name; none clears", Args: exactly(1)}
	o.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fields, err := o.fields(cmd.Flags())
		if err != nil {
			return err
		}
		if !o.metadataChanged(cmd.Flags()) {
			if err := needChange(cmd, fields); err != nil {
				return err
			}
		}
		return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.KeyUpdated, error) {
			if o.metadataChanged(cmd.Flags()) {
				old, err := c.KeyInfo(ctx, args[0])
				if err != nil {
					return nil, err
				}
				if fields["metadata"], err = o.mergeMetadata(cmd.Flags(), old.Info.Metadata); err != nil {
					return nil, err
				}
			}
			return c.UpdateKey(ctx, args[0], fields)
		}, func(p *printer, k *admin.KeyUpdated) { showKey(p, k.Token, k.KeyColumns) })
	}
	return cmd
}

func newKeyDeleteCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "delete KEY...", Short: "Delete keys; they stop at once on every node", Args: atLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.KeysDeleted, error) {
				return c.DeleteKeys(ctx, args)
			}, func(p *printer, d *admin.KeysDeleted) {
				p.row("DELETED")
				for _, k := range d.DeletedKeys {
					p.row(k)
				}
			})
		}}
}

func newKeyBlockCommand(g *globalOptions, block bool) *cobra.Command {
	use, short := "block KEY", "Refuse a key until it is unblocked"
	if !block {
		use, short = "unblock KEY", "Let a blocked key work again"
	}
	return &cobra.Command{Use: use, Short: short, Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.KeyRow, error) {
				return c.BlockKey(ctx, args[0], block)
			}, func(p *printer, k *admin.KeyRow) { showKey(p, k.Token, k.KeyColumns) })
		}}
}

func newKeyRegenerateCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "regenerate KEY", Short: "Give a key a new secret; the old one stops at once", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.KeyCreated, error) {
				return c.RegenerateKey(ctx, args[0], nil)
			}, func(p *printer, k *admin.KeyCreated) { showCreated(cmd, p, k) })
		}}
}

func showCreated(cmd *cobra.Command, p *printer, k *admin.KeyCreated) {
	p.row("key", k.Key)
	showKey(p, k.Token, k.KeyColumns)
	if _, err := fmt.Fprintln(cmd.ErrOrStderr(), "Keep the key now: only its hash is stored, so it cannot be shown again."); err != nil && p.err == nil {
		p.err = err
	}
}

func showKey(p *printer, hash string, k admin.KeyColumns) {
	p.row("hash", hash)
	p.row("name", k.KeyName)
	p.row("alias", text(k.KeyAlias))
	p.row("team", text(k.TeamID))
	p.row("user", text(k.UserID))
	p.row("priority", priorityIn(k.Metadata))
	p.row("models", all(k.Models))
	p.row("rpm", limit(k.RPM))
	p.row("tpm", limit(k.TPM))
	p.row("max parallel", limit(k.MaxParallel))
	p.row("state", p.keyState(k))
	p.row("expires", expiry(k))
	p.row("created", moment(&k.CreatedAt))
	p.row("metadata", otherMetadata(k.Metadata))
}

func showKeys(p *printer, keys []admin.KeyRow) {
	p.row("ALIAS", "NAME", "TEAM", "PRIORITY", "RPM", "TPM", "PARALLEL", "MODELS", "STATE", "EXPIRES", "HASH")
	for _, k := range keys {
		p.row(text(k.KeyAlias), k.KeyName, text(k.TeamID), priorityIn(k.Metadata), limit(k.RPM), limit(k.TPM), limit(k.MaxParallel),
			all(k.Models), p.keyState(k.KeyColumns), expiry(k.KeyColumns), k.Token)
	}
}

// keyState says whether a key works; by this host's clock for one that expires.
func (p *printer) keyState(k admin.KeyColumns) string {
	if k.Blocked != nil && *k.Blocked {
		return "blocked"
	}
	if k.Expires != nil {
		if t, err := time.Parse(time.RFC3339Nano, *k.Expires); err == nil && !p.env.Now().Before(t) {
			return "expired"
		}
	}
	return "active"
}

func expiry(k admin.KeyColumns) string {
	if k.Expires == nil {
		return "never"
	}
	return moment(k.Expires)
}
