package upstream

import (
	"net"
	"sync"
	"time"
)

// conn is an accepted connection that remembers what was read from it and when
// the peer closed it.
type conn struct {
	net.Conn
	id   int64
	tee  bool
	mu   sync.Mutex
	read []byte    // since the last take; only if tee
	gone time.Time // when the peer closed or reset it
	over bool      // closed by this side
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 && err == nil {
		return n, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tee {
		c.read = append(c.read, p[:n]...)
	}
	if err != nil && !c.over && c.gone.IsZero() && !isTimeout(err) {
		c.gone = time.Now()
	}
	return n, err
}

func (c *conn) Close() error {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	return c.Conn.Close()
}

// take returns the bytes read since the last call. Between two requests that is
// exactly one request, as HTTP/1.1 clients of today do not pipeline.
func (c *conn) take() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	raw := c.read
	c.read = nil
	return raw
}

func (c *conn) peerClosed() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// The HTTP server interrupts its own background read with a deadline; that is
// not the peer leaving.
func isTimeout(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}

// listener hands out conns.
type listener struct {
	net.Listener
	tee  bool
	mu   sync.Mutex
	last int64
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	return &conn{Conn: c, id: l.last, tee: l.tee}, nil
}
