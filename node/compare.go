package node

import (
	"maps"
	"slices"
	"sync"
)

// compared remembers which processes were compared with this one.
type compared struct {
	mu   sync.Mutex
	runs map[string]string // by node id
}

// first says whether c's process is seen for the first time.
func (m *compared) first(c card) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs == nil {
		m.runs = map[string]string{}
	}
	if m.runs[c.ID] == c.Run {
		return false
	}
	m.runs[c.ID] = c.Run
	return true
}

// compare tells the operator, once for each process of another node, what
// differs there and should not. It is no reason to refuse the node: settings and
// versions are changed one node at a time.
func (n *Node) compare(c card) {
	foreign := c.ClusterID != "" && n.clusterID() != "" && c.ClusterID != n.clusterID()
	if foreign || !n.compared.first(c) {
		return
	}
	for _, setting := range slices.Sorted(maps.Keys(n.opts.Shared)) {
		if theirs, ok := c.Shared[setting]; ok && theirs != n.opts.Shared[setting] {
			n.logger.Warn("a setting differs between this node and another and must be the same on all: requests that depend on it will fail on one of them",
				"setting", setting, "member", c.ID, "address", c.Address)
		}
	}
	if c.Version != n.opts.Version {
		n.logger.Info("another node runs another version", "member", c.ID, "its_version", c.Version, "own_version", n.opts.Version)
	}
}
