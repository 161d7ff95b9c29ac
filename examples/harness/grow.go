package harness

import (
	"fmt"
	"strings"
)

// Add starts another node, which joins those that there are. flags are added to
// its command line. It does not wait for readiness: see Ready.
func (c *Cluster) Add(flags ...string) (*Node, error) {
	addrs, err := c.ports.take(2)
	if err != nil {
		return nil, err
	}
	o := c.o
	o.Nodes = 1 // it does not form a cluster with anybody
	n, err := c.prepare(o, len(c.Nodes), addrs[0], addrs[1], "")
	if err != nil {
		return nil, err
	}
	var members []string
	for _, m := range c.Nodes {
		members = append(members, m.ClusterAddr)
	}
	n.args = append(append(n.args, "--join", strings.Join(members, ",")), flags...)
	n.http = c.Nodes[0].http
	c.Nodes = append(c.Nodes, n)
	return n, n.Start()
}

// Addresses returns n more loopback addresses that nobody listens on.
func (c *Cluster) Addresses(n int) ([]string, error) { return c.ports.take(n) }

// SetFlag gives the next start another value of a flag, in place of the one that
// the command line has.
func (n *Node) SetFlag(name, value string) {
	n.DropFlag(name)
	n.args = append(n.args, fmt.Sprintf("--%s=%s", name, value))
	if name == "cluster-listen" {
		n.ClusterAddr = value
	}
}

// DropFlag leaves a flag out of the next start.
func (n *Node) DropFlag(name string) {
	var args []string
	for i := 0; i < len(n.args); i++ {
		switch {
		case n.args[i] == "--"+name:
			i++ // its value
		case !strings.HasPrefix(n.args[i], "--"+name+"="):
			args = append(args, n.args[i])
		}
	}
	n.args = args
}

// SetEnv gives the next start another value of an environment variable.
func (n *Node) SetEnv(name, value string) {
	n.env = append(n.env[:len(n.env):len(n.env)], name+"="+value) // the last one counts
}
