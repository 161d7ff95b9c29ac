// Package fsm is what is replicated.
//
// It owns the commands and their encoding, the keys, teams and cluster-wide
// configuration, and the limiter's Ledger; applying them, snapshots, the
// BoltDB file that caches them, and the immutable View that the data plane
// reads with one atomic load. It must not know HTTP, nor how bytes travel
// between nodes: it receives log entries (raft.FSM) and sends commands through
// a Replicator.
package fsm
