package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker: -X main.version=0.1.0.
var version = "0.1.0-dev"

// environ is all that the commands take from the process they run in.
type environ struct {
	stdout, stderr io.Writer
	lookup         func(name string) (string, bool)
	// signals starts the delivery of SIGINT, SIGTERM and SIGHUP; until then, and
	// after stop, they do what the operating system does by default.
	signals func() (ch <-chan os.Signal, stop func())
}

func main() {
	os.Exit(run(context.Background(), os.Args[1:], environ{
		stdout:  os.Stdout,
		stderr:  os.Stderr,
		lookup:  os.LookupEnv,
		signals: processSignals,
	}))
}

// run executes one command line and returns the exit code: 0 fine, 1 the
// command failed, 2 it was used wrongly or the configuration is wrong.
func run(ctx context.Context, args []string, e environ) int {
	root := newRootCommand(e)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return report(e.stderr, cmd, err)
}

func processSignals() (<-chan os.Signal, func()) {
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return ch, func() { signal.Stop(ch) }
}
