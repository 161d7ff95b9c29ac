// Package proxy is the data plane.
//
// It owns the way of one request: the cleaned path, the credential, the body
// as the upstream will read it, the choice of a deployment, the upstream
// dialects, the relay of answers and streams, and the usage found in them. It
// must not know how anything is replicated, how limits are counted, or what
// the management API looks like: who may do what is read from one fsm.View per
// request, and what is admitted is the Admitter's word.
//
//	path ─▶ credential ─▶ body ─▶ model, allow-lists ─▶ deployment ─▶ Admit
//	                                                                    │
//	            Settle ◀─ usage ◀─ relay ◀─ provider.send ◀─────────────┘
//	                                 └── before the first byte: again, ──▲
//	                                     elsewhere, or by another model
//
// Bytes are relayed as they came. In a request only the value of "model" and
// stream_options.include_usage are spliced; in an answer nothing is changed
// (its "model" is what the upstream wrote), except that usage which the client
// did not ask for is taken out of a stream again. Where a deployment speaks
// another protocol than the client all of that is translated by package
// translate.
package proxy
