package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// The answers to a raft/1 greeting.
const (
	greetWelcome byte = iota
	greetForeign
	greetNotReady
)

// greetPeer opens a raft/1 connection: one length byte and the cluster's id,
// answered by one byte. It is on the stream rather than in the certificate so
// that it holds for configured certificates too.
func greetPeer(conn net.Conn, cluster string) error {
	if _, err := conn.Write(append([]byte{byte(len(cluster))}, cluster...)); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	var b [1]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	switch b[0] {
	case greetWelcome:
		return nil
	case greetForeign:
		return fmt.Errorf("greeting: peer %w", ErrForeignCluster)
	}
	return errors.New("greeting: peer runs no Raft at the moment")
}

// greeted answers greetPeer. cluster is this node's id of the cluster, "" while
// it runs no Raft.
func greeted(conn net.Conn, cluster string) error {
	var n [1]byte
	if _, err := io.ReadFull(conn, n[:]); err != nil {
		return fmt.Errorf("reading the greeting: %w", err)
	}
	got := make([]byte, n[0])
	if _, err := io.ReadFull(conn, got); err != nil {
		return fmt.Errorf("reading the greeting: %w", err)
	}
	answer, refusal := greetWelcome, error(nil)
	switch {
	case cluster == "":
		answer, refusal = greetNotReady, errors.New("this node runs no Raft at the moment")
	case string(got) != cluster:
		answer, refusal = greetForeign, fmt.Errorf("peer %w", ErrForeignCluster)
	}
	if _, err := conn.Write([]byte{answer}); err != nil {
		return fmt.Errorf("answering the greeting: %w", err)
	}
	return refusal
}

// streamLayer is Raft's view of the cluster port.
type streamLayer struct {
	*queue
	mux       *mux
	advertise string
	cluster   string
}

var _ raft.StreamLayer = (*streamLayer)(nil)

// namedAddr keeps a host name a name; Raft stores it as this node's address.
type namedAddr string

func (namedAddr) Network() string  { return "tcp" }
func (a namedAddr) String() string { return string(a) }

// Addr implements net.Listener.
func (s *streamLayer) Addr() net.Addr { return namedAddr(s.advertise) }

// Dial implements raft.StreamLayer; the name is resolved anew each time.
func (s *streamLayer) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := s.mux.dial(ctx, string(addr), protoRaft)
	if err != nil {
		return nil, err
	}
	err = conn.SetDeadline(time.Now().Add(min(timeout, handshakeTimeout)))
	if err == nil {
		err = greetPeer(conn, s.cluster)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("opening Raft to %s: %w", addr, err)
	}
	return conn, nil
}

// addressBook resolves a server's id to where it was last heard of, before the
// configuration says so: members that all moved at once find each other by it.
type addressBook struct {
	configured func(id string) (string, bool)
	mu         sync.Mutex
	heard      map[string]whereabouts
}

// whereabouts are where a server was heard of, and where the configuration had
// it then: when that changes, it knows better.
type whereabouts struct{ addr, configured string }

var _ raft.ServerAddressProvider = (*addressBook)(nil)

// ServerAddr implements raft.ServerAddressProvider.
func (b *addressBook) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if a, ok := b.lookup(string(id)); ok {
		return raft.ServerAddress(a), nil
	}
	return "", fmt.Errorf("%q: %w", id, ErrNotMember)
}

func (b *addressBook) lookup(id string) (string, bool) {
	b.mu.Lock()
	h, ok := b.heard[id]
	b.mu.Unlock()
	addr, listed := b.configured(id)
	if ok && (!listed || h.configured == addr) {
		return h.addr, true
	}
	return addr, listed
}

// hear notes where a peer says it can be dialled.
func (b *addressBook) hear(id, addr string) {
	configured, _ := b.configured(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard[id] = whereabouts{addr: addr, configured: configured}
}

// forget drops what was heard of addr, which does not answer any more.
func (b *addressBook) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.heard, id)
}
