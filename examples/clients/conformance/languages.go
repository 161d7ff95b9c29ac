package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// languages are all that there are. The libraries of Python and Node are
// installed below build, from the files that pin them, and only once for each
// content of those files. root is the directory of this module.
func languages(root, build string) []language {
	python := filepath.Join(build, "python")
	node := filepath.Join(build, "node")
	return append(inProcess(),
		language{
			name:    "python",
			prepare: func(ctx context.Context) error { return preparePython(ctx, filepath.Join(root, "python"), python) },
			start: func(context.Context) (driver, error) {
				return startProcess("python", filepath.Join(root, "python"), filepath.Join(python, "bin", "python"), "driver.py")
			},
		},
		language{
			name:    "node",
			prepare: func(ctx context.Context) error { return prepareNode(ctx, filepath.Join(root, "node"), node) },
			start: func(context.Context) (driver, error) {
				return startProcess("node", node, "node", "driver.mjs")
			},
		})
}

// preparePython makes a virtual environment with exactly what requirements.txt names.
func preparePython(ctx context.Context, source, build string) error {
	requirements := filepath.Join(source, "requirements.txt")
	return once(build, []string{requirements}, func() error {
		if err := run(ctx, source, "python3", "-c", "import sys; sys.exit(sys.version_info < (3, 9) and 'Python 3.9 or newer is needed')"); err != nil {
			return err
		}
		if err := run(ctx, source, "python3", "-m", "venv", build); err != nil {
			return err
		}
		return run(ctx, source, filepath.Join(build, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
			"--no-deps", "--requirement", requirements)
	})
}

// prepareNode copies the driver beside node_modules, because that is where Node
// looks for them, and installs exactly what package-lock.json names.
func prepareNode(ctx context.Context, source, build string) error {
	files, err := filepath.Glob(filepath.Join(source, "*.*"))
	if err != nil {
		return fmt.Errorf("list %s: %w", source, err)
	}
	return once(build, files, func() error {
		if err := run(ctx, source, "node", "-e", "if (parseInt(process.versions.node) < 20) { console.error('Node 20 or newer is needed'); process.exit(1) }"); err != nil {
			return err
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return fmt.Errorf("copy the driver: %w", err)
			}
			if err := os.WriteFile(filepath.Join(build, filepath.Base(f)), b, 0o600); err != nil {
				return fmt.Errorf("copy the driver: %w", err)
			}
		}
		return run(ctx, build, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
	})
}

// once runs install in a fresh directory unless it did so for the same files
// before.
func once(dir string, files []string, install func() error) error {
	h := sha256.New()
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return fmt.Errorf("read what pins the libraries: %w", err)
		}
		fmt.Fprintf(h, "%d %s\n%s", len(b), filepath.Base(f), b)
	}
	sum := fmt.Appendf(nil, "%x\n", h.Sum(nil))
	mark := filepath.Join(dir, "installed")
	if b, err := os.ReadFile(mark); err == nil && bytes.Equal(b, sum) {
		return nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return fmt.Errorf("make room for the libraries: %w", err)
	}
	if err := install(); err != nil {
		return err
	}
	if err := os.WriteFile(mark, sum, 0o600); err != nil {
		return fmt.Errorf("mark the libraries as installed: %w", err)
	}
	return nil
}

// run runs a command; the error holds the end of what it said.
func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var said tail
	cmd.Stdout, cmd.Stderr = &said, &said
	switch err := cmd.Run(); {
	case err != nil && said.String() != "":
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, said.String())
	case err != nil:
		return fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	return nil
}
