// Package fsm is what is replicated.
//
// It owns the commands and their encoding, the keys, teams and cluster-wide
// configuration, and the limiter's Ledger; applying them, snapshots, the
// BoltDB file that caches them, and the immutable View that the data plane
// reads with one atomic load. It must not know HTTP, nor how bytes travel
// between nodes: it receives log entries (raft.FSM) and sends commands through
// a Replicator.
//
//	Client ──command──▶ Replicator ──▶ (leader: State.Prepare) ──▶ log
//	   │                                                            │
//	   └─ waits: State.WaitApplied ◀── State.Apply ◀────────────────┘
//	                                       │
//	        View (atomic) ◀── keys, teams, configuration; Ledger (locked)
//
// Apply is a function of the state and the entry. What it judges by (the rules
// for records and configurations, the bounds of its tables) is therefore part
// of the log's format: replicas of two versions must judge alike, and a change
// needs a new command type, which raises CommandLevel.
package fsm
