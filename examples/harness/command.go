package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Command runs `sluice ARGS…` against this node, as an operator would, and
// returns what it wrote to standard output.
func (n *Node) Command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, n.binary, args...)
	cmd.Env = append(os.Environ(), "SLUICE_SERVER="+n.URL(), "SLUICE_MASTER_KEY="+n.masterKey)
	out, err := cmd.Output()
	if ee, ok := err.(*exec.ExitError); ok {
		return string(out), fmt.Errorf("sluice %v: %w: %s", args, err, ee.Stderr)
	}
	return string(out), err
}

// ApplyConfig makes the cluster-wide part of a TOML text the configuration of
// the cluster, with `sluice admin config apply`.
func (n *Node) ApplyConfig(ctx context.Context, toml string) error {
	f, err := os.CreateTemp(n.dir, "apply-*.toml")
	if err != nil {
		return fmt.Errorf("apply a configuration: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(toml)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("apply a configuration: write %s: %w", filepath.Base(f.Name()), err)
	}
	_, err = n.Command(ctx, "admin", "config", "apply", f.Name())
	return err
}
