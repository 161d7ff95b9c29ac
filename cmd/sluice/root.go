package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/admincli"
	"sluice/cmd/sluice/config"
	"sluice/fsm"
)

// usageError is wrong usage of a command.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func newRootCommand(e environ) *cobra.Command {
	root := newGroup("sluice", "A gate for LLM traffic: shares a model's limits by priority, exactly, over all nodes")
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.AddCommand(newServeCommand(e), newRecoverCommand(e), newConfigCommand(e), newVersionCommand(), newAdminCommand(e))
	root.SetHelpCommand(newHelpCommand())
	root.Version = version
	root.SetVersionTemplate(versionLine())
	root.CompletionOptions.HiddenDefaultCmd = true
	return root
}

// newGroup returns a command that only has subcommands. Cobra itself would show
// help and succeed when a subcommand is missing.
func newGroup(use, short string) *cobra.Command {
	group := &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			var names []string
			for _, c := range cmd.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name())
				}
			}
			if len(args) > 0 {
				return &usageError{fmt.Errorf("unknown command %q; use one of %s", args[0], strings.Join(names, ", "))}
			}
			return &usageError{fmt.Errorf("no command given; use one of %s", strings.Join(names, ", "))}
		},
	}
	group.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	return group
}

// asUsage makes wrong arguments and flags of cmd wrong usage.
func asUsage(cmd *cobra.Command, check cobra.PositionalArgs) *cobra.Command {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{plainFlag(err)} })
	cmd.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			if words := strings.Fields(c.Use); len(args) == 0 && len(words) > 1 {
				err = fmt.Errorf("%s is missing", words[1])
			}
			return &usageError{err}
		}
		return nil
	}
	return cmd
}

// plainFlag says what a switch takes, without the name of what parsed it.
func plainFlag(err error) error {
	if before, _, ok := strings.Cut(err.Error(), ": strconv.ParseBool"); ok {
		return errors.New(before + ": use true or false")
	}
	return err
}

// newHelpCommand returns `sluice help`. Cobra's own shows the help of what it
// understood of a misspelt command, and succeeds.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]...", Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil {
				return &usageError{err}
			}
			if len(rest) > 0 {
				return &admincli.UsageError{Err: fmt.Errorf("unknown command %q; see %s --help", rest[0], found.CommandPath())}
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("sluice %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersionCommand() *cobra.Command {
	return asUsage(&cobra.Command{
		Use: "version", Short: "Print the version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), versionLine())
			return err
		},
	}, cobra.NoArgs)
}

func newConfigCommand(e environ) *cobra.Command {
	group := newGroup("config", "Look at configuration files")
	group.AddCommand(asUsage(&cobra.Command{
		Use: "check FILE", Short: "Check a file and print what it amounts to, defaults included and secrets hidden",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, problems := config.Read(args[0], config.Options{Lookup: e.lookup})
			if f != nil {
				problems = append(problems, f.Check()...)
			}
			if err := problems.Err(); err != nil {
				return err
			}
			for _, w := range f.Warnings {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %s\n", args[0], w)
			}
			_, err := io.WriteString(cmd.OutOrStdout(), f.Render())
			return err
		},
	}, cobra.ExactArgs(1)))
	return group
}

func newAdminCommand(e environ) *cobra.Command {
	return admincli.New(admincli.Env{
		Getenv: func(name string) string { v, _ := e.lookup(name); return v },
		LoadConfig: func(path string) (fsm.Config, error) {
			f, problems := config.Read(path, config.Options{Lookup: e.lookup, Remote: true})
			if err := problems.Err(); err != nil {
				return fsm.Config{}, err
			}
			if !f.ClusterWide {
				return fsm.Config{}, fmt.Errorf("%s says nothing cluster-wide, so it would take all models away; add [[models]] to it, or name another file", path)
			}
			return f.Cluster, nil
		},
		Now: time.Now,
	})
}

// report prints what went wrong, one line each, and returns the exit code.
func report(w io.Writer, cmd *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	var problems config.Problems
	if errors.As(err, &problems) {
		fmt.Fprintln(w, problems.Error())
		return 2
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	var usage *usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(w, "sluice: %s; see %s --help\n", text, cmd.CommandPath())
		return 2
	}
	fmt.Fprintf(w, "sluice: %s\n", text)
	return admincli.ExitCode(err)
}
