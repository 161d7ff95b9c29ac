package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"os"
	"syscall"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/config"
)

func newServeCommand(e environ) *cobra.Command {
	var flags serveFlags
	cmd := asUsage(&cobra.Command{
		Use: "serve", Short: "Run a node of the gateway",
		Long: "Run a node of the gateway. Flags replace what the file says.\n\n" +
			"SIGTERM and SIGINT stop it after open streams have ended (gateway.drain); a second one stops it at once.\n" +
			"SIGHUP reads the file again.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), &flags, e)
		},
	}, cobra.NoArgs)
	flags.addTo(cmd.Flags())
	return cmd
}

// errSecondSignal ends the process at once.
var errSecondSignal = errors.New("stopped at once by a second signal; open requests were cut off")

// serve runs a node until ctx ends, a signal comes or the node cannot go on.
func serve(ctx context.Context, flags *serveFlags, e environ) error {
	file, problems := flags.load(e.lookup)
	if err := problems.Err(); err != nil {
		return err
	}
	logger := newLogger(file.Node.Log, e.stderr)
	signals, ignore := e.signals()
	defer ignore()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go tendGC(ctx)
	a, err := start(ctx, file, e.lookup, logger)
	if err != nil {
		return err
	}
	a.announce(e.stdout, flags.dev)
	reason := a.wait(ctx, signals, func() { a.reload(func() (*config.File, config.Problems) { return flags.load(e.lookup) }) })
	stopped := make(chan error, 1)
	go func() { stopped <- a.stop() }()
	for {
		select {
		case err := <-stopped:
			logger.Info("stopped")
			return errors.Join(reason, err)
		case s := <-signals:
			if s != syscall.SIGHUP {
				return errSecondSignal
			}
		}
	}
}

// wait returns nil when the node is told to stop, or why it cannot go on.
func (a *app) wait(ctx context.Context, signals <-chan os.Signal, reload func()) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-signals:
			if s == syscall.SIGHUP {
				reload()
				continue
			}
			a.logger.Info("stopping", "signal", s.String(), "drain", a.file.Node.Gateway.Drain)
			return nil
		case err := <-a.fatal:
			return err
		case <-a.node.Done():
			return fmt.Errorf("the node has stopped by itself: %w", a.node.Err())
		}
	}
}

// announce says where the node serves, and what --dev has made up.
func (a *app) announce(stdout io.Writer, dev bool) {
	g := a.file.Node.Gateway
	a.logger.Info("serving", "http", a.listener.Addr().String(), "cluster", a.node.Addr(), "node", a.node.ID(),
		"data_dir", g.DataDir, "version", version)
	if !dev {
		return
	}
	fmt.Fprintf(stdout, "development mode: everything is in memory and gone when this process ends\nmaster key: %s\n\n"+
		"  curl http://%s/v1/chat/completions -H \"Authorization: Bearer %s\" -H \"Content-Type: application/json\" \\\n"+
		"    -d '{\"model\": %q, \"messages\": [{\"role\": \"user\", \"content\": \"Hello world!\"}]}'\n\n",
		g.MasterKey.Reveal(), a.listener.Addr(), g.MasterKey.Reveal(), a.file.Cluster.Models[0].Name)
}
