package admin

import (
	"context"
)

// ClusterStatus answers GET /cluster/status, seen from one node.
type ClusterStatus struct {
	NodeID       string      `json:"node_id"`
	ClusterID    string      `json:"cluster_id"`
	Version      string      `json:"version"`
	State        string      `json:"state"` // leader, follower, candidate, forming, …
	Term         uint64      `json:"term"`
	Leader       *NodeRef    `json:"leader"` // null: none known
	LastLogIndex uint64      `json:"last_log_index"`
	CommitIndex  uint64      `json:"commit_index"`
	AppliedIndex uint64      `json:"applied_index"`
	Limits       string      `json:"limits"` // exact | share | allow
	Nodes        []NodeState `json:"nodes"`
	// Digest is there when it was asked for with ?digest=1.
	Digest *StateDigest `json:"digest,omitempty"`
}

// StateDigest is a checksum of a node's replica. Nodes that have applied the
// same index have the same one.
type StateDigest struct {
	AppliedIndex uint64 `json:"applied_index"`
	SHA256       string `json:"sha256"`
}

// NodeRef names a node and its cluster address.
type NodeRef struct {
	ID      string `json:"id"`
	Address string `json:"address"`
}

// NodeState is one member. AppliedIndex and Version are null where the node
// could not be asked.
type NodeState struct {
	ID           string  `json:"id"`
	Address      string  `json:"address"`
	Voter        bool    `json:"voter"`
	Leader       bool    `json:"leader"`
	Reachable    bool    `json:"reachable"`
	AppliedIndex *uint64 `json:"applied_index"`
	Version      *string `json:"version"`
}

// NodeAnswer answers /cluster/remove and /cluster/transfer.
type NodeAnswer struct {
	Status string `json:"status"` // removed | transferred
	Node   string `json:"node"`   // "" if any node was good enough
}

func (a *Admin) clusterStatus(ctx context.Context, c *call) (any, error) {
	s := a.o.Cluster.Status(ctx)
	if s.Limits == "" {
		s.Limits = a.o.Mode()
	}
	if s.Nodes == nil {
		s.Nodes = []NodeState{}
	}
	if c.query.Get("digest") == "1" {
		s.Digest = a.digest()
	}
	return s, nil
}

// digest lets one caller at a time encode the state.
func (a *Admin) digest() *StateDigest {
	a.digesting.Lock()
	defer a.digesting.Unlock()
	index, sum := a.o.State.DigestAt()
	return &StateDigest{AppliedIndex: index, SHA256: sum}
}

// removeNode answers POST /cluster/remove {"node"}.
func (a *Admin) removeNode(ctx context.Context, c *call) (any, error) {
	id, err := c.body.required("node")
	if err != nil {
		return nil, err
	}
	c.target = clip(id)
	if err := a.o.Cluster.Remove(ctx, id); err != nil {
		return nil, err
	}
	return NodeAnswer{Status: "removed", Node: id}, nil
}

// transferLeadership answers POST /cluster/transfer {"node"?}.
func (a *Admin) transferLeadership(ctx context.Context, c *call) (any, error) {
	id, err := c.body.text("node")
	if err != nil {
		return nil, err
	}
	c.target = clip(id)
	if err := a.o.Cluster.Transfer(ctx, id); err != nil {
		return nil, err
	}
	return NodeAnswer{Status: "transferred", Node: id}, nil
}
