package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

// Store takes writes. *fsm.Client implements it. Each call returns after the
// local replica has applied the write; errors are fsm's or the replicator's.
// Any goroutine calls.
type Store interface {
	CreateKey(ctx context.Context, k fsm.Key, o fsm.WriteOptions) (*fsm.Key, error)
	UpdateKey(ctx context.Context, id string, p fsm.Patch, o fsm.WriteOptions) (*fsm.Key, error)
	DeleteKeys(ctx context.Context, ids []string, o fsm.WriteOptions) ([]string, error)
	RegenerateKey(ctx context.Context, oldID, newID, newName string, p fsm.Patch, o fsm.WriteOptions) (*fsm.Key, error)
	CreateTeam(ctx context.Context, t fsm.Team, o fsm.WriteOptions) (*fsm.Team, error)
	UpdateTeam(ctx context.Context, id string, p fsm.Patch, o fsm.WriteOptions) (*fsm.Team, error)
	DeleteTeams(ctx context.Context, ids []string, o fsm.WriteOptions) ([]string, error)
	ApplyConfig(ctx context.Context, c fsm.Config, source string, o fsm.WriteOptions) (fsm.ConfigResult, error)
	RollbackConfig(ctx context.Context, version uint64, o fsm.WriteOptions) (fsm.ConfigResult, error)
	SetShare(ctx context.Context, name string, s limiter.Share, o fsm.WriteOptions) (fsm.ConfigResult, error)
	UnsetShare(ctx context.Context, name string, o fsm.WriteOptions) (fsm.ConfigResult, error)
	// Restore makes a backup's state this cluster's, on all nodes or on none.
	Restore(ctx context.Context, b *fsm.StoredBackup, o fsm.WriteOptions) (fsm.RestoreResult, error)
}

// State is what reads come from. *fsm.State implements it. Any goroutine calls.
type State interface {
	View() *fsm.View
	// Limits returns the running windows of one model, or of all for "".
	Limits(model string) []limiter.ModelState
	// Backup captures the state; the two arguments are noted in it.
	Backup(clusterID, version string) (*fsm.Backup, error)
	// DigestAt returns a checksum of the whole state and the index of the entry
	// that it is the state of. It encodes everything.
	DigestAt() (index uint64, digest string)
	// Explain says what one more request would meet now.
	Explain(t limiter.Ticket) limiter.Explanation
}

// Cluster is the membership. Any goroutine calls.
type Cluster interface {
	// Status never fails; what cannot be learnt within ctx is left empty.
	Status(ctx context.Context) ClusterStatus
	Remove(ctx context.Context, id string) error
	// Transfer hands leadership to a node, to any for "".
	Transfer(ctx context.Context, id string) error
}

// Caller is who sent a request: the master key, or a virtual key by its hash.
type Caller struct {
	Master bool
	KeyID  string
	TeamID string
}

// Readiness is what /health/readiness answers.
type Readiness struct {
	Ready    bool
	Degraded bool     // ready, but without a quorum
	Reasons  []string // why not ready, or why degraded; no secrets
}

// Options configure an Admin. Store, State, Cluster, Authenticate, Ready and
// MasterKey are required.
type Options struct {
	Store   Store
	State   State
	Cluster Cluster
	// Authenticate says who calls, from headers only. An error that is an *Error
	// is sent as it is, any other as 401 without its text.
	Authenticate func(*http.Request) (Caller, error)
	// Ready is asked by every readiness probe; it must be cheap.
	Ready func() Readiness
	// Refresh brings State up to date with the leader before a read is
	// answered. If it fails the local state is shown, with the header
	// x-sluice-stale. nil: local reads are good enough.
	Refresh func(ctx context.Context) error
	// Classify sorts the errors of Store and Cluster that are not fsm's. nil: all are FailureOther.
	Classify func(error) Failure
	// Identity is what backups say of where they come from. nil: nothing.
	Identity func() (clusterID, version string)
	// Mode is how limits are held now: exact, share or allow. nil: exact.
	Mode func() string
	// Metrics answers /metrics; nil: there is none.
	Metrics http.Handler
	// OpenMetrics shows /metrics to anybody.
	OpenMetrics bool
	// MasterKey seeds the secrets of idempotent creations and may not become a virtual key.
	MasterKey string
	NodeID    string
	// Timeout bounds the work of one request. Default 10 s.
	Timeout time.Duration
	// RestoreTimeout bounds a restore from its upload's end on. Default 5 min.
	RestoreTimeout time.Duration
	// MaxBody is the largest body in bytes. Default 4 MiB.
	MaxBody int64
	Now     func() time.Time // default time.Now
	Rand    io.Reader        // default crypto/rand
	Logger  *slog.Logger     // default: silent
}

const (
	defaultTimeout = 10 * time.Second
	defaultMaxBody = 4 << 20
	defaultRestore = 5 * time.Minute
	// refreshTimeout is how long a read waits for the leader before it shows what is here.
	refreshTimeout = time.Second
)

func (o *Options) validate() error {
	switch {
	case o.Store == nil, o.State == nil, o.Cluster == nil:
		return errors.New("admin needs a store, a state and a cluster")
	case o.Authenticate == nil, o.Ready == nil:
		return errors.New("admin needs to be told who calls and whether the node is ready")
	case o.MasterKey == "":
		return errors.New("admin needs the master key")
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.RestoreTimeout <= 0 {
		o.RestoreTimeout = defaultRestore
	}
	if o.Identity == nil {
		o.Identity = func() (string, string) { return "", "" }
	}
	if o.MaxBody <= 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Mode == nil {
		o.Mode = func() string { return "exact" }
	}
	if o.Classify == nil {
		o.Classify = func(error) Failure { return FailureOther }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}
