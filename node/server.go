package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/raft"
)

// The calls of forward/1.
const (
	pathHello     = "/v1/hello"
	pathApply     = "/v1/apply"
	pathReadIndex = "/v1/read-index"
	pathAsk       = "/v1/ask"
	pathJoin      = "/v1/join"
	pathBootstrap = "/v1/bootstrap"
	pathRemove    = "/v1/remove"
	pathTransfer  = "/v1/transfer"
)

// handlerFunc serves one call; hop says that it was forwarded already.
type handlerFunc func(ctx context.Context, body []byte, hop bool) (response, error)

// handler returns the forwarding side of the port.
func (n *Node) handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("POST "+pathHello, n.serve(n.serveHello, false))
	m.HandleFunc("POST "+pathApply, n.serve(n.serveApply, true))
	m.HandleFunc("POST "+pathReadIndex, n.serve(n.serveReadIndex, true))
	m.HandleFunc("POST "+pathAsk, n.serve(n.serveAsk, true))
	m.HandleFunc("POST "+pathJoin, n.serve(n.serveJoin, true))
	m.HandleFunc("POST "+pathBootstrap, n.serve(n.serveBootstrap, false))
	m.HandleFunc("POST "+pathRemove, n.serve(n.serveRemove, true))
	m.HandleFunc("POST "+pathTransfer, n.serve(n.serveTransfer, true))
	return m
}

func (n *Node) newHTTPServer() *http.Server {
	return &http.Server{
		Handler:           n.handler(),
		ReadHeaderTimeout: handshakeTimeout,
		IdleTimeout:       serverIdle,
		ErrorLog:          slog.NewLogLogger(n.logger.Handler(), slog.LevelDebug),
	}
}

// serve turns h into an HTTP handler. A call with the id of another cluster is
// refused if own is set.
func (n *Node) serve(h handlerFunc, own bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		limit := defaultLimit
		if ms, err := strconv.ParseInt(r.Header.Get(headerTimeout), 10, 32); err == nil && ms > 0 {
			limit = time.Duration(ms) * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		resp, err := n.dispatch(ctx, r, h, own)
		if err != nil {
			e, status := encodeError(err)
			if e.Code == "not_leader" {
				_, e.Leader = n.Leader()
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(e) // the peer is gone if this fails
			return
		}
		w.Header().Set(headerIndex, strconv.FormatUint(resp.index, 10))
		w.Header().Set("Content-Length", strconv.Itoa(len(resp.body)))
		_, _ = w.Write(resp.body)
	}
}

func (n *Node) dispatch(ctx context.Context, r *http.Request, h handlerFunc, own bool) (response, error) {
	theirs, ours := r.Header.Get(headerCluster), n.clusterID()
	if own && theirs != "" && ours != "" && theirs != ours {
		return response{}, fmt.Errorf("this node %w (%s, not %s)", ErrForeignCluster, ours, theirs)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxRPCBody))
	if err != nil {
		if errors.As(err, new(*http.MaxBytesError)) {
			return response{}, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, maxRPCBody)
		}
		return response{}, fmt.Errorf("%w: reading the call: %w", errRefused, err)
	}
	return h(ctx, body, r.Header.Get(headerHop) != "")
}

func (n *Node) serveApply(ctx context.Context, body []byte, _ bool) (response, error) {
	r := n.leading()
	if r == nil {
		return response{}, errNotLeader
	}
	answer, index, err := n.applyHere(ctx, r, body)
	return response{body: answer, index: index}, err
}

func (n *Node) serveReadIndex(ctx context.Context, _ []byte, _ bool) (response, error) {
	if n.leading() == nil {
		return response{}, errNotLeader
	}
	index, err := n.localReads.wait(ctx)
	return response{index: index}, err
}

func (n *Node) serveAsk(ctx context.Context, body []byte, _ bool) (response, error) {
	answer, err := n.opts.Answer(ctx, body)
	return response{body: answer}, err
}

func (n *Node) serveHello(ctx context.Context, body []byte, hop bool) (response, error) {
	var theirs card
	if err := json.Unmarshal(body, &theirs); err != nil {
		return response{}, fmt.Errorf("%w: decoding hello: %w", errRefused, err)
	}
	if !hop {
		if err := n.known(ctx, theirs); err != nil {
			return response{}, err
		}
	}
	ours := n.card()
	ours.Known = n.peers.list()
	if s, ok := n.member(theirs.ID); ok {
		ours.ListsYou, ours.YourVote = true, s.Suffrage == raft.Voter
	}
	return jsonResponse(ours)
}

func (n *Node) serveJoin(ctx context.Context, body []byte, hop bool) (response, error) {
	var c card
	if err := json.Unmarshal(body, &c); err != nil {
		return response{}, fmt.Errorf("%w: decoding the join request: %w", errRefused, err)
	}
	var out joined
	local := func(ctx context.Context, r *raft.Raft) (err error) {
		out, err = n.admit(ctx, r, c)
		return err
	}
	remote := func(ctx context.Context, addr string) error {
		return n.client.callJSON(ctx, addr, request{path: pathJoin, hop: true, idempotent: true}, c, &out)
	}
	if err := n.onLeaderOnce(ctx, hop, local, remote); err != nil {
		return response{}, err
	}
	return jsonResponse(out)
}

func (n *Node) serveBootstrap(_ context.Context, body []byte, _ bool) (response, error) {
	var p proposedCluster
	if err := json.Unmarshal(body, &p); err != nil {
		return response{}, fmt.Errorf("%w: decoding the bootstrap request: %w", errRefused, err)
	}
	return response{}, n.acceptBootstrap(p)
}

// memberCall is the body of remove and transfer.
type memberCall struct {
	ID string `json:"id"`
}

func (n *Node) serveRemove(ctx context.Context, body []byte, _ bool) (response, error) {
	var c memberCall
	if err := json.Unmarshal(body, &c); err != nil {
		return response{}, fmt.Errorf("%w: decoding the removal: %w", errRefused, err)
	}
	r := n.leading()
	if r == nil {
		return response{}, errNotLeader
	}
	return response{}, n.removeHere(ctx, r, c.ID)
}

func (n *Node) serveTransfer(ctx context.Context, body []byte, _ bool) (response, error) {
	var c memberCall
	if err := json.Unmarshal(body, &c); err != nil {
		return response{}, fmt.Errorf("%w: decoding the transfer: %w", errRefused, err)
	}
	r := n.leading()
	if r == nil {
		return response{}, errNotLeader
	}
	return response{}, n.transferHere(ctx, r, c.ID)
}

func jsonResponse(v any) (response, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return response{}, fmt.Errorf("encoding the answer: %w", err)
	}
	return response{body: b}, nil
}
