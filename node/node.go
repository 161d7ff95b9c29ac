package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Node is one member of a cluster, or on the way to become one. Its methods may
// be called from any goroutine.
type Node struct {
	opts      Options
	id        string
	advertise string
	run       string // tells this process from another with the same id
	logger    *slog.Logger

	mux      *mux
	server   *http.Server
	client   *client
	stores   *stores
	calls    storeCalls
	compared compared
	book     *addressBook
	peers    *acquaintances

	starting sync.Mutex // held while Raft is being started
	raft     atomic.Pointer[raft.Raft]
	waiting  atomic.Pointer[string] // why there was no cluster or no leader, when it was looked for last
	trans    *transport             // set before raft
	raftStop chan struct{}          // closed right before Raft is shut down
	cluster  atomic.Pointer[string]
	formed   chan struct{}

	proposing  sync.Mutex // keeps stamps in log order
	membership chan struct{}
	barrier    atomic.Uint64 // the term whose barrier has passed on this leader
	reads      rounds        // anywhere
	localReads rounds        // on this leader

	mu       sync.Mutex
	change   chan struct{} // closed and replaced when leadership changes
	lastSeen time.Time     // when a leader was last known
	failure  error         // why the node stopped by itself

	stop      context.Context // ends when the node stops, by itself or not
	cancel    context.CancelFunc
	bg        sync.WaitGroup
	halting   sync.Mutex
	raftEnd   raft.Future // of Raft's shutdown, once that has begun
	done      chan struct{}
	doneOnce  sync.Once
	closeOnce sync.Once
	closeErr  error
}

// Open binds the cluster port, opens the data directory and starts the node.
// Without state it returns at once and forms or joins a cluster in the
// background (see Formed). It refuses with ErrLocked, ErrDamaged, or an error
// that names the setting to change.
func Open(ctx context.Context, o Options) (*Node, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.DataDir != "" {
		if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
			return nil, fmt.Errorf("creating the data directory: %w", diskError(err))
		}
	}
	logger := o.Logger.With("component", "node")
	st, err := openStores(o.DataDir, o.BeforeWrite, logger)
	if err != nil {
		return nil, err
	}
	n, err := open(ctx, o, st, logger)
	if err != nil {
		return nil, errors.Join(err, st.close())
	}
	if err := n.begin(); err != nil {
		sctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return nil, errors.Join(err, n.Shutdown(sctx))
	}
	return n, nil
}

// open builds the node around its opened stores; nothing runs yet.
func open(ctx context.Context, o Options, st *stores, logger *slog.Logger) (*Node, error) {
	id, err := nodeID(o.DataDir, o.ID, st.hasState)
	if err != nil {
		return nil, err
	}
	cluster, err := checkState(o, st)
	if err != nil {
		return nil, err
	}
	creds, err := newCredentials(o, id)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("cluster.listen: %w; choose another address with --cluster-listen", err)
	}
	advertise, err := o.advertise(ctx, ln.Addr())
	if err == nil {
		err = errors.Join(o.checkSecret(advertise), o.checkJoin(advertise))
	}
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	if o.Secret != "" && len(o.Secret) < minSecret {
		logger.Warn("cluster.secret is short enough to be guessed", "bytes", len(o.Secret), "advised", minSecret)
	}
	n := &Node{
		opts: o, id: id, advertise: advertise, run: randomID(), logger: logger.With("node", id),
		stores: st, peers: newAcquaintances(), raftStop: make(chan struct{}), formed: make(chan struct{}),
		membership: make(chan struct{}, 1), change: make(chan struct{}), lastSeen: time.Now(), done: make(chan struct{}),
	}
	n.cluster.Store(&cluster)
	n.stop, n.cancel = context.WithCancel(context.Background())
	n.book = &addressBook{configured: n.configuredAddress, heard: map[string]whereabouts{}}
	n.mux = newMux(ln, o, creds, n.logger, n.greeted)
	n.client = newClient(n.mux, n.clusterID, n.stop)
	n.server = n.newHTTPServer()
	n.reads.do, n.localReads.do = n.readRound, n.localRound
	return n, nil
}

// checkState returns the kept cluster id, "" without state, and refuses parts
// of a data directory that cannot belong together.
func checkState(o Options, st *stores) (string, error) {
	if o.FSMIndex > st.last {
		return "", damaged(st.path, fmt.Errorf("the state machine holds entry %d, but the log ends with %d", o.FSMIndex, st.last))
	}
	if !st.hasState || o.DataDir == "" {
		return "", nil
	}
	if begun, err := readID(o.DataDir, recoveringFile); err != nil || begun != "" {
		return "", errors.Join(err, fmt.Errorf("%s: a recovery was interrupted: run `sluice recover` on this directory again, with the same peers", o.DataDir))
	}
	cluster, err := readID(o.DataDir, clusterIDFile)
	if err == nil && cluster == "" {
		err = damaged(o.DataDir, fmt.Errorf("there is a log but no file %s", clusterIDFile))
	}
	return cluster, err
}

// begin starts to serve, and Raft or the search for a cluster.
func (n *Node) begin() error {
	n.mux.start()
	n.background(func() {
		if err := n.server.Serve(n.mux.forward); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			n.logger.Error("forwarding port stopped", "error", err)
		}
	})
	n.background(n.watchStore)
	switch {
	case n.stores.hasState:
		return n.startRaft(n.clusterID(), nil)
	case n.opts.BootstrapExpect == 1 && !n.opts.NonVoter && n.alone():
		return n.startRaft(randomID(), []server{{ID: n.id, Address: n.advertise}})
	}
	n.logger.Info("no state yet: looking for a cluster", "join", n.opts.Join, "bootstrap_expect", n.opts.BootstrapExpect)
	n.background(n.form)
	return nil
}

// alone says whether the join list names nobody else.
func (n *Node) alone() bool {
	for _, a := range n.opts.Join {
		if a != n.advertise {
			return false
		}
	}
	return true
}

func (n *Node) background(f func()) {
	n.bg.Add(1)
	go func() {
		defer n.bg.Done()
		f()
	}()
}

// startRaft makes the node a member of cluster: it keeps the id, bootstraps
// with servers if there are any, and starts Raft. Only the first call acts.
func (n *Node) startRaft(cluster string, servers []server) error {
	n.starting.Lock()
	defer n.starting.Unlock()
	if err := n.stopped(); err != nil {
		return err
	}
	if n.raft.Load() != nil {
		if n.clusterID() == cluster {
			return nil
		}
		return fmt.Errorf("%w: already a member of cluster %s", errRefused, n.clusterID())
	}
	if n.opts.DataDir != "" && !n.stores.hasState {
		if err := writeID(n.opts.DataDir, clusterIDFile, cluster); err != nil {
			return err
		}
	}
	trans := &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:                  &streamLayer{queue: n.mux.raft, mux: n.mux, advertise: n.advertise, cluster: cluster},
			MaxPool:                 3,
			Timeout:                 n.opts.scale(transportTimeout),
			ServerAddressProvider:   n.book,
			Logger:                  newRaftLogger(n.logger),
			MsgpackUseNewTimeFormat: true,
		}),
		book: n.book, stop: n.raftStop, limit: 2 * n.opts.scale(transportTimeout), peers: map[raft.ServerID]*peerState{},
	}
	conf := n.opts.raftConfig(n.id, n.opts.FSMIndex >= n.stores.snapshot, n.logger)
	if len(servers) > 0 {
		err := raft.BootstrapCluster(conf, n.stores, n.stores, n.stores.snaps, trans, configuration(servers))
		if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
			return errors.Join(fmt.Errorf("bootstrapping: %w", diskError(err)), trans.Close())
		}
	}
	store := &fatalStore{checkedStore: n.stores.checkedStore, calls: &n.calls, fail: n.fail}
	logs, err := raft.NewLogCache(logCacheSize, store)
	if err != nil {
		return fmt.Errorf("making the log cache: %w", err)
	}
	var r *raft.Raft
	err = inRaft(func() (err error) {
		r, err = raft.NewRaft(conf, &fatalFSM{inner: n.opts.FSM, fail: n.fail}, logs, store, n.stores.snaps, trans)
		return err
	})
	if err != nil {
		return errors.Join(fmt.Errorf("starting raft: %w", diskError(err)), n.Err(), trans.Close())
	}
	n.cluster.Store(&cluster)
	n.trans = trans
	n.raft.Store(r)
	if n.stop.Err() != nil { // its store failed meanwhile
		n.haltRaft()
	}
	n.logger.Info("member of a cluster", "cluster", cluster, "address", n.advertise)
	close(n.formed)
	n.background(func() { n.watch(r) })
	return nil
}

// greeted admits a raft/1 connection.
func (n *Node) greeted(conn net.Conn) error {
	cluster := ""
	if n.raft.Load() != nil && n.stopped() == nil {
		cluster = n.clusterID()
	}
	return greeted(conn, cluster)
}

func (n *Node) clusterID() string { return *n.cluster.Load() }

// leading returns Raft if this node leads, else nil.
func (n *Node) leading() *raft.Raft {
	if r := n.raft.Load(); r != nil && r.State() == raft.Leader {
		return r
	}
	return nil
}

// ID returns this node's id.
func (n *Node) ID() string { return n.id }

// Addr returns the address that other members dial.
func (n *Node) Addr() string { return n.advertise }

// Leader returns the leader's id and address, or "" while none is known.
func (n *Node) Leader() (id, addr string) {
	r := n.raft.Load()
	if r == nil {
		return "", ""
	}
	a, i := r.LeaderWithID()
	if a == "" {
		return "", ""
	}
	if string(i) == n.id {
		return n.id, n.advertise
	}
	return string(i), string(a)
}

// Formed is closed when this node belongs to a cluster and its Raft has
// started; there may be no leader yet.
func (n *Node) Formed() <-chan struct{} { return n.formed }

// Done is closed when the node has stopped by itself, or after Shutdown. Err
// tells which.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err returns why the node stopped by itself: it wraps ErrRemoved, ErrReplaced,
// ErrDamaged, ErrDiskFull, ErrDiskHung or what the state machine or the disk said. It is nil while the
// node runs and after an ordinary Shutdown.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failure
}

// stopped returns ErrClosed with the reason once the node has stopped.
func (n *Node) stopped() error {
	if n.stop.Err() == nil {
		return nil
	}
	if err := n.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return ErrClosed
}

// Ask puts a question to the Options.Answer of a member.
func (n *Node) Ask(ctx context.Context, member string, question []byte) ([]byte, error) {
	if err := n.stopped(); err != nil {
		return nil, err
	}
	if member == n.id {
		return n.opts.Answer(ctx, question)
	}
	addr, ok := n.book.lookup(member)
	if !ok {
		return nil, fmt.Errorf("asking %q: %w", member, ErrNotMember)
	}
	resp, err := n.client.call(ctx, addr, request{path: pathAsk, body: question, idempotent: true})
	if err != nil {
		return nil, fmt.Errorf("asking %q: %w", member, err)
	}
	return resp.body, nil
}
