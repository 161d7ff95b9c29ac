package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"sluice/admin"
	"sluice/proxy"
)

// front is the handler of the HTTP port. It cleans the path once, before
// anything is decided by it, and hands the request to the plane that owns it.
// Until planes are given it answers that the node is starting.
type front struct {
	logger   *slog.Logger
	cors     *proxy.CORS // nil: no page may call
	nodeID   atomic.Pointer[string]
	planes   atomic.Pointer[planes]
	stopping atomic.Bool // new requests are still served, on connections that end with them
}

type planes struct {
	data    http.Handler
	control http.Handler
	formed  <-chan struct{} // closed once the node belongs to a cluster; nil: it does
	// configured says whether the node has a configuration; nil: it does.
	configured func() bool
}

// homeless reports whether the node belongs to no cluster yet, so that what it
// would show is not what the cluster has.
func (p *planes) homeless() bool {
	if p.formed == nil {
		return false
	}
	select {
	case <-p.formed:
		return false
	default:
		return true
	}
}

// aboutTheNode are the paths that a node answers before it belongs to a cluster.
func aboutTheNode(path string) bool {
	return strings.HasPrefix(path, "/health/") || path == "/cluster/status" || path == "/metrics"
}

var _ http.Handler = (*front)(nil)

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent := &sentWriter{ResponseWriter: w, lines: linesOf(r)}
	w = sent
	defer f.recover(sent, r)
	if f.stopping.Load() {
		w.Header().Set("Connection", "close")
	}
	boundBody(w, r, unreadTime)
	f.dispatch(w, r)
	linger(w, r)
}

// dispatch hands the request to the plane that owns its path.
func (f *front) dispatch(w http.ResponseWriter, r *http.Request) {
	path, err := proxy.CleanPath(r)
	if !admin.Owns(path) && f.cors.Answer(w, r) { // management is not for pages
		return
	}
	if err != nil {
		f.refusePath(w, r, err)
		return
	}
	p := f.planes.Load()
	switch {
	case path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		f.own(w, r, http.StatusOK, map[string]string{"name": "sluice", "version": version})
	case p == nil:
		f.starting(w, r, path)
	case p.homeless() && !aboutTheNode(path):
		w.Header().Set("Retry-After", "1")
		f.refuse(w, r, http.StatusServiceUnavailable, "internal_server_error",
			"This node belongs to no cluster yet. Its log and /cluster/status say what it waits for.")
	case admin.Owns(path):
		if r.Method == http.MethodPost {
			boundBody(w, r, bodyTime)
		}
		// The control plane routes by the path as it is now; what it was asked
		// with plays no part any more.
		clean := *r
		u := *r.URL
		u.Path, u.RawPath = path, ""
		clean.URL = &u
		p.control.ServeHTTP(w, &clean)
	case p.configured != nil && !p.configured():
		w.Header().Set("Retry-After", "1")
		f.refuse(w, r, http.StatusServiceUnavailable, "internal_server_error",
			"This node has no configuration yet: it has not caught up with its cluster since it started.")
	default:
		p.data.ServeHTTP(w, r)
	}
}

const (
	// bodyTime is how long the whole body of a management write may take.
	bodyTime = 30 * time.Second
	// unreadTime is how long a body may take that nobody reads.
	unreadTime = 2 * time.Second
)

// boundBody bounds the time that the body of a request may take. The server
// reads what a handler has left of it before it sends the answer, so a body
// that never comes would hold any answer, and its connection, for ever. The
// data plane puts a deadline of its own on every read of a body that it wants.
func boundBody(w http.ResponseWriter, r *http.Request, limit time.Duration) {
	if r.ContentLength == 0 {
		return
	}
	// An error means that this writer has no deadlines (a test's recorder).
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(limit))
}

const (
	// serverReads is what the server reads by itself of a body that was left.
	serverReads = 256 << 10
	// maxLinger bounds what is read beyond that, in bytes.
	maxLinger = 32 << 20
)

// linger lets a client have its answer that still sends a body which was
// refused: to close with bytes unread is a reset, which can take the answer
// away with it. The server sees to that itself only where little is left and
// the connection is kept; many balancers keep none.
func linger(w http.ResponseWriter, r *http.Request) {
	small := !r.Close && r.ContentLength > 0 && r.ContentLength <= serverReads
	if r.ContentLength == 0 || small || r.Header.Get("Expect") != "" {
		return
	}
	rc := http.NewResponseController(w)
	if rc.SetReadDeadline(time.Now().Add(unreadTime)) != nil {
		return // a test's recorder
	}
	var first [1]byte
	if n, _ := r.Body.Read(first[:]); n == 0 {
		return // it was read to its end, or does not come
	}
	if rc.Flush() == nil {
		_, _ = io.CopyN(io.Discard, r.Body, maxLinger) // what cannot be read is not wanted either
	}
}

// starting answers while the node is not wired yet.
func (f *front) starting(w http.ResponseWriter, r *http.Request, path string) {
	switch path {
	case "/health/liveliness", "/health/liveness":
		f.own(w, r, http.StatusOK, "I'm alive!")
	case "/health/readiness":
		f.own(w, r, http.StatusServiceUnavailable, admin.ReadinessAnswer{
			Status: "unhealthy", DB: "Not connected", Reasons: []string{"the node is starting"}, Limits: "exact",
		})
	default:
		w.Header().Set("Retry-After", "1")
		f.refuse(w, r, http.StatusServiceUnavailable, "internal_server_error", "The node is starting. Try again shortly.")
	}
}

func (f *front) refusePath(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadRequest
	var own *proxy.Error
	if errors.As(err, &own) {
		status = own.Status
	}
	f.answer(w, r, status, err)
}

// recover turns a panic into a 500 if nothing was sent yet, and keeps the
// process. http.ErrAbortHandler is the way to break a connection off, and stays
// one.
func (f *front) recover(w *sentWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	f.logger.Error("request handler panicked", "call_id", f.call(w, r), "panic", p, "stack", string(debug.Stack()))
	if w.lines != nil {
		*w.lines = (*w.lines)[:0]
	}
	if w.sent {
		panic(http.ErrAbortHandler) // half an answer must not look like a whole one
	}
	f.refuse(w, r, http.StatusInternalServerError, "internal_server_error", "The request failed inside the gateway; its log says why.")
}

func (f *front) refuse(w http.ResponseWriter, r *http.Request, status int, kind, message string) {
	f.answer(w, r, status, &proxy.Error{Status: status, Type: kind, Message: message})
}

// answer sends an error in the protocol that the client speaks.
func (f *front) answer(w http.ResponseWriter, r *http.Request, status int, err error) {
	f.own(w, r, status, json.RawMessage(proxy.EncodeError(r, err, f.call(w, r))))
}

// own sends an answer of the front's own.
func (f *front) own(w http.ResponseWriter, r *http.Request, status int, v any) {
	h := w.Header()
	if id := f.nodeID.Load(); id != nil {
		h.Set("X-Sluice-Node", *id)
	}
	f.call(w, r)
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{}`)
	}
	h.Set("Content-Type", "application/json")
	h.Del("Content-Length")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a client that has gone needs no answer
}

// call returns the id of the request, which it puts on the answer.
func (f *front) call(w http.ResponseWriter, r *http.Request) string {
	h := w.Header()
	if h.Get("X-Litellm-Call-Id") == "" {
		h.Set("X-Litellm-Call-Id", callID(r))
	}
	return h.Get("X-Litellm-Call-Id")
}

// callID returns the caller's own call id if it is a sane one, else a new one.
func callID(r *http.Request) string {
	id := r.Header.Get("X-Litellm-Call-Id")
	sane := id != "" && len(id) <= 128
	for _, c := range []byte(id) {
		sane = sane && c > ' ' && c <= '~'
	}
	if sane {
		return id
	}
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "unknown"
	}
	return hex.EncodeToString(b[:])
}

// sentWriter remembers whether anything was sent.
type sentWriter struct {
	http.ResponseWriter
	sent  bool
	lines *[]byte
}

var _ proxy.LineWriter = (*sentWriter)(nil)

// Lines returns where header lines go that are no part of Header.
func (w *sentWriter) Lines() *[]byte { return w.lines }

// Unwrap lets http.ResponseController reach the connection.
func (w *sentWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *sentWriter) WriteHeader(status int) {
	w.sent = w.sent || status >= 200
	w.ResponseWriter.WriteHeader(status)
}

func (w *sentWriter) Write(b []byte) (int, error) {
	w.sent = true
	return w.ResponseWriter.Write(b)
}
