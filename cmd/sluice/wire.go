package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/admin"
	"sluice/cmd/sluice/config"
	"sluice/fsm"
	"sluice/limiter"
	"sluice/node"
	"sluice/proxy"
)

// app is one running node.
type app struct {
	file    *config.File // as the process was started
	lookup  config.Lookup
	logger  *slog.Logger
	cleanup cleanups
	fatal   chan error // a part of the node cannot go on

	front    *front
	listener net.Listener
	server   *http.Server
	breakOff context.CancelCauseFunc // ends the requests that still run
	state    *fsm.State
	node     *node.Node
	client   *fsm.Client
	gate     *limiter.Gate
	registry *prometheus.Registry
	kept     atomic.Uint64                // the last log entry that may lie before a full stop
	observer atomic.Pointer[limiter.Gate] // the gate, once there is one
	proposer proposer
	faults   faults
	started  atomic.Bool // the start is over; says "ready" once, not after every reload
}

// start wires a node and returns when it serves; it becomes ready by itself,
// as soon as the cluster has formed. ctx bounds the start only. After an error
// everything is stopped again.
//
//	file + flags ─▶ config.File ─▶ logger
//	                     │
//	HTTP port ─▶ front ──┼─▶ admin ──────────▶ fsm.Client ─┐
//	                     └─▶ proxy ─▶ limiter.Gate ─▶ Applier ┴─▶ node ◀═══▶ other nodes
//	                           │                                    │ (Raft log, snapshots)
//	                           └── View (one atomic load) ◀── fsm.State ◀┘
//
// The port is bound first, so that probes get an answer while the rest starts.
// app.stop goes the other way round.
func start(ctx context.Context, f *config.File, lookup config.Lookup, logger *slog.Logger) (*app, error) {
	cors, err := proxy.NewCORS(f.Node.Gateway.CORSOrigins)
	if err != nil {
		return nil, fmt.Errorf("gateway.cors_origins: %w", err)
	}
	a := &app{
		file: f, lookup: lookup, logger: logger, fatal: make(chan error, 4),
		faults: newFaults(lookup), cleanup: cleanups{logger: logger}, front: &front{logger: logger, cors: cors}, registry: prometheus.NewRegistry(),
	}
	a.kept.Store(math.MaxUint64) // until the log is open
	for _, step := range []func(context.Context) error{
		a.serveHTTP,    // answers 503 until openPlanes
		a.openState,    // fsm: what is replicated
		a.openNode,     // node: the log; Raft starts to apply
		a.seedClock,    // before this node may stamp entries for others
		a.openGate,     // limiter: what is admitted
		a.watchSilence, // tells the ledger of nodes that died
		a.openPlanes,   // proxy, admin: what is served
	} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, a.stop())
		}
	}
	a.propose(f)
	return a, nil
}

func (a *app) openState(context.Context) error {
	s, err := fsm.Open(a.faults.ofState(fsm.Options{
		Dir:       a.file.Node.Gateway.DataDir,
		Logger:    a.logger.With("component", "fsm"),
		OnFatal:   a.fail,
		ReplayEnd: a.kept.Load,
		Observer: func() fsm.Observer {
			if g := a.observer.Load(); g != nil {
				return g
			}
			return nil
		},
	}))
	if err != nil {
		return fmt.Errorf("open the state: %w", err)
	}
	a.state = s
	a.cleanup.add("close the state", func(context.Context) error { return s.Close() })
	return nil
}

func (a *app) openNode(ctx context.Context) error {
	c := a.file.Node.Cluster
	n, err := node.Open(ctx, a.faults.ofNode(node.Options{
		ID: c.NodeID, DataDir: a.file.Node.Gateway.DataDir,
		Listen: c.Listen, Advertise: c.Advertise, Join: c.Join, BootstrapExpect: c.BootstrapExpect,
		Secret: c.Secret.Reveal(), CertFile: c.CertFile, KeyFile: c.KeyFile, CAFile: c.CAFile,
		NonVoter: c.NonVoter, RaftMultiplier: c.RaftMultiplier,
		SnapshotThreshold: c.SnapshotThreshold, SnapshotInterval: c.SnapshotInterval,
		Version: version, Level: fsm.CommandLevel, Shared: sharedSettings(c.Secret.Reveal(), a.file.Node.Gateway.MasterKey.Reveal()),
		FSM: a.state, FSMIndex: a.state.LoadedIndex(), AppliedIndex: a.state.AppliedIndex,
		Prepare: a.state.Prepare, Answer: a.answer,
		Logger: a.logger,
	}))
	if err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	a.node = n
	a.kept.Store(n.KeptIndex())
	a.cleanup.add("stop the node", n.Shutdown)
	id := n.ID()
	a.front.nodeID.Store(&id)
	a.client = fsm.NewClient(n, a.state)
	return nil
}

func (a *app) openGate(context.Context) error {
	var nonce [16]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return fmt.Errorf("name this run: %w", err)
	}
	marked, mark, err := aloneMark(a.file.Node.Gateway.DataDir)
	if err != nil {
		return err
	}
	g, err := limiter.New(limiter.Options{
		Node:       a.node.ID(),
		Applier:    a.client.Applier(a.node.ID(), hex.EncodeToString(nonce[:])),
		Policy:     func() limiter.Policy { return a.state.View().Policy() },
		OnNoQuorum: func() limiter.NoQuorum { return a.state.View().Config().Limits.OnNoQuorum },
		Lease:      func() time.Duration { return a.state.View().Config().Lease() },
		Parts:      a.node.Size,
		Look:       a.state.Look,
		Mark:       loudly(mark, a.logger), Marked: marked,
	})
	if err != nil {
		return fmt.Errorf("start the limiter: %w", err)
	}
	a.gate = g
	a.observer.Store(g)
	a.cleanup.add("flush the limiter", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, flushTime)
		defer cancel()
		select {
		case <-a.node.Formed():
		default: // it was never a member, so there is nothing to record
			cancel()
			if err := g.Close(ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		}
		err := g.Close(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			// The stop itself was in order: whoever looks after the process must
			// not take a missing majority for a fault of this node.
			a.logger.Warn("the cluster did not answer before the end: what was not recorded yet is lost", "error", err)
			return nil
		}
		return err
	})
	return nil
}

func (a *app) openPlanes(context.Context) error {
	g := a.file.Node.Gateway
	data, err := proxy.New(proxy.Options{
		View: a.state.View, Gate: proxy.GateAdmitter(a.gate), Refresh: a.refresh,
		MasterKey: g.MasterKey.Reveal(), NodeID: a.node.ID(), Mode: a.gate.Mode,
		MaxBody: g.MaxBody, MaxBodyMemory: g.BodyMemory, WriteTimeout: g.WriteTimeout,
		Secret: a.secret, Logger: a.logger, Registerer: a.registry,
	})
	if err != nil {
		return fmt.Errorf("start the data plane: %w", err)
	}
	a.cleanup.add("close connections to upstreams", func(context.Context) error { data.Close(); return nil })
	control, err := admin.New(admin.Options{
		Store: a.client, State: shown{a.state, a.gate}, Cluster: membership{a},
		Authenticate: func(r *http.Request) (admin.Caller, error) { return authenticate(data, r) },
		Ready:        a.readiness, Refresh: a.refresh, Classify: classify, Mode: a.mode,
		Identity: func() (string, string) { return a.node.Status().ClusterID, version },
		Metrics:  a.metrics(), OpenMetrics: g.OpenMetrics,
		MasterKey: g.MasterKey.Reveal(), NodeID: a.node.ID(),
		Logger: a.logger.With("component", "admin"),
	})
	if err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	a.front.planes.Store(&planes{data: data, control: control, formed: a.node.Formed(),
		configured: func() bool { return a.state.View().ConfigVersion() > 0 }})
	a.cleanup.add("drain", a.drain)
	return nil
}

// fail reports that a part of the node cannot go on.
func (a *app) fail(err error) {
	select {
	case a.fatal <- err:
	default: // one reason is enough
	}
}

// refresh brings the local state up to date with what the leader has acknowledged.
func (a *app) refresh(ctx context.Context) error {
	index, err := a.node.ReadIndex(ctx)
	if err != nil {
		return fmt.Errorf("ask the leader: %w", err)
	}
	if err := a.state.WaitApplied(ctx, index); err != nil {
		return fmt.Errorf("catch up with the leader: %w", err)
	}
	return nil
}

// secret resolves a deployment's reference when it is used: a configuration
// that another node proposed may name a variable that is not set here.
func (a *app) secret(ref string) (string, error) { return config.Resolve(ref, a.lookup) }

// stopTime is what stopping may take beyond gateway.drain, and flushTime the
// part of it that the limiter may use. hungTime is all that there is when the
// disk hangs.
const (
	stopTime  = 15 * time.Second
	flushTime = 3 * time.Second
	hungTime  = 5 * time.Second
)

// stop undoes start, the newest part first, within one deadline.
func (a *app) stop() error {
	a.proposer.close()
	limit := a.file.Node.Gateway.Drain + stopTime
	if a.node != nil && errors.Is(a.node.Err(), node.ErrDiskHung) {
		limit = hungTime // nothing can be flushed, and a supervisor waits to start another
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return a.cleanup.run(ctx)
}
