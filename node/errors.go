package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// Errors that callers match with errors.Is.
var (
	// ErrNoLeader is returned when no leader was known for longer than the
	// grace of an ordinary election, or none could be reached. Nothing was
	// executed.
	ErrNoLeader = errors.New("no leader: the cluster has no majority that this node can reach")
	// ErrOutcomeUnknown is returned when a command may or may not have been
	// committed: leadership or a connection was lost after it was handed over,
	// or the caller stopped waiting. Only an idempotent command may be repeated.
	ErrOutcomeUnknown = errors.New("outcome unknown: the command may or may not have been committed")
	// ErrTooLarge is returned for a command above MaxCommand. Nothing was executed.
	ErrTooLarge = errors.New("command too large for one log entry")
	// ErrNotMember is returned when the named node is not in the cluster's configuration.
	ErrNotMember = errors.New("not a member of the cluster")
	// ErrNotVoter is returned by Transfer when the target cannot lead.
	ErrNotVoter = errors.New("not a voter of the cluster")
	// ErrLastVoter is returned by Remove for the only voter that is left.
	ErrLastVoter = errors.New("refusing to remove the last voter")
	// ErrOldMember is returned by Understands when a member cannot read a kind
	// of command, or does not say.
	ErrOldMember = errors.New("a member may not understand this yet")
	// ErrNotTransferred is returned by Transfer when this leader goes on leading.
	ErrNotTransferred = errors.New("leadership was not handed over")
	// ErrNoMajority is returned by Remove when the voters that answer would be no
	// majority of those that are left.
	ErrNoMajority = errors.New("refusing to leave the cluster without a majority that answers: start the voters that do not answer, or remove those first")
	// ErrLocked is returned by Open when another process uses the data directory.
	ErrLocked = errors.New("data directory is in use by another process")
	// ErrDamaged is returned by Open, and by Err, when a file of the data
	// directory cannot be trusted. Nothing was changed in it.
	ErrDamaged = errors.New("store damaged")
	// ErrForeignCluster is returned when the other side belongs to another cluster.
	ErrForeignCluster = errors.New("belongs to another cluster")
	// ErrRemoved is what Err returns after this node was removed from the cluster.
	ErrRemoved = errors.New("this node was removed from the cluster: to add it again, stop it, delete its data directory and start it with join addresses")
	// ErrReplaced is part of Err after the leader has told this node that a
	// member of its id runs elsewhere.
	ErrReplaced = errors.New("another process has this node's id")
	// ErrDiskFull is part of Err when the log could not be written for lack of space.
	ErrDiskFull = errors.New("disk full: free some space and restart this node")
	// ErrDiskHung is part of Err when a call of the log's disk has not returned
	// within Options.StorePatience.
	ErrDiskHung = errors.New("the disk does not answer: see to it, then restart this node")
	// ErrClosed is returned by every call after Shutdown or after the node stopped by itself.
	ErrClosed = errors.New("node is stopped")
)

// errNotLeader says that the node asked is not the leader; nothing was executed.
var errNotLeader = errors.New("not the leader")

// errOtherSecret says that the peer's certificate comes from another secret.
var errOtherSecret = errors.New("peer does not share this node's cluster.secret (or certificate authority)")

// whySilent says in a few words why a node could not be asked.
func whySilent(err error) string {
	var alert tls.AlertError
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, errOtherSecret), errors.As(err, &alert):
		return "refuses this node's cluster.secret (or certificate authority): use the same on all nodes"
	case errors.As(err, &record), err != nil && strings.Contains(err.Error(), "does not look like a TLS handshake"):
		return "does not speak TLS: an HTTP port? nodes talk on cluster.listen"
	case err == nil:
		return "does not answer"
	}
	return fmt.Sprintf("does not answer (%v)", err)
}

// errRefused carries the reason of a peer for which there is no sentinel.
var errRefused = errors.New("refused")

// codes names the errors that travel between nodes.
var codes = []struct {
	code   string
	status int
	err    error
}{
	{"not_leader", 421, errNotLeader},
	{"no_leader", 503, ErrNoLeader},
	{"outcome_unknown", 503, ErrOutcomeUnknown},
	{"too_large", 413, ErrTooLarge},
	{"not_member", 404, ErrNotMember},
	{"not_voter", 409, ErrNotVoter},
	{"last_voter", 409, ErrLastVoter},
	{"not_transferred", 503, ErrNotTransferred},
	{"no_majority", 409, ErrNoMajority},
	{"foreign_cluster", 409, ErrForeignCluster},
	{"removed", 410, ErrRemoved},
	{"replaced", 409, ErrReplaced},
	{"closed", 503, ErrClosed},
	{"timeout", 504, context.DeadlineExceeded},
	{"refused", 409, errRefused},
}

// remoteError is an error that another node answered.
type remoteError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Leader  string `json:"leader,omitempty"` // where not_leader thinks the leader is
}

func (e *remoteError) Error() string { return e.Message }

// Unwrap returns the sentinel that the code stands for, so that errors.Is works
// across the wire.
func (e *remoteError) Unwrap() error {
	for _, c := range codes {
		if c.code == e.Code {
			return c.err
		}
	}
	return errRefused
}

// encodeError returns what to answer for err, and the HTTP status.
func encodeError(err error) (remoteError, int) {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return remoteError{Code: c.code, Message: err.Error()}, c.status
		}
	}
	return remoteError{Code: "refused", Message: err.Error()}, 409
}

// unsent says whether err proves that nothing was executed, so that the call
// may be repeated elsewhere.
func unsent(err error) bool {
	if errors.Is(err, errNotLeader) {
		return true
	}
	var c *callError
	return errors.As(err, &c) && !c.sent
}

func damaged(path string, err error) error {
	return fmt.Errorf("%w: %s: %w: stop the node, move its data directory away and start it again with join addresses, and it is rebuilt from the other members", ErrDamaged, path, err)
}

func diskError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	return err
}
