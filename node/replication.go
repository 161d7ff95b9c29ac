package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// maxOutage is how long one replication attempt waits for a dead peer.
const maxOutage = time.Minute

// holdTimeout bounds how long a change of address waits for replication to stand still.
const holdTimeout = 2 * time.Second

// transport makes replication to a dead peer wait for the next heartbeat that
// reaches it. Raft alone would sleep longer after each failure, up to ten
// seconds, and a restarted member would stay behind for as long.
type transport struct {
	*raft.NetworkTransport
	book  *addressBook
	stop  <-chan struct{}
	limit time.Duration // of one exchange with a peer

	mu    sync.Mutex
	peers map[raft.ServerID]*peerState
}

// peerState is what replication to one peer waits for.
type peerState struct {
	answered chan struct{} // closed when a heartbeat gets through
	parked   int           // replication calls that wait in here
	arrived  chan struct{} // closed when one parks while the peer is held
	released chan struct{} // closed when the hold ends; nil without a hold
	pipes    map[*pipeline]struct{}
}

// errHeld makes Raft repeat a request after a hold.
var errHeld = errors.New("replication pauses while the member's address changes")

var (
	_ raft.Transport   = (*transport)(nil)
	_ raft.WithPreVote = (*transport)(nil)
	_ raft.WithClose   = (*transport)(nil)

	_ raft.AppendPipeline = (*pipeline)(nil)
)

// AppendEntries implements raft.Transport.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	select {
	case <-t.stop:
		// A node that stops by itself may have a goroutine of Raft's that will never
		// end; its heartbeats must, or the others would go on to follow it.
		return ErrClosed
	default:
	}
	heartbeat := len(args.Entries) == 0 && args.PrevLogEntry == 0 && args.PrevLogTerm == 0 && args.LeaderCommitIndex == 0
	if heartbeat {
		err := t.NetworkTransport.AppendEntries(id, target, args, resp)
		if err != nil {
			t.book.forget(string(id))
			return err
		}
		t.up(id)
		return nil
	}
	if t.park(id, false) {
		return errHeld
	}
	err := t.NetworkTransport.AppendEntries(id, target, args, resp)
	if err != nil {
		t.park(id, true)
	}
	return err
}

// peer returns the state of id; t.mu is held.
func (t *transport) peer(id raft.ServerID) *peerState {
	p := t.peers[id]
	if p == nil {
		p = &peerState{answered: make(chan struct{}), pipes: map[*pipeline]struct{}{}}
		t.peers[id] = p
	}
	return p
}

// park waits while id is held, and before that, if down is set, until it
// answers a heartbeat. It returns whether there was a hold.
func (t *transport) park(id raft.ServerID, down bool) (held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peer(id)
	p.parked++
	defer func() { p.parked-- }()
	if down {
		answered := p.answered
		t.mu.Unlock()
		timer := time.NewTimer(maxOutage)
		select {
		case <-answered:
		case <-timer.C:
		case <-t.stop:
		}
		timer.Stop()
		t.mu.Lock()
	}
	for p.released != nil {
		held = true
		released := p.released
		if p.arrived != nil {
			close(p.arrived)
			p.arrived = nil
		}
		t.mu.Unlock()
		select {
		case <-released:
		case <-t.stop:
			t.mu.Lock()
			return held
		}
		t.mu.Lock()
	}
	return held
}

func (t *transport) up(id raft.ServerID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peer(id)
	close(p.answered)
	p.answered = make(chan struct{})
}

// hold runs change, which gives member id another address, while replication
// to it stands still: Raft writes the new address next to the id that its
// replication reads without a lock. Holds of one id must not overlap.
func (t *transport) hold(ctx context.Context, id raft.ServerID, change func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, holdTimeout)
	defer cancel()
	t.mu.Lock()
	p := t.peer(id)
	released, arrived := make(chan struct{}), make(chan struct{})
	p.released, p.arrived = released, arrived
	if p.parked > 0 {
		close(arrived)
		p.arrived = nil
	}
	for pipe := range p.pipes {
		_ = pipe.AppendPipeline.Close()
	}
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		p.released, p.arrived = nil, nil
		t.mu.Unlock()
		close(released)
	}()
	select {
	case <-arrived:
		return change(ctx)
	case <-t.stop:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("pausing replication to %s: %w", id, ctx.Err())
	}
}

// AppendEntriesPipeline implements raft.Transport.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	p := &pipeline{AppendPipeline: inner, limit: t.limit, closed: make(chan struct{})}
	t.mu.Lock()
	state := t.peer(id)
	held := state.released != nil
	state.pipes[p] = struct{}{}
	t.mu.Unlock()
	if held {
		_ = inner.Close()
	}
	p.leave = func() {
		t.mu.Lock()
		delete(state.pipes, p)
		t.mu.Unlock()
	}
	go func() {
		select {
		case <-t.stop:
			_ = inner.Close()
		case <-p.closed:
		}
	}()
	return p, nil
}

// pipeline breaks a deadlock of Raft's own: when leadership or Raft ends while
// requests are in flight, the reader of the answers leaves, the connection
// waits to deliver one, and the sender waits to hand over the next, for ever.
// Raft's shutdown then never ends. Closing the pipeline frees all three.
type pipeline struct {
	raft.AppendPipeline
	limit  time.Duration // longer than any answer may take
	leave  func()
	once   sync.Once
	closed chan struct{}
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	stuck := time.AfterFunc(p.limit, func() { _ = p.AppendPipeline.Close() })
	defer stuck.Stop()
	return p.AppendPipeline.AppendEntries(args, resp)
}

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() {
		close(p.closed)
		p.leave()
	})
	return p.AppendPipeline.Close()
}
