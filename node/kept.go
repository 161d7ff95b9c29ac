package node

// KeptIndex returns the last index that this node's own log and snapshots held
// when it was opened, 0 for none. What it applies beyond that is new.
func (n *Node) KeptIndex() uint64 { return n.stores.last }
