package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// transferTimeout bounds a leadership transfer, which Raft itself does not.
const transferTimeout = 3 * time.Second

// transferHere hands leadership of r to the voter id, to the best one if id is
// empty. While a transfer is going on Raft takes no command, so it is begun only
// with a voter that answers.
func (n *Node) transferHere(ctx context.Context, r *raft.Raft, id string) error {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	if id == n.id {
		return nil
	}
	to, err := n.heirs(r, id)
	if err != nil {
		return err
	}
	s, ok := best(to, n.askDue(ctx, to, tending{}), n.clusterID())
	if !ok {
		return fmt.Errorf("%w: no answer from %s", ErrNotTransferred, names(to))
	}
	err = n.await(ctx, func() error { return r.LeadershipTransferToServer(s.ID, s.Address).Error() })
	if errors.Is(err, raft.ErrNotLeader) {
		return errNotLeader
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotTransferred, err)
	}
	return nil
}

// heirs returns the voters that may take over: the one named, or all others.
func (n *Node) heirs(r *raft.Raft, id string) ([]raft.Server, error) {
	if id != "" {
		s, ok := n.member(id)
		switch {
		case !ok:
			return nil, fmt.Errorf("%q: %w", id, ErrNotMember)
		case s.Suffrage != raft.Voter:
			return nil, fmt.Errorf("%q: %w", id, ErrNotVoter)
		}
		return []raft.Server{s}, nil
	}
	var out []raft.Server
	for _, s := range votersOf(r) {
		if string(s.ID) != n.id {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: there is no other voter", ErrNotVoter)
	}
	return out, nil
}

// best returns the server that answered and whose log is the longest. One that
// wants no vote comes last.
func best(servers []raft.Server, cards map[raft.ServerID]card, cluster string) (out raft.Server, ok bool) {
	var top card
	for _, s := range servers {
		c := cards[s.ID]
		if c.ID != string(s.ID) || !c.HasState || c.ClusterID != cluster {
			continue
		}
		better := top.NonVoter && !c.NonVoter || top.NonVoter == c.NonVoter && c.LastIndex > top.LastIndex
		if !ok || better {
			out, top, ok = s, c, true
		}
	}
	return out, ok
}

func names(servers []raft.Server) string {
	text := ""
	for i, s := range servers {
		if i > 0 {
			text += ", "
		}
		text += string(s.ID)
	}
	return text
}

// TimeoutNow implements raft.Transport. Raft takes no command until this
// returns, and the transport's own patience is long: a node that has begun to
// hang must not stop the others for so long.
func (t *transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	type outcome struct {
		resp raft.TimeoutNowResponse
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		o.err = t.NetworkTransport.TimeoutNow(id, target, args, &o.resp)
		done <- o
	}()
	timer := time.NewTimer(probeTimeout)
	defer timer.Stop()
	select {
	case o := <-done:
		*resp = o.resp
		return o.err
	case <-timer.C:
		return fmt.Errorf("handing over to %s: no answer", id)
	}
}
