package harness

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports that are asked for with :0 come from the range that outgoing
// connections use too. A node that restarts on its old address could then find
// a client's connection sitting on it. So ports are drawn below that range.
const (
	lowestPort  = 20_000
	highestPort = 32_000
)

// ports are given out once per process.
type ports struct {
	low, high int
	mu        sync.Mutex
	given     map[int]bool
}

// take returns n loopback addresses that nobody listens on.
func (p *ports) take(n int) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given == nil {
		p.given = make(map[int]bool)
	}
	var addrs []string
	for range 1000 {
		if len(addrs) == n {
			return addrs, nil
		}
		port := p.low + rand.IntN(p.high-p.low+1)
		if p.given[port] {
			continue
		}
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue // somebody else's
		}
		if err := l.Close(); err != nil {
			return nil, fmt.Errorf("probe %s: %w", addr, err)
		}
		p.given[port] = true
		addrs = append(addrs, addr)
	}
	return nil, errors.New("find free loopback ports: too many are taken")
}
