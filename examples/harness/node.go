package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Node is one sluice process that can be stopped and started again with the
// same command line. Its methods may be called by any goroutine; Start and the
// signals of one node are taken one at a time.
type Node struct {
	ID          string
	HTTPAddr    string // host:port of the data plane and management
	ClusterAddr string
	DataDir     string

	dir       string
	binary    string
	args      []string
	env       []string
	masterKey string
	http      *http.Client

	mu      sync.Mutex
	cmd     *exec.Cmd
	exited  chan struct{} // closed when cmd has ended
	waitErr error         // set before exited is closed
	starts  int
}

// ErrNotRunning is returned by the signals when the process has ended.
var ErrNotRunning = errors.New("node is not running")

// URL returns the base address of the HTTP API.
func (n *Node) URL() string { return "http://" + n.HTTPAddr }

// Dir returns the working directory of the process: its configuration and logs.
func (n *Node) Dir() string { return n.dir }

// Rewrite replaces the node's configuration file, for its next start or Hangup.
func (n *Node) Rewrite(config string) error {
	path := filepath.Join(n.dir, "sluice.toml")
	if err := os.WriteFile(path+".new", []byte(config), 0o600); err != nil {
		return fmt.Errorf("replace the configuration of %s: %w", n.ID, err)
	}
	return os.Rename(path+".new", path)
}

// Hangup has the process read its configuration file again (SIGHUP).
func (n *Node) Hangup() error { return n.signal(syscall.SIGHUP) }

// Start runs the process. It does not wait for readiness: see Ready.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil && !closed(n.exited) {
		return fmt.Errorf("start %s: it is running", n.ID)
	}
	// A file of its own per run; the process writes to it directly, so nothing
	// is lost when it is killed.
	n.starts++
	out, err := os.Create(filepath.Join(n.dir, fmt.Sprintf("run-%02d.log", n.starts)))
	if err != nil {
		return fmt.Errorf("start %s: %w", n.ID, err)
	}
	defer out.Close()
	cmd := exec.Command(n.binary, n.args...)
	cmd.Env = n.env
	cmd.Dir = n.dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = sysProcAttr()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", n.ID, err)
	}
	exited := make(chan struct{})
	n.cmd, n.exited = cmd, exited
	go func() {
		err := cmd.Wait()
		n.mu.Lock()
		n.waitErr = err
		n.mu.Unlock()
		close(exited)
	}()
	return nil
}

// Ready waits until GET /health/readiness says 200.
func (n *Node) Ready(ctx context.Context) error {
	last := "no answer yet"
	for {
		ready, why := n.IsReady(ctx)
		if ready {
			return nil
		}
		if why != "" {
			last = why
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to be ready (%s): %w", n.ID, last, ctx.Err())
		case <-n.done():
			return fmt.Errorf("wait for %s to be ready: it ended: %v", n.ID, n.exitError())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// IsReady asks the readiness endpoint once; why is its answer when it is not.
func (n *Node) IsReady(ctx context.Context) (ready bool, why string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := n.Admin().Get(ctx, "/health/readiness")
	if err != nil {
		return false, err.Error()
	}
	return r.Status == http.StatusOK, string(r.Body)
}

// Terminate sends SIGTERM; Wait tells how it ended.
func (n *Node) Terminate() error { return n.signal(syscall.SIGTERM) }

// Kill sends SIGKILL and waits until the process is gone.
func (n *Node) Kill() error {
	if err := n.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-n.done()
	return nil
}

// Pause stops the process where it is (SIGSTOP), as a long garbage collection
// or a frozen virtual machine would; Resume lets it go on.
func (n *Node) Pause() error { return n.signal(syscall.SIGSTOP) }

// Resume continues a paused process (SIGCONT).
func (n *Node) Resume() error { return n.signal(syscall.SIGCONT) }

// Wait waits for the end of the process and returns its exit code, -1 if a
// signal ended it.
func (n *Node) Wait(ctx context.Context) (int, error) {
	select {
	case <-n.done():
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for %s to end: %w", n.ID, ctx.Err())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return 0, ErrNotRunning
	}
	return n.cmd.ProcessState.ExitCode(), nil
}

// Running reports whether the process lives.
func (n *Node) Running() bool { return !closed(n.done()) }

// PID returns the process id of the last start, 0 before it.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return 0
	}
	return n.cmd.Process.Pid
}

// Log returns what the process has written, over all its runs.
func (n *Node) Log() string {
	files, err := filepath.Glob(filepath.Join(n.dir, "run-*.log"))
	if err != nil { // only a bad pattern
		return err.Error()
	}
	var b bytes.Buffer
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			fmt.Fprintf(&b, "%v\n", err)
		}
		b.Write(text)
	}
	return b.String()
}

// LogTail returns the last lines of the log.
func (n *Node) LogTail(lines int) string {
	all := strings.Split(strings.TrimRight(n.Log(), "\n"), "\n")
	return strings.Join(all[max(len(all)-lines, 0):], "\n")
}

func (n *Node) signal(sig syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil || closed(n.exited) {
		return ErrNotRunning
	}
	if err := n.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %s to %s: %w", sig, n.ID, err)
	}
	return nil
}

// done is closed when there is no process.
func (n *Node) done() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return n.exited
}

func (n *Node) exitError() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(n.waitErr, errors.New("its log ends:\n"+n.LogTail(20)))
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
