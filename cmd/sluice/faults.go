//go:build !nemesis

package main

import (
	"sluice/cmd/sluice/config"
	"sluice/fsm"
	"sluice/node"
)

// faults is where the build for examples/nemesis disturbs what a node lives on.
// In this one, the product, there is nothing.
type faults struct{}

func newFaults(config.Lookup) faults { return faults{} }

func (faults) ofState(o fsm.Options) fsm.Options { return o }

func (faults) ofNode(o node.Options) node.Options { return o }
