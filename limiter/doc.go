// Package limiter decides what is admitted.
//
// It owns the Ledger (deterministic counters: windows, shares, saturation,
// concurrency slots; one function of state, batch and time) and the Gate (one
// node's permits, waiters, batcher and receipts). It must not know HTTP, Raft,
// storage or the wall clock: time, randomness and replication are passed in,
// and limits are read through Policy.
//
// A request is admitted in all the scopes that limit it or in none:
//
//	Ticket ──▶ Gate.Admit ──▶ Batch ──▶ (replicated log) ──▶ Ledger.Apply
//	                │                                            │
//	             Receipt ◀───────────── Answer ◀─────────────────┘
//	                └─ Settle ──▶ next Batch
//
// On a busy node the Batch also asks for permits (bank.go, account.go): rights
// that the Ledger has counted before, and that admit without asking it.
package limiter
