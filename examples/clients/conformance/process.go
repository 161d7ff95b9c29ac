package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// process is a driver in another language: a program that reads a Call as a
// line of JSON and answers with a Result as one, until its input ends. An empty
// line says that it has loaded its libraries.
type process struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr tail
}

var _ driver = (*process)(nil)

// startProcess runs the program. Its environment is a bare one, so that no
// setting of the person who runs it changes what a library does.
func startProcess(name, dir string, argv ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(argv[0], argv[1:]...)}
	p.cmd.Dir = dir
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1", "NO_PROXY=*"}
	p.cmd.Stderr = &p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start the %s driver: %w", name, err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the %s driver: %w", name, err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s driver: %w", name, err)
	}
	kill := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	if _, err := p.out.ReadBytes('\n'); err != nil {
		return nil, errors.Join(p.broken(err), p.Close())
	}
	return p, nil
}

// patience is how long a busy machine may take to load the libraries, and to
// put them away.
const patience = 2 * time.Minute

// Name says how the table calls it.
func (p *process) Name() string { return p.name }

// Run hands a call over and waits for its result; after an error the driver is
// of no use any more.
func (p *process) Run(ctx context.Context, c Call) (Result, error) {
	line, err := json.Marshal(c)
	if err != nil {
		return Result{}, fmt.Errorf("encode a call: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() }) // ends the read below
	defer stop()
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return Result{}, p.broken(err)
	}
	answer, err := p.out.ReadBytes('\n')
	if err != nil {
		return Result{}, p.broken(err)
	}
	var r Result
	d := json.NewDecoder(bytes.NewReader(answer))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Result{}, p.broken(fmt.Errorf("it answered %q: %w", answer, err))
	}
	return r, nil
}

func (p *process) broken(err error) error {
	return fmt.Errorf("the %s driver: %w\n%s", p.name, err, p.stderr.String())
}

// Close ends the program's input and waits for it.
func (p *process) Close() error {
	if err := p.in.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("end the %s driver: %w", p.name, err)
	}
	kill := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	if err := p.cmd.Wait(); err != nil {
		return p.broken(err)
	}
	return nil
}

// tail keeps the end of what a driver complains about.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 4 << 10

// Write never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(len(t.text)-tailSize, 0):]
	return len(b), nil
}

// String returns the last lines.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
