package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// BinaryEnv names the environment variable that points to a built binary; it
// saves the build.
const BinaryEnv = "SLUICE_BIN"

// Binary returns the path of the sluice binary: the one that SLUICE_BIN names,
// or one built from the module that the working directory can see, below dir.
func Binary(ctx context.Context, dir string) (string, error) {
	if path := os.Getenv(BinaryEnv); path != "" {
		return filepath.Abs(path)
	}
	return Build(ctx, dir)
}

// Build builds the binary below dir, whatever SLUICE_BIN says, with the given
// build tags.
func Build(ctx context.Context, dir string, tags ...string) (string, error) {
	// A module that only requires sluice knows where it is, but not the
	// checksums of what the command needs: so build in the module's own directory.
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sluice")
	list.Stderr = os.Stderr
	root, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("find module sluice (set %s to use a built binary): %w", BinaryEnv, err)
	}
	path := filepath.Join(dir, "sluice")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "-tags", strings.Join(tags, ","), "./cmd/sluice")
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build sluice: %w\n%s", err, out)
	}
	return path, nil
}

// Builder builds the binary once for many clusters, as a test package wants it.
// The zero value is ready; Close removes what it built.
type Builder struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Binary returns the path, building at the first call.
func (b *Builder) Binary(ctx context.Context) (string, error) {
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "sluice-bin-"); b.err != nil {
			return
		}
		b.path, b.err = Binary(ctx, b.dir)
	})
	return b.path, b.err
}

// Close removes the binary.
func (b *Builder) Close() error {
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}
