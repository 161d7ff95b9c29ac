// Package node keeps one replicated log among the members of a cluster and
// moves opaque bytes through it: it owns Raft, Raft's files, the one TLS port
// of the cluster, forming and joining, membership, and forwarding to the
// leader. It knows no command: what the bytes mean, how they are applied and
// which clock they carry is the business of the state machine that is passed
// in, so this package imports nothing else of the module.
//
// # Forming
//
// A node with Raft state just starts; bootstrap options are ignored, whatever
// they say. A node without state runs no Raft at all, because a Raft without a
// configuration grants its vote to anybody and a wiped voter would forget what
// it promised. It only serves the forwarding side of the port and asks: every
// address it was told to join, and every stateless node it hears of through
// them. If any answer comes from a cluster, the node asks to be added there;
// the leader removes an id that still counts as a voter (the node was wiped),
// adds it as a non-voter, and promotes it once it has caught up. Only if nobody
// belongs to a cluster, and exactly as many stateless nodes as
// Options.BootstrapExpect are there and agree on that number, the one with the
// lowest id proposes the list of all, and if all accept, bootstraps itself and
// then the others with the identical configuration. Whoever finds itself
// bootstrapped but leaderless, with nothing else in its log, repeats that for
// those that missed it. A node that holds more than that first entry is never
// bootstrapped over: its data may be the only copy of an acknowledged write.
//
// DESIGN.md beside this file says how the parts work and why.
package node
