package main

import (
	"context"
	"errors"
	"sync"
)

// language makes drivers of one kind.
type language struct {
	name string
	// prepare installs what the drivers need; its error is why the language is skipped.
	prepare func(ctx context.Context) error
	start   func(ctx context.Context) (driver, error)
}

// outcome is what became of a case on one way.
type outcome struct {
	Case     Case
	Way      Way
	Problems []string
	Skip     string
}

// turn is a case on one way, still to be played.
type turn struct {
	at int // its place in the result
	c  Case
	w  Way
}

// playAll plays cases on several rigs at once, each with a driver of its own,
// and returns the outcomes in the order of the table. The error is a rig or a
// driver that could not be started.
func playAll(ctx context.Context, l language, cases []Case, binary string, ports [2]int, rigs int) ([]outcome, error) {
	var turns []turn
	for _, c := range cases {
		ways, _ := c.ways(abilities)
		for _, w := range ways {
			turns = append(turns, turn{len(turns), c, w})
		}
	}
	queue := make(chan turn, len(turns))
	for _, t := range turns {
		queue <- t
	}
	close(queue)
	outcomes := make([]outcome, len(turns))
	errs := make([]error, rigs)
	var wg sync.WaitGroup
	for i := range rigs {
		wg.Go(func() { errs[i] = work(ctx, l, binary, ports, queue, outcomes) })
	}
	wg.Wait()
	return outcomes, errors.Join(errs...)
}

// work plays what is in the queue on a rig of its own. Outcomes have a place
// each, so nobody writes where another does.
func work(ctx context.Context, l language, binary string, ports [2]int, queue <-chan turn, outcomes []outcome) error {
	d, err := l.start(ctx)
	if err != nil {
		return err
	}
	r, err := newRig(ctx, binary, ports)
	if err != nil {
		return errors.Join(err, d.Close())
	}
	for t := range queue {
		o := outcome{Case: t.c, Way: t.w}
		var broken bool
		o.Problems, o.Skip, broken = r.play(ctx, d, t.c, t.w)
		outcomes[t.at] = o
		if !broken {
			continue
		}
		_ = d.Close() // the outcome has told what became of it
		if d, err = l.start(ctx); err != nil {
			return errors.Join(err, r.close())
		}
	}
	return errors.Join(d.Close(), r.close())
}

// inProcess are the languages that need nothing but the Go toolchain.
func inProcess() []language {
	return []language{
		{name: "go", start: func(context.Context) (driver, error) { return sdk{}, nil }},
		{name: "strict", start: func(context.Context) (driver, error) { return newStrict(), nil }},
	}
}
