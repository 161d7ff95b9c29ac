package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	handshakeTimeout = 5 * time.Second
	// maxHandshakes bounds what strangers can make this node hold open.
	maxHandshakes = 256
	dialTimeout   = time.Second
)

// mux owns the cluster port: it accepts, shakes hands under a deadline, and
// hands each connection to the queue of its protocol. It also tracks every
// connection of the node, in both directions, so that shutdown can cut them.
type mux struct {
	ln      net.Listener
	creds   *credentials
	logger  *slog.Logger
	raft    *queue
	forward *queue
	connect func(ctx context.Context, addr string) (net.Conn, error)
	// greet settles a raft/1 connection before Raft sees it.
	greet func(net.Conn) error

	ctx    context.Context // ends at close
	cancel context.CancelFunc
	slots  chan struct{}
	wg     sync.WaitGroup

	mu     sync.Mutex
	conns  map[*trackedConn]struct{}
	closed bool
}

func newMux(ln net.Listener, o Options, creds *credentials, logger *slog.Logger, greet func(net.Conn) error) *mux {
	ctx, cancel := context.WithCancel(context.Background())
	return &mux{
		ln: ln, creds: creds, logger: logger, connect: o.Dial, greet: greet,
		raft: newQueue(ln.Addr()), forward: newQueue(ln.Addr()),
		ctx: ctx, cancel: cancel,
		slots: make(chan struct{}, maxHandshakes),
		conns: map[*trackedConn]struct{}{},
	}
}

// start accepts in the background until stopAccepting.
func (m *mux) start() {
	m.wg.Add(1)
	go m.serve()
}

func (m *mux) serve() {
	defer m.wg.Done()
	for pause := time.Duration(0); ; {
		conn, err := m.ln.Accept()
		if m.ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		if err != nil {
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			m.logger.Warn("cluster port cannot accept", "error", err, "pause", pause)
			select {
			case <-time.After(pause):
			case <-m.ctx.Done():
			}
			continue
		}
		pause = 0
		select {
		case m.slots <- struct{}{}:
			m.wg.Add(1)
			go m.handle(conn)
		default:
			_ = conn.Close()
		}
	}
}

// handle shakes hands and queues the connection.
func (m *mux) handle(raw net.Conn) {
	defer m.wg.Done()
	tracked, err := m.track(raw, raw)
	if err == nil {
		err = m.welcome(tracked)
	}
	if err != nil {
		_ = raw.Close()
		m.logger.Debug("cluster connection refused", "peer", raw.RemoteAddr().String(), "error", err)
	}
	<-m.slots
}

func (m *mux) welcome(c *trackedConn) error {
	deadline := time.Now().Add(handshakeTimeout)
	ctx, cancel := context.WithDeadline(m.ctx, deadline)
	defer cancel()
	conn := tls.Server(c.Conn, m.creds.server())
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return fmt.Errorf("shaking hands: %w", err)
	}
	c.Conn = conn
	var q *queue
	switch p := conn.ConnectionState().NegotiatedProtocol; p {
	case protoForward:
		q = m.forward
	case protoRaft:
		q = m.raft
		if err := conn.SetDeadline(deadline); err != nil {
			_ = c.Close()
			return fmt.Errorf("setting a deadline: %w", err)
		}
		if err := m.greet(conn); err != nil {
			_ = c.Close()
			return err
		}
		if err := conn.SetDeadline(time.Time{}); err != nil {
			_ = c.Close()
			return fmt.Errorf("clearing the deadline: %w", err)
		}
	default:
		_ = c.Close()
		return fmt.Errorf("peer speaks none of this port's protocols (%q)", p)
	}
	return q.put(c)
}

// dial connects to addr, a name that is resolved now, for one protocol.
func (m *mux) dial(ctx context.Context, addr, proto string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	raw, err := m.connect(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", addr, err)
	}
	conn := tls.Client(raw, m.creds.client(proto))
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("shaking hands with %s: %w", addr, err)
	}
	if got := conn.ConnectionState().NegotiatedProtocol; got != proto {
		_ = raw.Close()
		return nil, fmt.Errorf("%s does not speak %s", addr, proto)
	}
	return m.track(conn, raw)
}

// track lists c, whose bytes travel over raw.
func (m *mux) track(c, raw net.Conn) (*trackedConn, error) {
	t := &trackedConn{Conn: c, raw: raw, m: m}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	m.conns[t] = struct{}{}
	return t, nil
}

// stopAccepting closes the listener; connections live on.
func (m *mux) stopAccepting() error {
	m.cancel()
	err := m.ln.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// cut closes the listener, every connection and the queue of calls. The queue
// of Raft is its transport's to close: closed under it, it logs an error.
func (m *mux) cut() {
	_ = m.stopAccepting() // reported by whoever called it before
	m.mu.Lock()
	m.closed = true
	conns := m.conns
	m.conns = map[*trackedConn]struct{}{}
	m.mu.Unlock()
	for c := range conns {
		_ = c.raw.Close()
	}
	_ = m.forward.Close()
	m.wg.Wait()
}

// trackedConn leaves the mux's list when it is closed.
type trackedConn struct {
	net.Conn // the TLS connection once hands are shaken
	raw      net.Conn
	m        *mux
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	c.m.mu.Lock()
	delete(c.m.conns, c)
	c.m.mu.Unlock()
	return c.Conn.Close()
}

// queue is a listener fed with connections that are ready.
type queue struct {
	addr net.Addr
	ch   chan net.Conn
	done chan struct{}
	once sync.Once
}

var _ net.Listener = (*queue)(nil)

func newQueue(addr net.Addr) *queue {
	return &queue{addr: addr, ch: make(chan net.Conn), done: make(chan struct{})}
}

// put waits until somebody accepts c; a consumer that left does not block it.
func (q *queue) put(c net.Conn) error {
	t := time.NewTimer(handshakeTimeout)
	defer t.Stop()
	select {
	case q.ch <- c:
		return nil
	case <-q.done:
	case <-t.C:
	}
	_ = c.Close()
	return net.ErrClosed
}

// Accept implements net.Listener.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.ch:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (q *queue) Close() error {
	q.once.Do(func() { close(q.done) })
	return nil
}

// Addr implements net.Listener.
func (q *queue) Addr() net.Addr { return q.addr }
