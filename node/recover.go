package node

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
)

// recoveringFile exists from the first to the last step of a recovery.
const recoveringFile = "recovering"

// Peer is a node's id and cluster address.
type Peer struct{ ID, Address string }

// RecoverOptions configure Recover. All but ID and Logger are required.
type RecoverOptions struct {
	// DataDir is the directory of a stopped node.
	DataDir string
	// ID is the configured id, if any.
	ID string
	// Peers are the members from now on, all of them voters, this node among
	// them. Each was a member before and keeps its data.
	Peers []Peer
	// FSM is an empty state machine, which is of no use afterwards.
	FSM raft.FSM
	// Logger receives Raft's messages. Default: none.
	Logger *slog.Logger
}

// Recovered says what Recover did.
type Recovered struct {
	NodeID string
	Before []Peer // members until now
	// Cluster is the new id of the cluster. It follows from the old one and from
	// Peers, so that it is the same on every node that is recovered alike.
	Cluster string
	Index   uint64 // of the last entry that this node has
	// Unchanged says that there was nothing to do: Peers are the members already.
	Unchanged bool
}

// Recover makes Peers the members of a stopped node's cluster, whatever a
// majority of the old members would say. All entries of the node's log count as
// committed. The cluster gets another id, so that members that were given up
// and come back can neither outvote the recovered ones nor feed them old
// entries. It refuses with ErrLocked, ErrDamaged, or an error that says what to
// change; nothing is changed then.
func Recover(o RecoverOptions) (Recovered, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	path := filepath.Join(o.DataDir, raftDir, raftFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return Recovered{}, fmt.Errorf("there is no log in %s: check the data directory; a node without data has nothing to recover, it joins", o.DataDir)
	}
	st, err := openStores(o.DataDir, func() {}, o.Logger)
	if err != nil {
		return Recovered{}, err
	}
	r, err := recoverStores(o, st)
	return r, errors.Join(err, st.close())
}

func recoverStores(o RecoverOptions, st *stores) (Recovered, error) {
	if !st.hasState {
		return Recovered{}, fmt.Errorf("the log in %s is empty: a node without data has nothing to recover, it joins", o.DataDir)
	}
	id, err := nodeID(o.DataDir, o.ID, true)
	if err != nil {
		return Recovered{}, err
	}
	cluster, err := readID(o.DataDir, clusterIDFile)
	if err == nil && cluster == "" {
		err = damaged(o.DataDir, fmt.Errorf("there is a log but no file %s", clusterIDFile))
	}
	if err != nil {
		return Recovered{}, err
	}
	before, err := st.configuration()
	if err != nil {
		return Recovered{}, err
	}
	if err := checkPeers(id, o.Peers, before); err != nil {
		return Recovered{}, err
	}
	out := Recovered{NodeID: id, Cluster: cluster, Index: st.last}
	for _, s := range before.Servers {
		out.Before = append(out.Before, Peer{ID: string(s.ID), Address: string(s.Address)})
	}
	begun, err := readID(o.DataDir, recoveringFile)
	switch {
	case err != nil:
		return Recovered{}, err
	case begun == cluster: // only the last step is missing
		return out, endRecovery(o.DataDir)
	case begun == "" && sameMembers(o.Peers, before):
		out.Unchanged = true
		return out, nil
	}
	out.Cluster = recoveredID(cluster, o.Peers)
	return out, st.recover(o, id, out.Cluster)
}

// recover rewrites the stores. If it is interrupted, the node does not start
// until it was repeated.
func (s *stores) recover(o RecoverOptions, id, cluster string) error {
	if err := writeID(o.DataDir, recoveringFile, cluster); err != nil {
		return err
	}
	var servers []server
	for _, p := range o.Peers {
		servers = append(servers, server(p))
	}
	_, trans := raft.NewInmemTransport("") // only its encoding is used
	conf := Options{}.withDefaults().raftConfig(id, false, o.Logger)
	err := inRaft(func() error {
		return raft.RecoverCluster(conf, o.FSM, s, s, s.snaps, trans, configuration(servers))
	})
	if err != nil {
		return fmt.Errorf("recovering the log: %w", diskError(err))
	}
	if err := writeID(o.DataDir, clusterIDFile, cluster); err != nil {
		return err
	}
	return endRecovery(o.DataDir)
}

func endRecovery(dir string) error {
	if err := os.Remove(filepath.Join(dir, recoveringFile)); err != nil {
		return fmt.Errorf("ending the recovery: %w", err)
	}
	return syncDir(dir)
}

// configuration returns the last one that the snapshots and the log hold,
// committed or not.
func (s *stores) configuration() (raft.Configuration, error) {
	var conf raft.Configuration
	snaps, err := s.snaps.List()
	if err != nil {
		return conf, fmt.Errorf("listing snapshots: %w", err)
	}
	if len(snaps) > 0 {
		conf = snaps[0].Configuration
	}
	last, err := s.LastIndex()
	if err != nil {
		return conf, s.damaged("last entry: %w", err)
	}
	for i := s.snapshot + 1; i <= last; i++ {
		var l raft.Log
		if err := s.GetLog(i, &l); err != nil {
			return conf, err
		}
		if l.Type == raft.LogConfiguration {
			conf = raft.DecodeConfiguration(l.Data)
		}
	}
	return conf, nil
}

// checkPeers refuses a list that cannot be meant.
func checkPeers(id string, peers []Peer, before raft.Configuration) error {
	var known []string
	for _, s := range before.Servers {
		known = append(known, string(s.ID))
	}
	seen := map[string]bool{}
	for _, p := range peers {
		if err := checkDialled(p.Address); err != nil {
			return fmt.Errorf("peer %s: %w", p.ID, err)
		}
		if !slices.Contains(known, p.ID) {
			return fmt.Errorf("peer %s was no member of this cluster (%s): list only nodes that keep their data, new ones join afterwards", p.ID, strings.Join(known, ", "))
		}
		if seen[p.ID] || seen[p.Address] {
			return fmt.Errorf("peer %s=%s is listed twice", p.ID, p.Address)
		}
		seen[p.ID], seen[p.Address] = true, true
	}
	if !seen[id] {
		return fmt.Errorf("this is node %s, which is not among the peers: list it with the address that the others are to dial", id)
	}
	return nil
}

func sameMembers(peers []Peer, conf raft.Configuration) bool {
	if len(peers) != len(conf.Servers) {
		return false
	}
	for _, s := range conf.Servers {
		if s.Suffrage != raft.Voter || !slices.Contains(peers, Peer{ID: string(s.ID), Address: string(s.Address)}) {
			return false
		}
	}
	return true
}

// recoveredID derives the id of the recovered cluster.
func recoveredID(cluster string, peers []Peer) string {
	sorted := slices.SortedFunc(slices.Values(peers), func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	sum := sha256.Sum256(fmt.Appendf(nil, "recovered %s %q", cluster, sorted))
	return hex.EncodeToString(sum[:8])
}
