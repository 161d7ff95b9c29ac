package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"sluice/examples/harness"
)

type flags struct {
	languages string
	run       string
	build     string
	root      string
	ports     string
	require   bool
	able      string
	rigs      int
}

func main() {
	var f flags
	flag.StringVar(&f.languages, "languages", "go,strict,python,node", "comma-separated `names` of the clients to play with")
	flag.StringVar(&f.run, "run", "", "`pattern` of the cases to play; all if empty")
	flag.StringVar(&f.root, "root", ".", "`directory` of the module with the drivers")
	flag.StringVar(&f.build, "build", ".build", "`directory` for the libraries of Python and Node")
	flag.StringVar(&f.ports, "ports", "", "`first-last` port that sluice may listen on")
	flag.BoolVar(&f.require, "require", false, "fail if a language cannot be installed")
	flag.StringVar(&f.able, "able", "", "hold sluice to abilities that match this `pattern` too, although through.go does not")
	flag.IntVar(&f.rigs, "rigs", 2, "sluices with a provider that a language plays on at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := conformance(ctx, f); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// errFailed is returned when cases failed; the table has said which.
var errFailed = errors.New("not everything passed")

func conformance(ctx context.Context, f flags) error {
	if err := enable(f.able); err != nil {
		return err
	}
	cases, err := chosen(f.run)
	if err != nil {
		return err
	}
	ports, err := portRange(f.ports)
	if err != nil {
		return err
	}
	build, err := filepath.Abs(f.build)
	if err != nil {
		return fmt.Errorf("find -build: %w", err)
	}
	root, err := filepath.Abs(f.root)
	if err != nil {
		return fmt.Errorf("find -root: %w", err)
	}
	var list []language
	for name := range strings.SplitSeq(f.languages, ",") {
		known := languages(root, build)
		i := slices.IndexFunc(known, func(l language) bool { return l.name == name })
		if i < 0 {
			return fmt.Errorf("-languages: %q is unknown; use go, strict, python, node", name)
		}
		list = append(list, known[i])
	}
	var builder harness.Builder
	binary, err := builder.Binary(ctx)
	if err != nil {
		return err
	}
	reports, err := playLanguages(ctx, list, cases, binary, ports, f.rigs)
	err = errors.Join(err, builder.Close())
	if err != nil {
		return err
	}
	sum := print(os.Stdout, cases, reports)
	missing := slices.ContainsFunc(reports, func(r report) bool { return r.skipped != "" })
	if sum.failed > 0 || f.require && missing {
		return errFailed
	}
	return nil
}

// playLanguages plays all of them at once, each on rigs of its own.
func playLanguages(ctx context.Context, list []language, cases []Case, binary string, ports [2]int, rigs int) ([]report, error) {
	reports := make([]report, len(list))
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, l := range list {
		reports[i].language = l.name
		wg.Go(func() {
			if l.prepare != nil {
				if err := l.prepare(ctx); err != nil {
					reports[i].skipped = err.Error()
					return
				}
			}
			reports[i].outcomes, errs[i] = playAll(ctx, l, cases, binary, ports, rigs)
		})
	}
	wg.Wait()
	return reports, errors.Join(errs...)
}

// enable switches the abilities that match on.
func enable(pattern string) error {
	if pattern == "" {
		return nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return fmt.Errorf("-able: %w", err)
	}
	for a := range abilities {
		abilities[a] = abilities[a] || re.MatchString(a)
	}
	return nil
}

func chosen(pattern string) ([]Case, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	return slices.DeleteFunc(all(), func(c Case) bool { return !re.MatchString(c.Name) && !re.MatchString(c.Field) }), nil
}

func portRange(s string) ([2]int, error) {
	if s == "" {
		return [2]int{}, nil
	}
	var p [2]int
	if n, err := fmt.Sscanf(s, "%d-%d", &p[0], &p[1]); err != nil || n != 2 {
		return p, fmt.Errorf("-ports: %q is no range such as 23000-23999", s)
	}
	return p, nil
}
