package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// memory is how many bytes of bodies a node holds at once. Bodies are read
// before anybody is asked whether their requests may go up, so it is this that
// bounds what many large ones can take.
type memory struct {
	limit int64
	used  atomic.Int64
}

// take takes n bytes, or none if there are not so many left.
func (m *memory) take(n int64) bool {
	if m.used.Add(n) > m.limit {
		m.used.Add(-n)
		return false
	}
	return true
}

func (m *memory) put(n int64) {
	if n > 0 {
		m.used.Add(-n)
	}
}

const (
	// freeBody is how much of every body is not counted: connections are bounded
	// by other means.
	freeBody = 64 << 10
	// memoryStep is what is taken at a time, as bytes come.
	memoryStep = 256 << 10
)

var errNoMemory = errors.New("no memory left for bodies")

// heldReader takes memory for what it reads. A body that finds none is refused
// at once: to wait in the middle of one, with half of it held, is what would
// never end.
type heldReader struct {
	src    io.Reader
	memory *memory
	read   int64
	taken  int64 // for the caller to put back
}

func (r *heldReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	r.read += int64(n)
	for r.read > freeBody+r.taken {
		if !r.memory.take(memoryStep) {
			return n, errNoMemory
		}
		r.taken += memoryStep
	}
	return n, err
}

func (p *Proxy) tooManyBodies() *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Type: typeUnavailable,
		Message: "This node holds as many bytes of requests as it may, " + byteCount(p.memory.limit) + " (gateway.max_body_memory). Try again.",
	}
}
