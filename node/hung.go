package node

import (
	"fmt"
	"sync"
	"time"
)

// A disk that fails says so, and fatalStore stops the node. A disk that hangs
// says nothing: the call does not return. Raft's heartbeats never touch the
// disk, so a leader with a hung disk would lead for ever and commit nothing,
// and a follower would go on to answer from a state that grows old. The
// watchdog ends such a node; its process ends with it, a supervisor starts it
// again, and the others elect another leader meanwhile. Leadership cannot be
// handed over instead: that takes the very goroutine that waits for the disk.

// storePatience is how long one read or write of the store may take. A disk
// that is merely slow, hundreds of milliseconds for an fsync, is far from it.
const storePatience = 5 * time.Second

// watchdogTicks is how often within the patience the watchdog looks. It counts
// its looks instead of reading a clock, so that a process which was frozen, and
// its disk with it, is not taken for one whose disk hangs.
const watchdogTicks = 20

// storeCalls knows the calls of the store that have not returned yet.
type storeCalls struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]*storeCall
}

type storeCall struct {
	doing string
	looks int // how often the watchdog has found it
}

// begin notes a call; what it returns is to be called when the call returns.
func (c *storeCalls) begin(doing string) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[uint64]*storeCall{}
	}
	c.last++
	id := c.last
	c.open[id] = &storeCall{doing: doing}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, id)
	}
}

// look counts one look at every call that is open, and returns what a call is
// doing that was seen more often than limit, "" if there is none.
func (c *storeCalls) look(limit int) (doing string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.open {
		if call.looks++; call.looks > limit {
			doing = call.doing
		}
	}
	return doing
}

// watchStore stops the node when a call of its store does not return.
func (n *Node) watchStore() {
	tick := time.NewTicker(n.opts.StorePatience / watchdogTicks)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-n.stop.Done():
			return
		}
		if doing := n.calls.look(watchdogTicks); doing != "" {
			n.fail(fmt.Errorf("%s in %s: %w (nothing for %v)", doing, n.stores.path, ErrDiskHung, n.opts.StorePatience))
			return
		}
	}
}
