package node

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// card is what a node says of itself in a hello; both sides send one.
type card struct {
	ID        string `json:"id"`
	Address   string `json:"address"`
	Run       string `json:"run"`
	Version   string `json:"version"`
	Level     int    `json:"level,omitempty"` // absent before there were levels: 1
	ClusterID string `json:"cluster_id,omitempty"`
	// HasState says that the node runs Raft; without it, it is looking for a cluster.
	HasState bool `json:"has_state,omitempty"`
	NonVoter bool `json:"non_voter,omitempty"` // never wants to vote
	Expect   int  `json:"expect,omitempty"`
	// Shared is Options.Shared.
	Shared map[string]string `json:"shared,omitempty"`

	State      string `json:"state,omitempty"`
	Term       uint64 `json:"term,omitempty"`
	LastIndex  uint64 `json:"last_index,omitempty"`
	Applied    uint64 `json:"applied_index,omitempty"`
	LeaderID   string `json:"leader_id,omitempty"`
	LeaderAddr string `json:"leader_address,omitempty"`

	// Only in answers: what the asked one knows of the asking one.
	ListsYou bool     `json:"lists_you,omitempty"`
	YourVote bool     `json:"your_vote,omitempty"`
	Known    []server `json:"known,omitempty"` // founding nodes heard of lately
}

func (c card) leads() bool { return c.State == raft.Leader.String() }

// founds says that the node would take part in starting a new cluster.
func (c card) founds() bool { return !c.HasState && !c.NonVoter && c.Expect > 0 }

// server is a node's id and address.
type server struct {
	ID      string `json:"id"`
	Address string `json:"address"`
}

// card returns this node's own.
func (n *Node) card() card {
	c := card{
		ID: n.id, Address: n.advertise, Run: n.run, Version: n.opts.Version, Level: n.opts.Level, ClusterID: n.clusterID(),
		NonVoter: n.opts.NonVoter, Expect: n.opts.BootstrapExpect, Shared: n.opts.Shared,
	}
	if r := n.raft.Load(); r != nil {
		c.HasState = true
		c.State, c.Term, c.LastIndex, c.Applied = r.State().String(), r.CurrentTerm(), r.LastIndex(), r.AppliedIndex()
		c.LeaderID, c.LeaderAddr = n.Leader()
	}
	return c
}

// meet notes what a hello tells of another node.
func (n *Node) meet(c card) {
	if c.ID == "" || c.ID == n.id || c.Address == "" {
		return
	}
	n.compare(c)
	switch {
	case c.founds():
		n.peers.add(server{ID: c.ID, Address: c.Address})
	case c.HasState && c.ClusterID == n.clusterID():
		n.peers.drop(c.ID)
		n.book.hear(c.ID, c.Address)
	}
}

// acquaintanceTTL is how long a founding node that fell silent is remembered.
const acquaintanceTTL = 5 * time.Second

// acquaintances are founding nodes heard of lately. Nodes tell each other of
// them, so that a join list needs to name one common node only.
type acquaintances struct {
	mu    sync.Mutex
	heard map[string]heardOf
}

type heardOf struct {
	server
	at time.Time
}

func newAcquaintances() *acquaintances { return &acquaintances{heard: map[string]heardOf{}} }

func (a *acquaintances) add(s server) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard[s.ID] = heardOf{server: s, at: time.Now()}
}

func (a *acquaintances) drop(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.heard, id)
}

// list returns them in the order of their ids.
func (a *acquaintances) list() []server {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []server
	for id, h := range a.heard {
		if time.Since(h.at) > acquaintanceTTL {
			delete(a.heard, id)
			continue
		}
		out = append(out, h.server)
	}
	slices.SortFunc(out, byID)
	return out
}

func byID(a, b server) int {
	if a.ID < b.ID {
		return -1
	}
	if a.ID > b.ID {
		return 1
	}
	return 0
}
