package config

import (
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"
)

// maxMasterKey is the longest master key: what a client may send in a header.
const maxMasterKey = 4096

// nodeID is the form of cluster.node_id.
var nodeID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Settings are the node-local half of a file.
type Settings struct {
	Gateway Gateway
	Cluster Cluster
	Log     Log
}

// Gateway is [gateway] without window, which is cluster-wide.
type Gateway struct {
	Listen       string // host:port for HTTP
	DataDir      string
	MasterKey    Secret
	Drain        time.Duration // how long open streams may go on after SIGTERM
	WriteTimeout time.Duration // for one write to a client
	MaxBody      int64         // bytes, on the wire and unpacked
	BodyMemory   int64         // bytes of all bodies that are held at once
	CORSOrigins  []string      // whose pages may call the data plane; "*" is all
	OpenMetrics  bool          // /metrics without the master key
}

// Cluster is [cluster].
type Cluster struct {
	NodeID          string // "": random, kept in the data directory
	Listen          string // host:port for Raft and forwarding
	Advertise       string // "": the listen address
	Join            []string
	BootstrapExpect int // 0: 1 without Join, else wait to be let in
	Secret          Secret
	CertFile        string // with KeyFile and CAFile: certificates instead of the secret
	KeyFile         string
	CAFile          string
	NonVoter        bool
	// RaftMultiplier stretches all of Raft's timeouts together; 1 is for a
	// local network.
	RaftMultiplier    float64
	SnapshotThreshold uint64        // log entries between snapshots
	SnapshotInterval  time.Duration // how often the threshold is looked at
}

// Log is [log].
type Log struct {
	Level  slog.Level
	Format string // text | json
}

// defaultSettings are the settings of an empty file.
func defaultSettings() Settings {
	return Settings{
		Gateway: Gateway{
			Listen:       "127.0.0.1:4000",
			DataDir:      "data",
			Drain:        30 * time.Second,
			WriteTimeout: 30 * time.Second,
			MaxBody:      20 << 20,
			BodyMemory:   1 << 30,
		},
		Cluster: Cluster{
			Listen:            "127.0.0.1:4100",
			RaftMultiplier:    1,
			SnapshotThreshold: 8192,
			SnapshotInterval:  time.Minute,
		},
		Log: Log{Level: slog.LevelInfo, Format: "text"},
	}
}

// Secret is a value that a file may only refer to. Printing or logging it in
// any way shows the reference.
type Secret struct {
	ref   string
	value string
}

// NewSecret returns a secret that did not come from the environment; label is
// what is shown in its place.
func NewSecret(label, value string) Secret { return Secret{ref: label, value: value} }

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return s.value }

// IsZero reports whether no secret is set.
func (s Secret) IsZero() bool { return s.value == "" }

// String returns the reference, never the value.
func (s Secret) String() string { return s.ref }

// Format keeps every fmt verb away from the value.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.ref)) }

// LogValue keeps the value out of structured logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.ref) }

// MarshalText keeps the value out of JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.ref), nil }

// Check returns what only the settings as a whole can show to be wrong, after
// flags have been laid over the file.
func (f *File) Check() Problems {
	if f.unreadable {
		return nil // what it leaves out nobody knows
	}
	var ps Problems
	add := func(key, problem, remedy string) {
		ps = append(ps, Problem{File: f.Name, Line: f.lines.of(key), Key: key, Problem: problem, Remedy: remedy})
	}
	g, c := f.Node.Gateway, f.Node.Cluster
	// A reference that was written and could not be read is reported already.
	if g.MasterKey.IsZero() && f.lines["gateway.master_key"] == 0 {
		add("gateway.master_key", "there is no master key, so nobody could manage this gateway",
			`set master_key = "os.environ/SLUICE_MASTER_KEY" and that variable, or start with --dev`)
	}
	checkMasterKey(add, g.MasterKey)
	if c.NodeID != "" && !nodeID.MatchString(c.NodeID) {
		add("cluster.node_id", fmt.Sprintf("%.64q is not a node id", c.NodeID), "use 1 to 64 letters, digits, '.', '_' or '-'")
	}
	checkAddress(add, "gateway.listen", g.Listen)
	checkAddress(add, "cluster.listen", c.Listen)
	if c.Advertise != "" {
		checkAddress(add, "cluster.advertise", c.Advertise)
	}
	if self := f.self(); unspecified(self) {
		add("cluster.advertise", fmt.Sprintf("other nodes cannot dial %s", self), "set it to this node's own host name or address, with the port")
	}
	for i, j := range c.Join {
		checkAddress(add, fmt.Sprintf("cluster.join[%d]", i), j)
	}
	f.checkMembership(add)
	f.checkSecret(add)
	return ps
}

// self is the address that the other nodes dial.
func (f *File) self() string {
	if c := f.Node.Cluster; c.Advertise == "" {
		return c.Listen
	}
	return f.Node.Cluster.Advertise
}

// checkMasterKey refuses a key that no client could send in a header, so that
// it shows at the start and not as an odd 401.
func checkMasterKey(add func(key, problem, remedy string), s Secret) {
	key := s.Reveal()
	visible := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
	if !visible || len(key) > maxMasterKey {
		add("gateway.master_key", fmt.Sprintf("the value of %s cannot be sent as a key", s), fmt.Sprintf("use at most %d visible ASCII characters, without blanks", maxMasterKey))
	}
}

func (f *File) checkMembership(add func(key, problem, remedy string)) {
	c := f.Node.Cluster
	if c.NonVoter && len(c.Join) == 0 {
		add("cluster.voter", "a node without a vote needs others to replicate from", "set cluster.join to the cluster address of a member")
	}
	self := f.self()
	others := slices.ContainsFunc(c.Join, func(j string) bool { return j != self })
	if c.BootstrapExpect == 1 && others {
		add("cluster.bootstrap_expect", "1 would give this node a cluster of its own, beside those in cluster.join",
			"set it to the number of nodes that start together, or leave it out to join a cluster that runs")
	}
}

func (f *File) checkSecret(add func(key, problem, remedy string)) {
	c := f.Node.Cluster
	given := 0
	for _, file := range []string{c.CertFile, c.KeyFile, c.CAFile} {
		if file != "" {
			given++
		}
	}
	if given != 0 && given != 3 {
		add("cluster.cert_file", "cert_file, key_file and ca_file belong together", "set all three or none")
	}
	const remedy = `set secret = "os.environ/SLUICE_CLUSTER_SECRET" and that variable, the same on all nodes`
	switch {
	case !c.Secret.IsZero() || given > 0 || f.lines["cluster.secret"] != 0:
	case !loopback(c.Listen):
		add("cluster.secret", fmt.Sprintf("cluster.listen is %s, which others can reach, and there is no secret", c.Listen), remedy+", or listen on 127.0.0.1")
	case c.Advertise != "" && !loopback(c.Advertise):
		add("cluster.secret", fmt.Sprintf("cluster.advertise is %s, which others can reach, and there is no secret", c.Advertise), remedy)
	}
}

func checkAddress(add func(key, problem, remedy string), key, addr string) {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == '/' || r == '@' }) {
		example := "127.0.0.1:4000"
		if strings.HasPrefix(key, "cluster.") {
			example = "127.0.0.1:4100"
		}
		add(key, fmt.Sprintf("%q is not an address", addr), "write host:port, such as "+example)
	}
}

// unspecified reports an address that only a listener can have.
func unspecified(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false // reported as not an address
	}
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// loopback reports whether only this host can reach addr. A name other than
// localhost counts as reachable: what it resolves to may change.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return true // reported as not an address
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
