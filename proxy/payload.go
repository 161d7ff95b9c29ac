package proxy

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// payload is a request's body on its way up. A transport may go on reading
// after its round trip has returned: a pooled buffer goes back when the handler
// and every reader that the transport was given are done with it, a small body
// is never used again.
type payload struct {
	pool *buffers
	mu   sync.Mutex
	buf  *buffer // nil once it is back in the pool, and for a small body
	own  []byte  // a small body; never changed
	size int
	refs int
}

// newPayload takes buf over.
func newPayload(pool *buffers, buf *buffer) *payload {
	p := &payload{pool: pool, size: len(buf.b), refs: 1}
	switch {
	case buf.own:
		p.own = buf.b
	case p.size <= ownBody:
		p.own = bytes.Clone(buf.b)
		pool.put(buf)
	default:
		p.buf = buf
	}
	return p
}

func (p *payload) len() int { return p.size }

// bytes returns the body. Only whoever holds a use may look at it.
func (p *payload) bytes() []byte {
	if p.own != nil {
		return p.own
	}
	return p.buf.b
}

// open returns a reader from the start. It must be closed.
//
// The transport writes headers and body at once, and not one after the other,
// only if the body's reader is one that it knows: nothing of ours around it.
// Such a reader does not tell when it is closed, hence the memory of its own.
func (p *payload) open() io.ReadCloser {
	if p.own != nil {
		return io.NopCloser(bytes.NewReader(p.own))
	}
	p.mu.Lock()
	p.refs++
	p.mu.Unlock()
	return &payloadReader{p: p}
}

// reopen is open as http.Request.GetBody wants it.
func (p *payload) reopen() (io.ReadCloser, error) { return p.open(), nil }

// release ends one use. The caller holds it exactly once.
func (p *payload) release() {
	if p.own != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refs--; p.refs == 0 {
		p.pool.put(p.buf)
		p.buf = nil
	}
}

var errPayloadClosed = errors.New("read of a closed body")

type payloadReader struct {
	p      *payload
	at     int
	closed bool
}

// Read copies under the lock, so that nothing reads the buffer after Close.
func (r *payloadReader) Read(b []byte) (int, error) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.closed {
		return 0, errPayloadClosed
	}
	n := copy(b, r.p.buf.b[r.at:])
	r.at += n
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close may be called more than once and by any goroutine.
func (r *payloadReader) Close() error {
	r.p.mu.Lock()
	closed := r.closed
	r.closed = true
	r.p.mu.Unlock()
	if !closed {
		r.p.release()
	}
	return nil
}
