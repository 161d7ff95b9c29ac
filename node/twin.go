package node

import (
	"context"
	"fmt"
)

// Two processes may come to run under one id: a configuration or a data
// directory was copied, or a node that hung wakes up after it was started anew
// elsewhere. The member is the one at the address that the leader's
// configuration names, as long as it answers there. The other gets no entries
// and no votes, for they would count as the member's, and ends.

// inUse returns ErrReplaced for the node of c if the member of its id runs at
// another address.
func (n *Node) inUse(ctx context.Context, c card) error {
	addr, ok := n.configuredAddress(c.ID)
	if !ok || addr == c.Address || c.ID == n.id {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var holder card
	// A hop is answered without a look at who asks, or nodes that have all moved
	// would go on to ask each other.
	err := n.client.callJSON(ctx, addr, request{path: pathHello, idempotent: true, hop: true}, n.card(), &holder)
	if err != nil || holder.ID != c.ID || holder.Run == c.Run || !holder.HasState || holder.ClusterID != n.clusterID() {
		return nil
	}
	return replacedBy(c.ID, addr)
}

func replacedBy(id, addr string) error {
	return fmt.Errorf("%w: a member with the id %s runs at %s already: if it has taken this one's place, delete this data directory, else give this node an id and a data directory of its own", ErrReplaced, id, addr)
}

// known takes note of what a hello tells, unless its sender is not the member
// that it says to be.
func (n *Node) known(ctx context.Context, c card) error {
	if c.HasState && c.ClusterID == n.clusterID() {
		if err := n.inUse(ctx, c); err != nil {
			return err
		}
	}
	n.meet(c)
	return nil
}
