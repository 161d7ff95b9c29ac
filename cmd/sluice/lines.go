package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
)

// lineConn is a connection whose answers can be given header lines past
// net/http's header map: that map is grown, copied and sorted for each answer,
// and the rate limits are two dozen headers of it.
type lineConn struct {
	*net.TCPConn
	lines []byte // for the next answer; of the goroutine that serves the connection
	out   []byte
}

// Write puts the lines behind the status line, in the same write.
func (c *lineConn) Write(p []byte) (int, error) {
	if len(c.lines) == 0 || bytes.HasPrefix(p, []byte("HTTP/1.1 1")) { // an interim answer has none
		return c.TCPConn.Write(p)
	}
	at := bytes.IndexByte(p, '\n') + 1
	if at == 0 || !bytes.HasPrefix(p, []byte("HTTP/1.")) {
		c.lines = c.lines[:0] // not the start of an answer: they have no place
		return c.TCPConn.Write(p)
	}
	added := len(c.lines)
	c.out = append(append(append(c.out[:0], p[:at]...), c.lines...), p[at:]...)
	c.lines = c.lines[:0]
	n, err := c.TCPConn.Write(c.out)
	// The caller hears of its own bytes only.
	return max(n-added, min(n, at)), err
}

// lineListener accepts lineConns.
type lineListener struct{ net.Listener }

func (l lineListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok && err == nil {
		return &lineConn{TCPConn: tcp}, nil
	}
	return c, err
}

type linesKey struct{}

// withLines is a server's ConnContext: handlers find the connection's lines.
func withLines(ctx context.Context, c net.Conn) context.Context {
	if lc, ok := c.(*lineConn); ok {
		return context.WithValue(ctx, linesKey{}, &lc.lines)
	}
	return ctx
}

// linesOf returns where the header lines of the request's answer go, nil where
// there is no such place.
func linesOf(r *http.Request) *[]byte {
	lines, _ := r.Context().Value(linesKey{}).(*[]byte)
	return lines
}
