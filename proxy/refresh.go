package proxy

import (
	"context"
	"sync"
	"time"
)

// refreshTimeout bounds one question to the leader.
const refreshTimeout = 3 * time.Second

// refresher asks the leader on behalf of many: one question at a time, and an
// answer counts only for those who were waiting before it was asked. So a flood
// of unknown keys costs one question per round trip, and a key that was
// acknowledged before a request came is found by it, whatever was asked before.
// (Remembering misses could not promise that: the creation may have been
// acknowledged elsewhere and not yet be applied here.)
type refresher struct {
	ask func(context.Context) error

	mu  sync.Mutex
	now *question // being asked
	nxt *question // to be asked when now is answered
}

type question struct {
	done chan struct{}
	err  error
}

func newRefresher(ask func(context.Context) error) *refresher {
	return &refresher{ask: ask}
}

// wait returns after a question that was asked after the call has been
// answered. Any goroutine may call it.
func (r *refresher) wait(ctx context.Context) error {
	r.mu.Lock()
	var q *question
	switch {
	case r.now == nil:
		q = &question{done: make(chan struct{})}
		r.now = q
		go r.run()
	case r.nxt == nil:
		q = &question{done: make(chan struct{})}
		r.nxt = q
	default:
		q = r.nxt
	}
	r.mu.Unlock()
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run asks until nobody waits any more.
func (r *refresher) run() {
	r.mu.Lock()
	q := r.now
	r.mu.Unlock()
	for q != nil {
		ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
		q.err = r.ask(ctx)
		cancel()
		close(q.done)
		r.mu.Lock()
		r.now, r.nxt = r.nxt, nil
		q = r.now
		r.mu.Unlock()
	}
}
