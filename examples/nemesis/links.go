package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// links are the ways between the nodes: one loopback proxy for every ordered
// pair, through which the first dials the second. Any goroutine may call.
type links struct {
	addrs []string // of the nodes
	ways  [][]*way // [dialler][dialled]

	mu    sync.Mutex
	state [][]linkState // [sender][receiver]
	next  chan struct{} // closed at the next change
}

// linkState is what happens to bytes from one node to another.
type linkState struct {
	held  bool // they wait, as they do while TCP repeats them in vain
	cut   bool // connections break and new ones are closed
	delay time.Duration
}

type way struct {
	ln       net.Listener
	from, to int

	mu    sync.Mutex
	conns map[net.Conn]bool
	done  bool
}

func openLinks(addrs []string) (*links, error) {
	l := &links{addrs: addrs, next: make(chan struct{})}
	for i := range addrs {
		l.state = append(l.state, make([]linkState, len(addrs)))
		l.ways = append(l.ways, make([]*way, len(addrs)))
		for j := range addrs {
			if i == j {
				continue
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, errors.Join(fmt.Errorf("listen between nodes: %w", err), l.close())
			}
			l.ways[i][j] = &way{ln: ln, from: i, to: j, conns: map[net.Conn]bool{}}
		}
	}
	for _, row := range l.ways { // strangers may knock at once
		for _, w := range row {
			if w != nil {
				go l.serve(w)
			}
		}
	}
	return l, nil
}

// dialMap says where node i finds the proxies to the others.
func (l *links) dialMap(i int) map[string]string {
	m := map[string]string{}
	for j, addr := range l.addrs {
		if i != j {
			m[addr] = l.ways[i][j].ln.Addr().String()
		}
	}
	return m
}

// set changes what happens to bytes from each of one set to each of another.
func (l *links) set(from, to []int, change func(*linkState)) {
	l.mu.Lock()
	for _, i := range from {
		for _, j := range to {
			if i != j {
				change(&l.state[i][j])
			}
		}
	}
	close(l.next)
	l.next = make(chan struct{})
	var broken []*way
	for i := range l.state {
		for j := range l.state {
			if i != j && (l.state[i][j].cut || l.state[j][i].cut) {
				broken = append(broken, l.ways[i][j])
			}
		}
	}
	l.mu.Unlock()
	for _, w := range broken {
		w.breakOff()
	}
}

// apart separates two sets in both directions.
func (l *links) apart(a, b []int, change func(*linkState)) {
	l.set(a, b, change)
	l.set(b, a, change)
}

// heal lets all bytes pass.
func (l *links) heal() {
	all := make([]int, len(l.addrs))
	for i := range all {
		all[i] = i
	}
	l.set(all, all, func(s *linkState) { *s = linkState{} })
}

func (l *links) look(from, to int) (linkState, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state[from][to], l.next
}

func (l *links) serve(w *way) {
	for {
		c, err := w.ln.Accept()
		if err != nil {
			return
		}
		there, _ := l.look(w.from, w.to)
		back, _ := l.look(w.to, w.from)
		if there.cut || back.cut || !w.add(c) {
			_ = c.Close()
			continue
		}
		go l.join(w, c)
	}
}

// join relays one connection until either end leaves.
func (l *links) join(w *way, near net.Conn) {
	defer w.drop(near)
	far, err := net.DialTimeout("tcp", l.addrs[w.to], time.Second)
	if err != nil {
		return
	}
	if !w.add(far) {
		_ = far.Close()
		return
	}
	defer w.drop(far)
	ctx, cancel := context.WithCancel(context.Background())
	var both sync.WaitGroup
	pump := func(to, from net.Conn, sender, receiver int) {
		defer cancel()
		l.pump(ctx, to, from, sender, receiver)
	}
	both.Go(func() { pump(far, near, w.from, w.to) })
	both.Go(func() { pump(near, far, w.to, w.from) })
	<-ctx.Done()
	_, _ = near.Close(), far.Close()
	both.Wait()
}

// pump moves bytes, as the link between sender and receiver lets it.
func (l *links) pump(ctx context.Context, to io.Writer, from io.Reader, sender, receiver int) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		for n > 0 {
			s, changed := l.look(sender, receiver)
			if !s.held {
				if s.delay > 0 {
					time.Sleep(s.delay)
				}
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (l *links) close() error {
	var errs []error
	for _, row := range l.ways {
		for _, w := range row {
			if w == nil {
				continue
			}
			errs = append(errs, w.ln.Close())
			w.mu.Lock()
			w.done = true
			w.mu.Unlock()
			w.breakOff()
		}
	}
	return errors.Join(errs...)
}

func (w *way) add(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return false
	}
	w.conns[c] = true
	return true
}

func (w *way) drop(c net.Conn) {
	w.mu.Lock()
	delete(w.conns, c)
	w.mu.Unlock()
	_ = c.Close()
}

func (w *way) breakOff() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
}
