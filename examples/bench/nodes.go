package main

import (
	"context"
	"errors"
	"fmt"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

// benchNodes compares a node of three with a node that is alone.
func benchNodes(ctx context.Context, o options, r *report) (err error) {
	up, err := upstream.Start(upstream.Options{Keep: -1})
	if err != nil {
		return err
	}
	defer up.Close()
	var targets []target
	for _, nodes := range []int{1, 3} {
		c, err := harness.Start(ctx, harness.Options{Nodes: nodes, Config: gatewayConfig(up.URL())})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		key, err := governedKey(ctx, c.Nodes[0])
		if err != nil {
			return err
		}
		for _, n := range c.Nodes {
			targets = append(targets, target{name: fmt.Sprintf("%s of %d", n.ID, nodes), addr: n.HTTPAddr, key: key, pid: n.PID()})
		}
	}
	const conns = 64
	m, err := compare(ctx, o, targets, benchModel, conns)
	if err != nil {
		return err
	}
	r.section("Nodes: the load falls on one node at a time, which has the same cores whether it is alone or one of three; what\nits two peers spend on the log meanwhile is taken from those cores too, so the ratio errs against the cluster.")
	for i, t := range targets {
		r.line(fmt.Sprintf("%s, %d connections", t.name, conns), fmt.Sprintf("%.0f/s, p50 %s", m[i].perSecond, micros(m[i].p50)))
	}
	var ratios []float64
	for _, one := range m[1:] {
		ratios = append(ratios, one.versus(m[0])...)
	}
	ratio := median(ratios)
	r.judge("a node of three : a node alone, requests per second", fmt.Sprintf("%.2f", ratio), "≥ 0.9", ratio >= 0.9)
	return nil
}
