package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/raft"
)

// MaxCommand is the largest command, in bytes, that Apply takes. Larger log
// entries would delay heartbeats.
const MaxCommand = 256 << 10

// Options configure a Node. Zero values mean the stated defaults.
type Options struct {
	// ID names this node for ever; empty means the one kept in DataDir, or a
	// random one. Letters, digits, '.', '_' and '-', at most 64.
	ID string
	// DataDir is created with mode 0700; empty keeps everything in memory.
	DataDir string

	// Listen is the host:port of the cluster port; port 0 picks one.
	Listen string
	// Advertise is the host:port under which the other members dial this node;
	// a name stays a name and is resolved at each dial. Default: Listen as bound.
	Advertise string
	// Join lists cluster addresses of members; this node's own may be among them.
	Join []string
	// BootstrapExpect is how many stateless nodes form a new cluster. Default 1
	// without Join, else 0: join only.
	BootstrapExpect int
	// Secret derives the cluster's certificate authority. It may be empty only
	// while Listen and Advertise are loopback addresses.
	Secret string
	// CertFile, KeyFile and CAFile replace the derived authority. Whoever holds
	// a certificate of that authority is a member, so it must serve this
	// cluster only; host names in certificates are not looked at.
	CertFile, KeyFile, CAFile string
	// NonVoter keeps this node a replica that never votes.
	NonVoter bool

	// RaftMultiplier scales the heartbeat, election and lease timeouts
	// (300, 300 and 200 ms) together. Default 1, range 0.1 to 100.
	RaftMultiplier float64
	// SnapshotThreshold is the number of new log entries worth a snapshot. Default 8192.
	SnapshotThreshold uint64
	// SnapshotInterval is how often the threshold is looked at. Default 60 s.
	SnapshotInterval time.Duration
	// Shared holds fingerprints of settings that must be the same on all nodes, by
	// the names of the settings. The members show them to each other, and warn of
	// those that differ.
	Shared map[string]string
	// StorePatience is how long one read or write of the log may take before the
	// node stops with ErrDiskHung. Default 5 s, at least 100 ms.
	StorePatience time.Duration
	// Version is shown to the other members.
	Version string
	// Level is how new the commands are that this node's state machine reads;
	// see Understands. Default 1.
	Level int

	// FSM is the replicated state machine. It may panic on an entry that it
	// cannot decode: the node then stops before applying anything after it.
	FSM raft.FSM
	// FSMIndex is the log index that FSM holds already from a clean file of its
	// own, 0 for nothing. Entries up to it may be applied again, and FSM skips them.
	FSMIndex uint64
	// Prepare is called on the leader right before a command enters the log, one
	// call at a time and in log order. Default: the command as it is.
	Prepare func(cmd []byte) []byte
	// AppliedIndex returns the index of the last entry that FSM has applied.
	// Called from any goroutine.
	AppliedIndex func() uint64
	// Dial opens a TCP connection to a member's advertised address. Called from
	// any goroutine; ctx bounds it. Default: a net.Dialer.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// BeforeWrite is called before each write to the log or to Raft's votes, on
	// the goroutine that waits for that write. Default: nothing.
	BeforeWrite func()
	// Answer serves Ask of other members. Called from any goroutine.
	Answer func(ctx context.Context, question []byte) ([]byte, error)
	// Logger receives the node's and Raft's messages. Default: none.
	Logger *slog.Logger
}

const (
	baseHeartbeat = 300 * time.Millisecond
	baseElection  = 300 * time.Millisecond
	baseLease     = 200 * time.Millisecond
	baseGrace     = 1500 * time.Millisecond
	// commitTimeout is how long an idle leader waits before it tells followers
	// what was committed. Raft's 50 ms would be the latency of every write
	// that is awaited on a follower.
	commitTimeout    = 5 * time.Millisecond
	trailingLogs     = 10240
	transportTimeout = 5 * time.Second
	minSecret        = 16
)

var idPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	if o.RaftMultiplier == 0 {
		o.RaftMultiplier = 1
	}
	if o.SnapshotThreshold == 0 {
		o.SnapshotThreshold = 8192
	}
	if o.SnapshotInterval == 0 {
		o.SnapshotInterval = time.Minute
	}
	if o.Level == 0 {
		o.Level = 1
	}
	if o.StorePatience == 0 {
		o.StorePatience = storePatience
	}
	if o.BootstrapExpect == 0 && len(o.Join) == 0 {
		o.BootstrapExpect = 1
	}
	if o.Prepare == nil {
		o.Prepare = func(cmd []byte) []byte { return cmd }
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	if o.BeforeWrite == nil {
		o.BeforeWrite = func() {}
	}
	if o.Answer == nil {
		o.Answer = func(context.Context, []byte) ([]byte, error) {
			return nil, fmt.Errorf("%w: this node answers no questions", errRefused)
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// validate reports every problem of o at once; messages name the setting.
func (o Options) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.ID != "" && !idPattern.MatchString(o.ID) {
		bad("cluster.node_id %q: use 1 to 64 letters, digits, '.', '_' or '-'", o.ID)
	}
	if err := checkHostPort(o.Listen); err != nil {
		bad("cluster.listen: %w", err)
	}
	if o.Advertise != "" {
		if err := checkHostPort(o.Advertise); err != nil {
			bad("cluster.advertise: %w", err)
		}
	}
	for _, a := range o.Join {
		if err := checkHostPort(a); err != nil {
			bad("cluster.join: %w", err)
		}
	}
	if o.BootstrapExpect < 0 || o.BootstrapExpect > 99 {
		bad("cluster.bootstrap_expect %d: use the number of nodes, or 0 to join only", o.BootstrapExpect)
	}
	if o.NonVoter && len(o.Join) == 0 {
		bad("cluster.join: a non-voter needs the address of a member to join")
	}
	files := 0
	for _, f := range []string{o.CertFile, o.KeyFile, o.CAFile} {
		if f != "" {
			files++
		}
	}
	if files != 0 && files != 3 {
		bad("cluster certificate files: certificate, key and authority must be given together")
	}
	if m := o.RaftMultiplier; math.IsNaN(m) || m < 0.1 || m > 100 {
		bad("cluster.raft_multiplier %v: use 0.1 to 100", m)
	}
	if o.SnapshotInterval < 5*time.Millisecond {
		bad("cluster.snapshot_interval %v: too short", o.SnapshotInterval)
	}
	if o.StorePatience < 100*time.Millisecond {
		bad("patience with the store %v: too short", o.StorePatience)
	}
	if o.FSM == nil || o.AppliedIndex == nil {
		bad("node needs a state machine and its applied index")
	}
	return errors.Join(errs...)
}

func checkHostPort(a string) error {
	_, port, err := net.SplitHostPort(a)
	if err != nil {
		return fmt.Errorf("%q is not host:port: %w", a, err)
	}
	if port == "" {
		return fmt.Errorf("%q has no port", a)
	}
	return nil
}

// checkDialled checks an address that other hosts are to dial.
func checkDialled(a string) error {
	if err := checkHostPort(a); err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(a)
	number, err := net.LookupPort("tcp", port) // a number, or the name of a service
	if ip := net.ParseIP(host); host == "" || strings.ContainsFunc(a, unicode.IsSpace) || ip != nil && ip.IsUnspecified() || err != nil || number == 0 {
		return fmt.Errorf("%q is an address that others cannot dial: give a host of this node and a port from 1 to 65535", a)
	}
	return nil
}

// checkJoin refuses a lone bootstrap beside other nodes, which would give
// every one of them a cluster of its own.
func (o Options) checkJoin(self string) error {
	if o.BootstrapExpect != 1 {
		return nil
	}
	for _, a := range o.Join {
		if a != self {
			return fmt.Errorf("cluster.bootstrap_expect 1 with %s in cluster.join: set it to the number of nodes that start together, or leave it out to join only", a)
		}
	}
	return nil
}

// advertise returns the address to give to other members, given the bound one,
// and refuses one that they could not dial.
func (o Options) advertise(ctx context.Context, bound net.Addr) (string, error) {
	addr := o.Advertise
	if addr == "" {
		addr = o.Listen
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("cluster.advertise %q: %w", addr, err)
	}
	if port == "0" {
		if _, port, err = net.SplitHostPort(bound.String()); err != nil {
			return "", fmt.Errorf("reading the bound address: %w", err)
		}
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "", fmt.Errorf("cluster.advertise: other nodes cannot dial %q: set it to this node's own host name or address", addr)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
		return "", fmt.Errorf("cluster.advertise %q cannot be resolved: %w", addr, err)
	}
	return net.JoinHostPort(host, port), nil
}

// checkSecret refuses an open cluster port outside of this machine.
func (o Options) checkSecret(advertise string) error {
	if o.Secret != "" || o.CAFile != "" {
		return nil
	}
	for _, a := range []string{o.Listen, advertise} {
		host, _, err := net.SplitHostPort(a)
		if err != nil {
			return fmt.Errorf("cluster address %q: %w", a, err)
		}
		if !isLoopback(host) {
			return fmt.Errorf("cluster.secret is not set, but the cluster address %s is not a loopback address: set cluster.secret to the same long random text on every node", a)
		}
	}
	return nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// scale applies the multiplier.
func (o Options) scale(d time.Duration) time.Duration {
	return time.Duration(float64(d) * o.RaftMultiplier)
}

// raftConfig builds Raft's configuration. skipRestore says that the state
// machine holds at least what the newest snapshot does.
func (o Options) raftConfig(id string, skipRestore bool, logger *slog.Logger) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(id)
	c.HeartbeatTimeout = o.scale(baseHeartbeat)
	c.ElectionTimeout = o.scale(baseElection)
	c.LeaderLeaseTimeout = o.scale(baseLease)
	c.CommitTimeout = commitTimeout
	c.TrailingLogs = trailingLogs
	c.SnapshotThreshold = o.SnapshotThreshold
	c.SnapshotInterval = o.SnapshotInterval
	c.NoSnapshotRestoreOnStart = skipRestore
	// Commands enter the log under one lock; without a buffer each would have
	// to meet Raft's loop in person, and a group commit would hold one entry.
	c.BatchApplyCh = true
	c.NoLegacyTelemetry = true
	c.Logger = newRaftLogger(logger)
	return c
}
