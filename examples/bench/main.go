// Command bench measures what sluice promises about speed, in one run and side
// by side with what it is compared to: on a shared machine a bare time proves
// nothing, a ratio does. Every line is a figure, its target and whether it was
// met:
//
//	make bench
//	make bench ONLY=gateway,ledger
//
// It owns the measurements and knows the packages only as far as it drives
// them in-process where a process in between would be what is measured.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	rounds int           // of every interleaved comparison; the median counts
	slice  time.Duration // one measurement of one participant
	keys   int
}

// benches in the order in which they run.
var benches = []struct {
	name string
	run  func(context.Context, options, *report) error
}{
	{"ledger", benchLedger},
	{"log", benchLog},
	{"redis", benchPermits},
	{"gateway", benchGateway},
	{"nodes", benchNodes},
	{"cluster", benchCluster},
	{"fill", benchFill},
	{"failover", benchFailover},
	{"keys", benchKeys},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == bareProxyRole {
		if err := serveBareProxy(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bare proxy:", err)
			os.Exit(1)
		}
		return
	}
	o := options{}
	flag.IntVar(&o.rounds, "rounds", 5, "interleaved rounds of each comparison")
	flag.DurationVar(&o.slice, "slice", 1500*time.Millisecond, "length of one measurement")
	flag.IntVar(&o.keys, "keys", 100_000, "virtual keys of the bench keys")
	only := flag.String("only", "", "comma-separated `parts`: "+strings.Join(parts(), ", "))
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "bench: %q is no flag; choose parts with -only %s\n", flag.Arg(0), flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, only string) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	r := &report{out: os.Stdout}
	for _, b := range benches {
		if !slices.Contains(chosen, b.name) {
			continue
		}
		if err := b.run(ctx, o, r); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return r.close()
}

// parts lists the names of the benches.
func parts() []string {
	var names []string
	for _, b := range benches {
		names = append(names, b.name)
	}
	return names
}

// choose reads a comma-separated list of parts; "" means all.
func choose(only string) ([]string, error) {
	if only == "" {
		return parts(), nil
	}
	var chosen []string
	for name := range strings.SplitSeq(only, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(parts(), name) {
			return nil, fmt.Errorf("there is no part %q; the parts are %s", name, strings.Join(parts(), ", "))
		}
		chosen = append(chosen, name)
	}
	return chosen, nil
}
