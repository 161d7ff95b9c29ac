package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/config"
	"sluice/fsm"
	"sluice/node"
)

func newRecoverCommand(e environ) *cobra.Command {
	var dir, file string
	var peers []string
	cmd := asUsage(&cobra.Command{
		Use: "recover --peers ID=HOST:PORT[,…] [--data-dir DIR] [--config FILE]", Short: "Give a stopped node's cluster new members, after a majority was lost for good",
		Long: "Give a stopped node's cluster new members, without asking a majority of the old ones.\n\n" +
			"Use it when a majority of the voters is lost for good, or when all addresses have changed and no node\n" +
			"finds another. While a majority can still be started, start that instead.\n\n" +
			"Everything in this node's log is kept and counts as committed. What the lost nodes acknowledged without\n" +
			"this one is gone: of several survivors take the one with the highest last_log_index.\n\n" +
			"List the nodes that keep their data, with the addresses that the others are to dial, and run the same\n" +
			"command on each of them while all are stopped. Every other node has to start from an empty data directory.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := node.RecoverOptions{DataDir: dir}
			if err := readRecoverConfig(cmd, &o, file, e.lookup); err != nil {
				return err
			}
			list, err := parsePeers(peers)
			if err != nil {
				return &usageError{err}
			}
			o.Peers = list
			return recoverNode(cmd.OutOrStdout(), o, slog.New(slog.DiscardHandler))
		},
	}, cobra.NoArgs)
	cmd.Flags().StringVar(&dir, "data-dir", "", "`DIR` of the stopped node (gateway.data_dir; default: data)")
	cmd.Flags().StringVar(&file, "config", "", "configuration `FILE` of the node, for its data directory (environment: SLUICE_CONFIG)")
	cmd.Flags().StringSliceVar(&peers, "peers", nil, "`ID=HOST:PORT` of every member from now on, this node among them, separated by commas")
	return cmd
}

// readRecoverConfig takes from the node's file what the flags leave open.
func readRecoverConfig(cmd *cobra.Command, o *node.RecoverOptions, file string, lookup config.Lookup) error {
	if !cmd.Flags().Changed("config") {
		file, _ = lookup("SLUICE_CONFIG")
	}
	f := config.Default()
	if file != "" {
		var problems config.Problems
		if f, problems = config.Read(file, config.Options{Lookup: lookup, Remote: true}); f == nil || len(problems) > 0 {
			return problems.Err()
		}
	}
	o.ID = f.Node.Cluster.NodeID
	if !cmd.Flags().Changed("data-dir") {
		o.DataDir = f.Node.Gateway.DataDir
	}
	if strings.TrimSpace(o.DataDir) == "" {
		return &usageError{fmt.Errorf("--data-dir is empty: name the data directory of the stopped node")}
	}
	return nil
}

// parsePeers reads ID=HOST:PORT pairs.
func parsePeers(pairs []string) ([]node.Peer, error) {
	var out []node.Peer
	for _, pair := range pairs {
		id, addr, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || id == "" || addr == "" {
			return nil, fmt.Errorf("--peers %q is not ID=HOST:PORT", pair)
		}
		out = append(out, node.Peer{ID: id, Address: addr})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("--peers is missing: list every member from now on as ID=HOST:PORT, this node among them")
	}
	return out, nil
}

// recoverNode does it and says what it did and what is left to do.
func recoverNode(w io.Writer, o node.RecoverOptions, logger *slog.Logger) error {
	state, err := fsm.Open(fsm.Options{Logger: logger})
	if err != nil {
		return fmt.Errorf("make a state to replay the log into: %w", err)
	}
	defer state.Close() // in memory only
	o.FSM, o.Logger = state, logger
	r, err := node.Recover(o)
	if err != nil {
		return fmt.Errorf("recover %s: %w", o.DataDir, err)
	}
	if r.Unchanged {
		_, err := fmt.Fprintf(w, "Nothing to do: the members of node %s are %s already.\n", r.NodeID, showPeers(o.Peers))
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Node %s: members were %s and are now %s.\n", r.NodeID, showPeers(r.Before), showPeers(o.Peers))
	v := state.View()
	fmt.Fprintf(&b, "Kept: everything up to log entry %d (%d keys, configuration version %d). The cluster is now %s.\n", r.Index, v.KeyCount(), v.ConfigVersion(), r.Cluster)
	b.WriteString("Next:\n")
	if len(o.Peers) > 1 {
		fmt.Fprintf(&b, "  1. Run this command with the same --peers on each of %s, then start them all.\n", othersOf(o.Peers, r.NodeID))
	} else {
		b.WriteString("  1. Start this node.\n")
	}
	b.WriteString("  2. On every other node delete the data directory, then start it with --join and an address from the list; it fetches everything.\n")
	_, err = io.WriteString(w, b.String())
	return err
}

func showPeers(peers []node.Peer) string {
	var parts []string
	for _, p := range peers {
		parts = append(parts, p.ID+"="+p.Address)
	}
	return strings.Join(parts, ", ")
}

func othersOf(peers []node.Peer, self string) string {
	var ids []string
	for _, p := range peers {
		if p.ID != self {
			ids = append(ids, p.ID)
		}
	}
	return strings.Join(ids, ", ")
}
