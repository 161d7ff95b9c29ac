// Package admin is the control plane: the HTTP handlers that manage keys,
// teams, priorities, configuration and the cluster, and the typed client that
// the command line uses to call them.
//
// It owns the wire shapes of management (what a script sees), how bodies are
// read and checked, and how an error becomes a status. It must not know how
// anything is stored or replicated: writes go to a Store, reads come from a
// State, membership from a Cluster, and the caller's identity from
// Options.Authenticate.
//
//	request ──▶ route table ──▶ caller ──▶ body ──▶ handler ──▶ Store / State / Cluster
//	                                                   │
//	                             one place renders  ◀──┘ value or *Error
//
// Every rule that two nodes could race on (unique aliases, existence, merging of
// updates) is the Store's. What is looked up before a write only finds names: the
// keys behind aliases, and whether a key's team exists.
package admin
