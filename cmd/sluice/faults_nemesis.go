//go:build nemesis

package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"sync/atomic"
	"time"

	"sluice/cmd/sluice/config"
	"sluice/fsm"
	"sluice/node"
)

// faults disturbs what a node lives on, as examples/nemesis asks: the way to
// the other nodes, the disk under the log, and the wall clock.
//
// SLUICE_NEMESIS names a JSON file that is looked at every few milliseconds:
//
//	{"dial": {"127.0.0.1:4101": "127.0.0.1:40001"}, "write_delay_ms": 200, "clock_offset_ms": -3600000}
//
// dial says where a connection to a member's address goes instead.
type faults struct{ now *atomic.Pointer[faultFile] }

type faultFile struct {
	Dial          map[string]string `json:"dial"`
	WriteDelayMS  int64             `json:"write_delay_ms"`
	ClockOffsetMS int64             `json:"clock_offset_ms"`
}

const faultsEvery = 20 * time.Millisecond

func newFaults(lookup config.Lookup) faults {
	f := faults{now: &atomic.Pointer[faultFile]{}}
	f.now.Store(&faultFile{})
	path, _ := lookup("SLUICE_NEMESIS")
	if path == "" {
		return f
	}
	f.read(path)
	go func() { // lives as long as the process
		for range time.Tick(faultsEvery) {
			f.read(path)
		}
	}()
	return f
}

// read keeps what it knew when the file is just being replaced.
func (f faults) read(path string) {
	text, err := os.ReadFile(path)
	next := &faultFile{}
	if err == nil && json.Unmarshal(text, next) == nil {
		f.now.Store(next)
	}
}

func (f faults) ofState(o fsm.Options) fsm.Options {
	o.Now = func() time.Time {
		return time.Now().Add(time.Duration(f.now.Load().ClockOffsetMS) * time.Millisecond)
	}
	return o
}

func (f faults) ofNode(o node.Options) node.Options {
	o.BeforeWrite = func() { time.Sleep(time.Duration(f.now.Load().WriteDelayMS) * time.Millisecond) }
	o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
		if other, ok := f.now.Load().Dial[addr]; ok {
			addr = other
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
	return o
}
