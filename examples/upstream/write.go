package upstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// send plays an answer. It returns when the answer is out or the peer has left.
func (s *Server) send(ctx context.Context, w http.ResponseWriter, a answer, step Step) {
	if step.Gzip {
		a.chunks = pack(a.chunks)
		a.header.Set("Content-Encoding", "gzip")
	}
	if step.Raw || step.End != EndComplete {
		s.sendByHand(ctx, w, a, step)
		return
	}
	if !s.sleep(ctx, step.DelayMS) {
		return
	}
	for k, v := range a.header {
		w.Header()[k] = v
	}
	if a.whole {
		w.Header().Set("Content-Length", strconv.Itoa(size(a.chunks)))
	}
	w.WriteHeader(a.status)
	flush := http.NewResponseController(w)
	for _, c := range a.chunks {
		if !s.sleep(ctx, c.DelayMS) {
			return
		}
		if _, err := w.Write(c.data()); err != nil {
			return
		}
		if a.whole {
			continue
		}
		if err := flush.Flush(); err != nil {
			return
		}
	}
}

// sendByHand takes the connection over, so that it can break HTTP's rules.
func (s *Server) sendByHand(ctx context.Context, w http.ResponseWriter, a answer, step Step) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // no connection left to break
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	left := make(chan struct{})
	go func() { // the only sign of a peer that leaves is a read that ends
		defer close(left)
		defer cancel()
		_, _ = io.Copy(io.Discard, c)
	}()
	if !s.sleep(ctx, step.DelayMS) {
		return
	}
	_, sized := a.header["Content-Length"]
	chunked := !sized && !a.whole
	if !step.Raw {
		if _, err := c.Write(head(a, chunked)); err != nil {
			return
		}
	}
	for _, part := range a.chunks {
		if !s.sleep(ctx, part.DelayMS) {
			return
		}
		data := part.data()
		if chunked && !step.Raw {
			data = fmt.Appendf(nil, "%x\r\n%s\r\n", len(data), data)
		}
		if _, err := c.Write(data); err != nil {
			return
		}
	}
	s.end(c, step, chunked, left)
}

// end does to the connection what the script says.
func (s *Server) end(c net.Conn, step Step, chunked bool, left <-chan struct{}) {
	switch step.End {
	case EndReset:
		if t, ok := tcp(c); ok {
			_ = t.SetLinger(0) // makes Close send a reset
		}
	case EndHalfClose:
		if t, ok := tcp(c); ok {
			_ = t.CloseWrite()
		}
		s.wait(left)
	case EndSilence:
		s.wait(left)
	case EndIdleClose:
		if chunked {
			_, _ = io.WriteString(c, "0\r\n\r\n")
		}
	}
}

func (s *Server) wait(left <-chan struct{}) {
	select {
	case <-left:
	case <-s.closing:
	}
}

func tcp(c net.Conn) (*net.TCPConn, bool) {
	if own, ok := c.(*conn); ok {
		c = own.Conn
	}
	t, ok := c.(*net.TCPConn)
	return t, ok
}

// head is the status line and the headers of an answer written by hand.
func head(a answer, chunked bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", a.status, http.StatusText(a.status))
	_ = a.header.Write(&b) // a bytes.Buffer takes all
	switch {
	case chunked:
		b.WriteString("Transfer-Encoding: chunked\r\n")
	case a.header.Get("Content-Length") == "":
		fmt.Fprintf(&b, "Content-Length: %d\r\n", size(a.chunks))
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

func size(chunks []Chunk) int {
	n := 0
	for _, c := range chunks {
		n += len(c.data())
	}
	return n
}

// pack compresses the chunks as one gzip stream that is flushed at each of them.
func pack(chunks []Chunk) []Chunk {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	packed := make([]Chunk, len(chunks))
	for i, c := range chunks {
		_, _ = z.Write(c.data()) // a bytes.Buffer takes all
		if i == len(chunks)-1 {
			_ = z.Close()
		} else {
			_ = z.Flush()
		}
		packed[i] = Chunk{Bytes: bytes.Clone(buf.Bytes()), DelayMS: c.DelayMS}
		buf.Reset()
	}
	return packed
}

// sleep reports false if the peer left or the server closed meanwhile.
func (s *Server) sleep(ctx context.Context, ms int) bool {
	if ms <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	case <-s.closing:
		return false
	}
}
