package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sluice/examples/harness"
)

const (
	fillWindow  = 5 * time.Second
	fillWindows = 3
	fillLimit   = 1000 // requests of each window
	fillDemand  = 4    // times the limit
	fillConns   = 8    // of each node
)

// fillMix is how demand falls on the nodes.
type fillMix struct {
	name  string
	parts [3]float64
	least float64 // served : limit
}

var fillMixes = []fillMix{
	{"skewed 8:1:1", [3]float64{0.8, 0.1, 0.1}, 0.97},
	{"even", [3]float64{1. / 3, 1. / 3, 1. / 3}, 0.99},
}

func fillConfig() string {
	text := fmt.Sprintf("[gateway]\nmaster_key = \"os.environ/SLUICE_MASTER_KEY\"\nwindow = %q\n\n[cluster]\nsecret = \"os.environ/SLUICE_CLUSTER_SECRET\"\n", fillWindow)
	for _, m := range fillMixes {
		text += fmt.Sprintf("\n[[models]]\nname = %q\nrpm = %d\nprovider = \"mock\"\nmock_response = \"hello\"\n", m.name, fillLimit)
	}
	return text
}

// benchFill asks three processes for more than a limit and counts what is
// served of it, and what that costs in the log.
func benchFill(ctx context.Context, _ options, r *report) (err error) {
	c, err := harness.Start(ctx, harness.Options{Nodes: 3, Config: fillConfig()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	key, err := governedKey(ctx, c.Nodes[0])
	if err != nil {
		return err
	}
	r.section("Fill: three processes, a limit of %d requests in windows of %s, demand %d times that, a key and a team with\nlimits of their own; %d windows of each mix.", fillLimit, fillWindow, fillDemand, fillWindows)
	for _, mix := range fillMixes {
		before, err := logIndex(ctx, c.Nodes[0])
		if err != nil {
			return err
		}
		began := time.Now()
		served, asked, err := mix.play(ctx, c, key)
		if err != nil {
			return fmt.Errorf("demand %s: %w", mix.name, err)
		}
		took := time.Since(began)
		after, err := logIndex(ctx, c.Nodes[0])
		if err != nil {
			return err
		}
		part := float64(served) / (fillLimit * fillWindows)
		r.judge("served : limit, demand "+mix.name, fmt.Sprintf("%.4f", part), fmt.Sprintf("%.2f to 1", mix.least), part >= mix.least && part <= 1)
		perNode := float64(after-before) / took.Seconds() / float64(len(c.Nodes))
		r.judge("log entries per second and node", fmt.Sprintf("%.1f", perNode), "≤ 30", perNode <= 30)
		r.line("asked for", fmt.Sprintf("%.0f/s", float64(asked)/took.Seconds()))
	}
	return nil
}

func logIndex(ctx context.Context, n *harness.Node) (uint64, error) {
	s, err := n.Admin().Status(ctx)
	if err != nil {
		return 0, err
	}
	return s.Applied, nil
}

// play sends the demand until just before the last window would end. The first
// request that is served opens the first window, and with demand at all times
// each window follows the one before it.
func (m fillMix) play(ctx context.Context, c *harness.Cluster, key string) (served, asked int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, fillWindows*fillWindow-fillWindow/10)
	defer cancel()
	var (
		wg        sync.WaitGroup
		mu        sync.Mutex
		ok, total atomic.Int64
	)
	for i, n := range c.Nodes {
		rate := m.parts[i] * fillDemand * fillLimit / fillWindow.Seconds()
		payload := target{addr: n.HTTPAddr, key: key}.request(m.name)
		pause := time.Duration(fillConns / rate * float64(time.Second))
		for range fillConns {
			wg.Go(func() {
				if e := paced(ctx, n.HTTPAddr, payload, pause, &ok, &total); e != nil {
					mu.Lock()
					defer mu.Unlock()
					err = errors.Join(err, e)
				}
			})
		}
	}
	wg.Wait()
	return ok.Load(), total.Load(), err
}

// paced sends one request every pause, or as fast as answers come if they take
// longer, and counts those that were served.
func paced(ctx context.Context, addr string, payload []byte, pause time.Duration, served, asked *atomic.Int64) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	answers := bufio.NewReaderSize(c, 16<<10)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if _, err := c.Write(payload); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		asked.Add(1)
		switch status, err := readAnswer(answers); {
		case err != nil:
			return fmt.Errorf("read the answer: %w", err)
		case status == http.StatusOK:
			served.Add(1)
		case status != http.StatusTooManyRequests:
			return fmt.Errorf("status %d", status)
		}
	}
}
