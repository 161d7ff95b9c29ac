// Package admincli is `sluice admin`: the commands that manage a running
// cluster over its HTTP API, from any host.
//
// It owns flags, tables and exit codes. It must not know how the API is
// spoken (admin.Client) nor how a configuration file is read (Env.LoadConfig).
package admincli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/admin"
	"sluice/fsm"
)

// Env is what the commands need of the process. All but HTTP are required.
type Env struct {
	Getenv func(name string) string
	// LoadConfig reads and checks the cluster-wide part of a TOML file. Its
	// error may have several lines, one for each problem.
	LoadConfig func(path string) (fsm.Config, error)
	Now        func() time.Time
	HTTP       *http.Client // default: admin.Client's own
}

// Environment variables and defaults of the global flags.
const (
	envServer      = "SLUICE_SERVER"
	envMasterKey   = "SLUICE_MASTER_KEY"
	defaultServer  = "http://127.0.0.1:4000"
	defaultTimeout = 30 * time.Second
)

// UsageError is wrong usage, as opposed to a request that failed.
type UsageError struct{ Err error }

// Error returns what is wrong and what would be right.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

func usagef(format string, args ...any) error { return &UsageError{Err: fmt.Errorf(format, args...)} }

// ExitCode returns what the process ends with: 0 fine, 1 the request failed, 2 wrong usage.
func ExitCode(err error) int {
	var usage *UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return 2
	}
	return 1
}

// globalOptions hold for every command of the tree.
type globalOptions struct {
	env       Env
	server    string
	masterKey string
	output    string
	timeout   time.Duration
}

func (o *globalOptions) AddFlags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&o.server, "server", "", "base URL of any node (default $"+envServer+" or "+defaultServer+")")
	f.StringVar(&o.masterKey, "master-key", "", "master key (default $"+envMasterKey+", which other users of this host cannot read)")
	f.StringVarP(&o.output, "output", "o", "table", "table, or json for scripts")
	f.DurationVar(&o.timeout, "timeout", defaultTimeout, "time for one request, retries included")
}

// New returns the `admin` command with its whole tree. Errors are returned, not
// printed; ExitCode tells what to exit with.
func New(env Env) *cobra.Command {
	o := &globalOptions{env: env}
	cmd := newGroup("admin", "Manage keys, teams, priorities, configuration and the cluster",
		newKeyCommand(o), newTeamCommand(o), newPriorityCommand(o), newModelCommand(o),
		newLimitsCommand(o), newExplainCommand(o), newClusterCommand(o), newConfigCommand(o),
		newBackupCommand(o), newRestoreCommand(o))
	o.AddFlags(cmd)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w; see `%s --help`", err, c.CommandPath())
	})
	return cmd
}

// newGroup returns a command that only has subcommands. Cobra itself would show
// help and succeed when the subcommand is misspelt.
func newGroup(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			names := make([]string, len(subs))
			for i, s := range subs {
				names[i] = s.Name()
			}
			if len(args) > 0 {
				return usagef("unknown command %q; `%s` has %s", args[0], cmd.CommandPath(), strings.Join(names, ", "))
			}
			return usagef("`%s` needs one of %s", cmd.CommandPath(), strings.Join(names, ", "))
		}}
	cmd.AddCommand(subs...)
	return cmd
}

// exactly and friends are cobra's argument checks as wrong usage.
func exactly(n int) cobra.PositionalArgs { return asUsage(cobra.ExactArgs(n)) }
func atMost(n int) cobra.PositionalArgs  { return asUsage(cobra.MaximumNArgs(n)) }
func atLeast(n int) cobra.PositionalArgs { return asUsage(cobra.MinimumNArgs(n)) }
func asUsage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			if words := strings.Fields(cmd.Use); len(args) == 0 && len(words) > 1 {
				err = fmt.Errorf("%s is missing", words[1])
			}
			return usagef("%w; usage: %s", err, cmd.UseLine())
		}
		return nil
	}
}

func (o *globalOptions) client() (*admin.Client, error) {
	if o.output != "table" && o.output != "json" {
		return nil, usagef("output %q is not known; use -o table or -o json", o.output)
	}
	if o.timeout <= 0 {
		return nil, usagef("--timeout must be above 0")
	}
	server, key := o.server, o.masterKey
	if server == "" {
		server = o.env.Getenv(envServer)
	}
	if server == "" {
		server = defaultServer
	}
	if key == "" {
		key = o.env.Getenv(envMasterKey)
	}
	if key == "" {
		return nil, usagef("no master key; set %s or give --master-key", envMasterKey)
	}
	c, err := admin.NewClient(admin.ClientOptions{Server: server, MasterKey: key, HTTP: o.env.HTTP})
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	return c, nil
}

// request calls the server once and shows the answer.
func request[T any](o *globalOptions, cmd *cobra.Command, call func(context.Context, *admin.Client) (T, error), show func(*printer, T)) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	answer, err := bounded(o, cmd, c, call)
	if err != nil {
		return err
	}
	return o.print(cmd.OutOrStdout(), answer, func(p *printer) { show(p, answer) })
}

func bounded[T any](o *globalOptions, cmd *cobra.Command, c *admin.Client, call func(context.Context, *admin.Client) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	answer, err := call(ctx, c)
	return answer, advise(err)
}

// advise adds what to do next where the message does not say it.
func advise(err error) error {
	var refused *admin.Error
	var usage *UsageError
	switch {
	case err == nil, errors.As(err, &usage):
		return err
	case errors.As(err, &refused) && refused.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w; check --master-key or %s", err, envMasterKey)
	case errors.As(err, &refused) && refused.Type == "outcome_unknown":
		return fmt.Errorf("%w; look whether it happened before you run this again", err)
	case errors.Is(err, admin.ErrUnreachable) && (errors.Is(err, io.EOF) || strings.Contains(err.Error(), "malformed HTTP") || strings.Contains(err.Error(), "tls:")):
		return fmt.Errorf("%w; that may be the node port, HTTP is gateway.listen (4000): see --server or %s", err, envServer)
	case errors.Is(err, admin.ErrUnreachable):
		return fmt.Errorf("%w; check that sluice runs there, or name another node with --server or %s", err, envServer)
	}
	return err
}
