package admincli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sluice/admin"
)

func newClusterCommand(g *globalOptions) *cobra.Command {
	return newGroup("cluster", "The nodes",
		newClusterStatusCommand(g), newJoinTokenCommand(g), newRemoveCommand(g), newTransferCommand(g))
}

func newClusterStatusCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "status", Short: "Show the cluster as the asked node sees it", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.ClusterStatus, error) {
				return c.ClusterStatus(ctx)
			}, showCluster)
		}}
}

func showCluster(p *printer, s *admin.ClusterStatus) {
	leader := "none (nothing can be changed until there is one)"
	if s.Leader != nil {
		leader = s.Leader.ID + " (" + s.Leader.Address + ")"
	}
	p.row("asked node", s.NodeID+" ("+s.State+", "+s.Version+")")
	p.row("cluster", s.ClusterID)
	p.row("leader", leader)
	p.row("term", strconv.FormatUint(s.Term, 10))
	p.row("log", fmt.Sprintf("last %d, committed %d, applied %d", s.LastLogIndex, s.CommitIndex, s.AppliedIndex))
	p.row("limits", s.Limits)
	p.blank()
	p.row("NODE", "ADDRESS", "ROLE", "REACHABLE", "APPLIED", "VERSION")
	for _, n := range s.Nodes {
		applied := ""
		if n.AppliedIndex != nil {
			applied = strconv.FormatUint(*n.AppliedIndex, 10)
		}
		p.row(n.ID, n.Address, role(n), yes(n.Reachable), applied, text(n.Version))
	}
}

func role(n admin.NodeState) string {
	switch {
	case n.Leader:
		return "leader"
	case n.Voter:
		return "voter"
	}
	return "replica"
}

// joinToken is what another node needs to join. The secret itself never
// travels through this API.
type joinToken struct {
	Join    []string `json:"join"`
	Command string   `json:"command"`
	Needs   []string `json:"needs"`
}

func newJoinTokenCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "join-token", Short: "Print the command line that another node joins with", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*joinToken, error) {
				s, err := c.ClusterStatus(ctx)
				if err != nil {
					return nil, err
				}
				return newJoinToken(s), nil
			}, func(p *printer, t *joinToken) {
				p.row(t.Command)
				p.blank()
				for _, n := range t.Needs {
					p.row("# " + n)
				}
			})
		}}
}

func newJoinToken(s *admin.ClusterStatus) *joinToken {
	t := &joinToken{Join: []string{}, Needs: []string{
		"Put the new host's own name in place of HOST.",
		"cluster.secret and gateway.master_key must be the same there as on the other nodes; they are not shown here.",
	}}
	local := false
	for _, n := range s.Nodes {
		t.Join = append(t.Join, n.Address)
		if host, _, err := net.SplitHostPort(n.Address); err == nil {
			ip := net.ParseIP(host)
			local = local || host == "localhost" || ip != nil && ip.IsLoopback()
		}
	}
	if local {
		t.Needs = append(t.Needs, "Members here have loopback addresses, which only nodes on their own host can reach; start them with --cluster-listen and --cluster-advertise first.")
	}
	t.Command = "sluice serve --config sluice.toml --cluster-listen 0.0.0.0:4100 --cluster-advertise HOST:4100 --join " + strings.Join(t.Join, ",")
	return t
}

func newRemoveCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "remove NODE", Short: "Take a node out of the cluster", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.NodeAnswer, error) {
				a, err := c.RemoveNode(ctx, args[0])
				var refused *admin.Error
				if errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable {
					err = fmt.Errorf("%w If a majority is lost for good: sluice recover --help", err)
				}
				return a, err
			}, func(p *printer, a *admin.NodeAnswer) { p.row(a.Node + " is no longer a member.") })
		}}
}

func newTransferCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "transfer [NODE]", Short: "Hand leadership to a node, to any without NODE", Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := ""
			if len(args) > 0 {
				id = args[0]
			}
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.NodeAnswer, error) {
				return c.TransferLeadership(ctx, id)
			}, func(p *printer, a *admin.NodeAnswer) {
				if a.Node == "" {
					p.row("Another node leads now.")
					return
				}
				p.row(a.Node + " leads now.")
			})
		}}
}
