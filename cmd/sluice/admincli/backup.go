package admincli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"sluice/admin"
	"sluice/fsm"
)

// transferTimeout is what a backup or restore may take unless --timeout is given.
const transferTimeout = 10 * time.Minute

// toStdout is the FILE that means standard output.
const toStdout = "-"

func newBackupCommand(g *globalOptions) *cobra.Command {
	stale := false
	cmd := &cobra.Command{Use: "backup FILE", Short: "Write all keys, teams, configurations and running windows to FILE (- for stdout)",
		Long: "Writes a consistent backup while the cluster serves. FILE appears only when it is whole; one that is there already is then replaced. " +
			"It holds hashes of keys and references to secrets, never a secret.", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.backup(cmd, args[0], stale)
		}}
	cmd.Flags().BoolVar(&stale, "stale", false, "take what the asked node has, although it may lack the newest writes; for a cluster without a majority")
	return cmd
}

func (o *globalOptions) backup(cmd *cobra.Command, path string, stale bool) error {
	c, err := o.transfer(cmd)
	if err != nil {
		return err
	}
	get := func(w io.Writer) (*fsm.BackupInfo, error) {
		return bounded(o, cmd, c, func(ctx context.Context, c *admin.Client) (*fsm.BackupInfo, error) {
			return c.Backup(ctx, w, stale)
		})
	}
	if path == toStdout {
		info, err := get(cmd.OutOrStdout())
		if err != nil {
			return err
		}
		return o.print(cmd.ErrOrStderr(), info, func(p *printer) { showBackup(p, path, info) })
	}
	file, err := fileAt(path)
	if err != nil {
		return err
	}
	info, err := writeWhole(file, get)
	if err != nil {
		return err
	}
	return o.print(cmd.OutOrStdout(), info, func(p *printer) { showBackup(p, path, info) })
}

func showBackup(p *printer, path string, b *fsm.BackupInfo) {
	if path == toStdout {
		path = "Backup"
	}
	p.row(fmt.Sprintf("%s: %d keys, %d teams, configuration version %d, as of log index %d (%d bytes).",
		path, b.Keys, b.Teams, b.ConfigVersion, b.AppliedIndex, b.Length))
}

// transfer returns a client, with more time than a small request needs.
func (o *globalOptions) transfer(cmd *cobra.Command) (*admin.Client, error) {
	if !cmd.Flags().Changed("timeout") {
		o.timeout = transferTimeout
	}
	return o.client()
}

// maxLinks is how many symbolic links in a row are followed.
const maxLinks = 40

// fileAt follows symbolic links to the file, which need not exist yet, that path
// stands for. A directory, or a device such as /dev/null, is not to be replaced.
func fileAt(path string) (string, error) {
	if path == "" {
		return "", usagef("the name of the file is empty")
	}
	file := path
	for range maxLinks {
		info, err := os.Lstat(file)
		switch {
		case err != nil, info.Mode().IsRegular():
			return file, nil // what is wrong with it, its creation tells
		case info.Mode().Type() != os.ModeSymlink:
			return "", usagef("%s is not a file: name a file, or - for standard output", path)
		}
		to, err := os.Readlink(file)
		if err != nil {
			return "", fmt.Errorf("follow the link: %w", err)
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(file), to)
		}
		file = to
	}
	return "", usagef("%s: too many symbolic links", path)
}

// writeWhole lets get write a file that appears under path only if it is whole
// and on the disk.
func writeWhole[T any](path string, get func(io.Writer) (T, error)) (out T, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part") // 0600
	if err != nil {
		return out, fmt.Errorf("create the file: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if out, err = get(f); err != nil {
		return out, errors.Join(err, f.Close())
	}
	if err = errors.Join(f.Sync(), f.Close()); err != nil {
		return out, fmt.Errorf("write the file: %w", err)
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return out, fmt.Errorf("put the file in place: %w", err)
	}
	return out, syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync the directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync the directory: %w", err)
	}
	return nil
}

func newRestoreCommand(g *globalOptions) *cobra.Command {
	return &cobra.Command{Use: "restore FILE", Short: "Restore a backup into a fresh cluster",
		Long: "Restores keys, teams, configurations and running windows, on all nodes or on none. The cluster must be fresh: nothing created in it yet. " +
			"Nodes keep their ids and secrets; the environment variables that the configuration refers to must be set on them.", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return &UsageError{Err: fmt.Errorf("open the backup: %w", err)}
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil || !info.Mode().IsRegular() {
				return usagef("%s is not a file", args[0])
			}
			if !cmd.Flags().Changed("timeout") {
				g.timeout = transferTimeout
			}
			return request(g, cmd, func(ctx context.Context, c *admin.Client) (*admin.RestoreAnswer, error) {
				return c.Restore(ctx, f, info.Size())
			}, func(p *printer, a *admin.RestoreAnswer) {
				p.row(fmt.Sprintf("Restored %d keys, %d teams and configuration version %d, from the backup of %s.",
					a.Keys, a.Teams, a.ConfigVersion, a.Backup.CreatedAt.UTC().Format(time.DateTime)+" UTC"))
			})
		}}
}
