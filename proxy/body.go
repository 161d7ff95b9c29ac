package proxy

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// buffer is a run of bytes, pooled unless it is own.
type buffer struct {
	b   []byte
	own bool // of one request alone, and the garbage collector's afterwards
}

const (
	firstBuffer = 4 << 10
	// keepBuffer is the largest buffer that goes back to the pool: a burst of
	// big bodies must not stay in memory for ever.
	keepBuffer = 1 << 20
	// ownBody is the largest body that gets memory of its own: it fits, with its
	// headers, into what the transport writes at once. See payload.open.
	ownBody = 24 << 10
	// bodyIdle is how long a client may pause in the middle of its body.
	bodyIdle = 60 * time.Second
)

// buffers is a free list, not state: every user owns what it took.
type buffers struct{ pool sync.Pool }

func (p *buffers) get() *buffer {
	if b, ok := p.pool.Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, 0, firstBuffer)}
}

// sized returns a buffer for a body of n bytes; n ≤ 0 is an unknown number.
func (p *buffers) sized(n int64) *buffer {
	if n <= 0 || n > ownBody {
		return p.get()
	}
	return &buffer{b: make([]byte, 0, n+1), own: true} // fill wants one byte more
}

func (p *buffers) put(b *buffer) {
	if b == nil || b.own || cap(b.b) > keepBuffer {
		return
	}
	b.b = b.b[:0]
	p.pool.Put(b)
}

// room makes space for n more bytes.
func (b *buffer) room(n int) {
	if cap(b.b)-len(b.b) >= n {
		return
	}
	grown := make([]byte, len(b.b), max(2*cap(b.b), len(b.b)+n))
	copy(grown, b.b)
	b.b = grown
}

var errTooLarge = errors.New("larger than the cap")

// fill appends everything r holds, up to limit bytes; one byte more is
// errTooLarge. hint is the expected size, which is believed only as far as one
// doubling of what really came.
func (b *buffer) fill(r io.Reader, limit, hint int64) error {
	if hint <= 0 {
		hint = 511
	}
	b.room(int(min(hint, 64<<10)) + 1)
	for {
		if len(b.b) == cap(b.b) {
			b.room(len(b.b))
		}
		n, err := r.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		if int64(len(b.b)) > limit {
			return errTooLarge
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readBody reads the request's body, unpacked, into a pooled buffer that the
// caller puts back. The cap holds for what is on the wire and for what it
// unpacks to. The error is an *Error.
func (x *exchange) readBody() (*buffer, error) {
	p, r := x.p, x.r
	packed, err := contentEncoding(r.Header["Content-Encoding"])
	if err != nil {
		return nil, err
	}
	if r.ContentLength > p.maxBody {
		return nil, p.bodyTooLarge()
	}
	wire := &patientReader{src: r.Body, rc: &x.rc}
	x.held.memory = &p.memory
	var b *buffer
	if packed {
		b = p.buffers.get()
		err = p.unpack(b, wire, &x.held)
	} else {
		b = p.buffers.sized(r.ContentLength)
		x.held.src = wire
		err = b.fill(&x.held, p.maxBody, r.ContentLength)
	}
	wire.done()
	if err == nil {
		return b, nil
	}
	p.buffers.put(b)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, p.bodyTooLarge()
	case errors.Is(err, errNoMemory):
		x.w.Header()["Retry-After"] = []string{"1"}
		return nil, p.tooManyBodies()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &Error{Status: http.StatusRequestTimeout, Type: typeTimeout, Message: "The body of the request stopped arriving.", cause: err}
	case packed && !wire.broken:
		return nil, &Error{Status: http.StatusBadRequest, Type: typeInvalid, Message: "The body of the request is not valid gzip.", cause: err}
	}
	return nil, &Error{Status: http.StatusBadRequest, Type: typeInvalid, Message: "The body of the request ended early.", cause: err}
}

// unpack appends the gzip content of wire to b, both bounded.
func (p *Proxy) unpack(b *buffer, wire io.Reader, held *heldReader) error {
	bounded := &boundedReader{src: wire, left: p.maxBody}
	z, err := gzip.NewReader(bounded)
	if err != nil {
		return err
	}
	held.src = z
	return b.fill(held, p.maxBody, 0)
}

func (p *Proxy) bodyTooLarge() *Error {
	return &Error{
		Status: http.StatusRequestEntityTooLarge, Type: typeInvalid,
		Message: "The body of the request is larger than " + byteCount(p.maxBody) + " (gateway.max_body).",
	}
}

// contentEncoding reports whether a body is gzip. Anything but gzip and
// identity is a 415: it could not be metered.
func contentEncoding(values []string) (packed bool, err error) {
	if len(values) == 0 {
		return false, nil
	}
	switch v := strings.ToLower(strings.TrimSpace(strings.Join(values, ","))); v {
	case "", "identity":
		return false, nil
	case "gzip", "x-gzip":
		return true, nil
	}
	return false, &Error{
		Status: http.StatusUnsupportedMediaType, Type: typeInvalid, Accept: "gzip, identity",
		Message: "The content encoding of the request is not supported; send gzip or nothing.",
	}
}

// patientReader gives every read of a client's body its own deadline, so that
// a slow body is served and a stalled one is not held for ever.
type patientReader struct {
	src    io.Reader
	rc     *http.ResponseController
	set    bool
	broken bool // the connection failed, not what travelled on it
}

func (r *patientReader) Read(p []byte) (int, error) {
	// An error means that this writer has no deadlines (a test's recorder).
	r.set = r.rc.SetReadDeadline(time.Now().Add(bodyIdle)) == nil
	n, err := r.src.Read(p)
	r.broken = err != nil && err != io.EOF
	return n, err
}

// done takes the deadline off again: the connection goes on being read, to
// notice that the client has left.
func (r *patientReader) done() {
	if r.set {
		_ = r.rc.SetReadDeadline(time.Time{})
	}
}

// boundedReader passes left bytes and answers errTooLarge for one more.
type boundedReader struct {
	src  io.Reader
	left int64
}

func (r *boundedReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
