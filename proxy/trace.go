package proxy

import (
	"context"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// trace notes what became of the connection of one call. Its hooks are bound
// once, so that a call costs no more than the context that carries them.
type trace struct {
	hooks    httptrace.ClientTrace
	reused   atomic.Bool
	answered atomic.Bool // a byte of the answer has come
}

var traces = sync.Pool{New: func() any {
	t := &trace{}
	t.hooks.GotConn = func(i httptrace.GotConnInfo) { t.reused.Store(i.Reused) }
	t.hooks.GotFirstResponseByte = func() { t.answered.Store(true) }
	return t
}}

func newTrace() *trace {
	t, _ := traces.Get().(*trace)
	t.reused.Store(false)
	t.answered.Store(false)
	return t
}

// in returns the context of the call.
func (t *trace) in(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &t.hooks)
}

// stale reports, for a call that failed, whether it met a connection from
// before that gave no byte of an answer.
func (t *trace) stale() bool { return t.reused.Load() && !t.answered.Load() }

// free gives the trace to the next call. After a failure a hook may still be
// called: then the garbage collector has it.
func (t *trace) free() { traces.Put(t) }
