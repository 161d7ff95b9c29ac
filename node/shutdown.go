package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// lastCalls is how long forwarded calls in flight may take to finish.
const lastCalls = 250 * time.Millisecond

// fail stops the node by itself, for good. It returns at once and may be called
// from Raft's own goroutines.
func (n *Node) fail(err error) {
	n.mu.Lock()
	first := n.failure == nil && n.stop.Err() == nil
	if first {
		n.failure = err
	}
	n.mu.Unlock()
	if !first {
		return
	}
	n.logger.Error("node stopped by itself", "error", err)
	n.cancel()
	n.broadcast()
	go n.haltRaft()
	n.doneOnce.Do(func() { close(n.done) })
}

// haltRaft begins Raft's shutdown and returns its future, nil if there is no
// Raft. Raft answers only the first call truly, so that one is kept.
func (n *Node) haltRaft() raft.Future {
	n.halting.Lock()
	defer n.halting.Unlock()
	select {
	case <-n.raftStop:
	default:
		close(n.raftStop)
	}
	if r := n.raft.Load(); r != nil && n.raftEnd == nil {
		n.raftEnd = r.Shutdown()
	}
	return n.raftEnd
}

// Shutdown stops the node in order: it hands over leadership (at most three
// seconds, failure ignored), closes the port, lets forwarded calls finish
// shortly and cuts every connection, then stops Raft, its transport, and the
// stores last. The node stays a member of its cluster. If ctx ends first, the
// rest is cut short and the stores are left as after a crash, which is safe.
func (n *Node) Shutdown(ctx context.Context) error {
	n.closeOnce.Do(func() { n.closeErr = n.shutdown(ctx) })
	return n.closeErr
}

func (n *Node) shutdown(ctx context.Context) error {
	if r := n.leading(); r != nil && n.stopped() == nil && n.voters(r) > 1 {
		if err := n.transferHere(ctx, r, ""); err != nil {
			n.logger.Warn("leadership could not be handed over before the stop", "error", err)
		}
	}
	var errs []error
	if err := n.mux.stopAccepting(); err != nil {
		errs = append(errs, fmt.Errorf("closing the cluster port: %w", err))
	}
	sctx, cancel := context.WithTimeout(ctx, lastCalls)
	_ = n.server.Shutdown(sctx) // what is left is cut below
	cancel()
	n.cancel()
	n.broadcast()
	_ = n.server.Close()
	n.client.close()
	n.mux.cut()

	// A start of Raft in the background ends before this lock is free.
	n.starting.Lock()
	end := n.haltRaft()
	n.starting.Unlock()
	if err := n.finish(ctx, end); err != nil {
		errs = append(errs, err)
	} else if err := n.stores.close(); err != nil {
		errs = append(errs, err)
	}
	n.doneOnce.Do(func() { close(n.done) })
	return errors.Join(errs...)
}

// finish waits for Raft, its transport and the background goroutines. A Raft
// that waits for a hung disk does not end.
func (n *Node) finish(ctx context.Context, end raft.Future) error {
	if errors.Is(n.Err(), ErrDiskHung) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, lastCalls)
		defer cancel()
	}
	ended := make(chan error, 1)
	go func() {
		var err error
		if end != nil {
			err = end.Error() // closes the transport as well
		}
		n.bg.Wait()
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("stopping raft: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping raft: %w", ctx.Err())
	}
}
