package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// The secrets that every cluster of the harness starts with, unless Options say otherwise.
const (
	DefaultMasterKey     = "sk-harness-master-key"
	DefaultClusterSecret = "harness-cluster-secret-of-32-bytes"
)

// Options configure a cluster. Config is required.
type Options struct {
	Nodes int // 0 means 1
	// Config is the TOML of every node. Addresses, ids and data directories
	// are given by flags; gateway.master_key should refer to
	// os.environ/SLUICE_MASTER_KEY, which is set.
	Config        string
	Binary        string        // "" builds one
	IDPrefix      string        // of the nodes' ids; "" means n
	MasterKey     string        // "" means DefaultMasterKey
	ClusterSecret string        // "" means DefaultClusterSecret
	Env           []string      // NAME=value, added to the environment
	Flags         []string      // added to `sluice serve`
	Patience      time.Duration // for the first readiness; 0 means 30 s
	// Dir is where the nodes' files and logs go; Close leaves it alone. "" makes
	// a directory that Close removes.
	Dir string
	// Ports are the first and the last of the ports that nodes may have; zero
	// means 20000 to 32000.
	Ports [2]int
	// Prepared is called when the nodes' directories and addresses are known,
	// before any of them starts.
	Prepared func(*Cluster) error
}

func (o *Options) validate() error {
	if o.Config == "" {
		return errors.New("harness: Options.Config is empty")
	}
	if o.Nodes < 0 || o.Nodes > 9 {
		return fmt.Errorf("harness: %d nodes; use 1 to 9", o.Nodes)
	}
	o.Nodes = max(o.Nodes, 1)
	if o.IDPrefix == "" {
		o.IDPrefix = "n"
	}
	if o.Ports == [2]int{} {
		o.Ports = [2]int{lowestPort, highestPort}
	}
	if o.Ports[0] < 1 || o.Ports[1] < o.Ports[0] || o.Ports[1] > 65535 {
		return fmt.Errorf("harness: ports %d to %d; use a range within 1 to 65535", o.Ports[0], o.Ports[1])
	}
	if o.MasterKey == "" {
		o.MasterKey = DefaultMasterKey
	}
	if o.ClusterSecret == "" {
		o.ClusterSecret = DefaultClusterSecret
	}
	if o.Patience <= 0 {
		o.Patience = 30 * time.Second
	}
	return nil
}

// Cluster is a set of nodes that run from one configuration.
type Cluster struct {
	Nodes []*Node
	dir   string
	keep  bool // the directory is the caller's
	ports ports
	o     Options // as completed by start
	once  sync.Once
	err   error
}

// Start starts the nodes and waits until all are ready. On an error everything
// is stopped again; the error holds the end of the nodes' logs.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &Cluster{dir: o.Dir, keep: o.Dir != "", ports: ports{low: o.Ports[0], high: o.Ports[1]}}
	if !c.keep {
		var err error
		if c.dir, err = os.MkdirTemp("", "sluice-cluster-"); err != nil {
			return nil, fmt.Errorf("make a directory for the cluster: %w", err)
		}
	}
	if err := c.start(ctx, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, o Options) error {
	if o.Binary == "" {
		binary, err := Binary(ctx, c.dir)
		if err != nil {
			return err
		}
		o.Binary = binary
	}
	addrs, err := c.ports.take(2 * o.Nodes)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 512,
		DisableCompression:  true,
		Proxy:               nil, // loopback only, whatever the environment says
	}}
	members := ""
	if o.Nodes > 1 {
		members = strings.Join(addrs[o.Nodes:], ",")
	}
	for i := range o.Nodes {
		n, err := c.prepare(o, i, addrs[i], addrs[o.Nodes+i], members)
		if err != nil {
			return err
		}
		n.http = client
		c.Nodes = append(c.Nodes, n)
	}
	c.o = o
	if o.Prepared != nil {
		if err := o.Prepared(c); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	return c.Ready(ctx, o.Patience)
}

// prepare writes the files of one node and puts its command line together.
func (c *Cluster) prepare(o Options, i int, httpAddr, clusterAddr, members string) (*Node, error) {
	id := fmt.Sprintf("%s%d", o.IDPrefix, i+1)
	dir := filepath.Join(c.dir, id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory for %s: %w", id, err)
	}
	config := filepath.Join(dir, "sluice.toml")
	if err := os.WriteFile(config, []byte(o.Config), 0o600); err != nil {
		return nil, fmt.Errorf("write the configuration of %s: %w", id, err)
	}
	args := []string{"serve", "--config", config, "--node-id", id, "--data-dir", filepath.Join(dir, "data"),
		"--listen", httpAddr, "--cluster-listen", clusterAddr}
	if members != "" && i < o.Nodes {
		args = append(args, "--bootstrap-expect", fmt.Sprint(o.Nodes))
	}
	if members != "" {
		args = append(args, "--join", members)
	}
	env := slices.Concat(os.Environ(), []string{
		"SLUICE_MASTER_KEY=" + o.MasterKey, "SLUICE_CLUSTER_SECRET=" + o.ClusterSecret,
	}, o.Env)
	return &Node{
		ID: id, HTTPAddr: httpAddr, ClusterAddr: clusterAddr, DataDir: filepath.Join(dir, "data"),
		dir: dir, binary: o.Binary, args: append(args, o.Flags...), env: env, masterKey: o.MasterKey,
	}, nil
}

// Grow adds a node that joins through the others, by the options that the
// cluster was started with, and waits until it is ready.
func (c *Cluster) Grow(ctx context.Context, o Options, patience time.Duration) error {
	if err := o.validate(); err != nil {
		return err
	}
	addrs, err := c.ports.take(2)
	if err != nil {
		return err
	}
	first := c.Nodes[0]
	o.Binary, o.Nodes = first.binary, len(c.Nodes)
	n, err := c.prepare(o, len(c.Nodes), addrs[0], addrs[1], first.ClusterAddr)
	if err != nil {
		return err
	}
	n.http = first.http
	c.Nodes = append(c.Nodes, n)
	if err := n.Start(); err != nil {
		return err
	}
	return c.Ready(ctx, patience)
}

// Ready waits until every running node is ready.
func (c *Cluster) Ready(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, n := range c.Nodes {
		if !n.Running() {
			continue
		}
		if err := n.Ready(ctx); err != nil {
			return errors.Join(err, errors.New(c.Tail(30)))
		}
	}
	return nil
}

// Leader waits until a running node says that it leads, and returns it.
func (c *Cluster) Leader(ctx context.Context) (*Node, error) {
	for {
		for _, n := range c.Nodes {
			if !n.Running() {
				continue
			}
			s, err := n.Admin().Status(ctx)
			if err == nil && s.State == "leader" {
				return n, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a leader: %w\n%s", ctx.Err(), c.Tail(30))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Others returns all nodes but n.
func (c *Cluster) Others(n *Node) []*Node {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(o *Node) bool { return o == n })
}

// Running returns the nodes whose process lives.
func (c *Cluster) Running() []*Node {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(o *Node) bool { return !o.Running() })
}

// Restart starts every node that does not run, with its old command line, and
// waits until all are ready.
func (c *Cluster) Restart(ctx context.Context, patience time.Duration) error {
	for _, n := range c.Nodes {
		if n.Running() {
			continue
		}
		if err := n.Start(); err != nil {
			return err
		}
	}
	return c.Ready(ctx, patience)
}

// Tail returns the last lines of every node's log, for a failure report.
func (c *Cluster) Tail(lines int) string {
	var b strings.Builder
	for _, n := range c.Nodes {
		fmt.Fprintf(&b, "--- %s\n%s\n", n.ID, n.LogTail(lines))
	}
	return b.String()
}

// Close kills what still runs and removes all files. It may be called again.
func (c *Cluster) Close() error {
	c.once.Do(func() {
		var errs []error
		for _, n := range c.Nodes {
			if err := n.Kill(); err != nil && !errors.Is(err, ErrNotRunning) {
				errs = append(errs, err)
			}
			n.http.CloseIdleConnections()
		}
		if !c.keep {
			errs = append(errs, os.RemoveAll(c.dir))
		}
		c.err = errors.Join(errs...)
	})
	return c.err
}
