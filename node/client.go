package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"
)

// Headers of forward/1.
const (
	headerCluster = "X-Sluice-Cluster"    // the caller's cluster id, if it has one
	headerTimeout = "X-Sluice-Timeout-Ms" // what is left of the caller's deadline
	headerHop     = "X-Sluice-Hop"        // set once a call was forwarded: never again
	headerIndex   = "X-Sluice-Index"
)

const (
	clientIdle = time.Minute
	serverIdle = 2 * time.Minute // longer, so that pooled connections end at the client
	// connsPerPeer bounds the connections to one peer, open or idle alike: more
	// callers wait for one to come free, since shaking hands for each would
	// starve Raft of the processor just when it is busiest.
	connsPerPeer = 128
	maxRPCBody   = 4 << 20
	defaultLimit = 10 * time.Second // of a call without a deadline
)

// callError is a call that got no answer. sent is false if the peer cannot
// have seen any of it.
type callError struct {
	addr string
	sent bool
	err  error
}

func (e *callError) Error() string { return fmt.Sprintf("calling %s: %v", e.addr, e.err) }
func (e *callError) Unwrap() error { return e.err }

// client makes forward/1 calls. Those that may wait in the leader's log have
// connections of their own, so that they never hold up the rest.
type client struct {
	data    *http.Client
	control *http.Client
	cluster func() string
	stop    context.Context // ends every call
}

func newClient(m *mux, cluster func() string, stop context.Context) *client {
	pool := func(conns int) *http.Client {
		return &http.Client{Transport: &http.Transport{
			DialTLSContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
				return m.dial(ctx, addr, protoForward)
			},
			MaxConnsPerHost:     conns,
			MaxIdleConnsPerHost: conns,
			IdleConnTimeout:     clientIdle,
			DisableCompression:  true,
		}}
	}
	return &client{cluster: cluster, stop: stop, data: pool(connsPerPeer), control: pool(connsPerPeer / 8)}
}

// request is one call. An idempotent one may be repeated on a fresh connection
// by the HTTP client whatever happened to the first.
type request struct {
	path       string
	body       []byte
	hop        bool
	idempotent bool
}

type response struct {
	body  []byte
	index uint64
}

// call returns a *remoteError if addr answered with one, else a *callError. A
// pooled connection that turns out dead before anything was written is replaced
// by the HTTP client.
func (c *client) call(ctx context.Context, addr string, r request) (response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stop, cancel)()
	pool := c.control
	switch r.path {
	case pathApply, pathReadIndex, pathAsk:
		pool = c.data
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	fail := func(err error) (response, error) {
		if sent.Load() && ctx.Err() == nil {
			// The peer broke off: its other pooled connections are as dead.
			pool.CloseIdleConnections()
		}
		return response{}, &callError{addr: addr, sent: sent.Load(), err: err}
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+addr+r.path, bytes.NewReader(r.body))
	if err != nil {
		return fail(err)
	}
	limit := defaultLimit
	if d, ok := ctx.Deadline(); ok {
		limit = time.Until(d)
	}
	req.Header.Set(headerTimeout, strconv.FormatInt(max(limit.Milliseconds(), 1), 10))
	if id := c.cluster(); id != "" {
		req.Header.Set(headerCluster, id)
	}
	if r.hop {
		req.Header.Set(headerHop, "1")
	}
	if r.idempotent {
		req.Header["Idempotency-Key"] = nil // known to net/http, never sent
	}
	resp, err := pool.Do(req)
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRPCBody+1))
	if err == nil && len(body) > maxRPCBody {
		err = fmt.Errorf("answer is larger than %d bytes", maxRPCBody)
	}
	if err != nil {
		return fail(err)
	}
	if resp.StatusCode != http.StatusOK {
		e := &remoteError{}
		if json.Unmarshal(body, e) != nil || e.Code == "" {
			return fail(fmt.Errorf("unexpected status %s", resp.Status))
		}
		return response{}, e
	}
	out := response{body: body}
	out.index, _ = strconv.ParseUint(resp.Header.Get(headerIndex), 10, 64)
	return out, nil
}

// callJSON sends in and decodes the answer into out; out may be nil.
func (c *client) callJSON(ctx context.Context, addr string, r request, in, out any) error {
	var err error
	if r.body, err = json.Marshal(in); err != nil {
		return fmt.Errorf("encoding %s: %w", r.path, err)
	}
	resp, err := c.call(ctx, addr, r)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(resp.body, out); err != nil {
		return &callError{addr: addr, sent: true, err: fmt.Errorf("decoding the answer: %w", err)}
	}
	return nil
}

func (c *client) close() {
	c.data.CloseIdleConnections()
	c.control.CloseIdleConnections()
}
