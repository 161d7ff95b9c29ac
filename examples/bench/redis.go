package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// redisScript is the decision that sluice takes for a key with limits, in a
// team with limits, on a model with a pool: four windows are looked at, and
// counted in all or in none. A gateway with limits in Redis sends it for every
// request. What it leaves out (saturation, tokens, headers) favours Redis.
const redisScript = `
local now, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local open = {}
for i = 1, #KEYS do
  local w = redis.call('HMGET', KEYS[i], 'start', 'requests', 'tokens')
  local start = tonumber(w[1])
  if start and now < start + window then
    if tonumber(w[2]) >= tonumber(ARGV[1 + 2 * i]) or tonumber(w[3]) >= tonumber(ARGV[2 + 2 * i]) then return -i end
    open[i] = true
  end
end
for i = 1, #KEYS do
  if open[i] then redis.call('HINCRBY', KEYS[i], 'requests', 1)
  else redis.call('HSET', KEYS[i], 'start', now, 'requests', 1, 'tokens', 0) end
end
return 1`

// redisServer is a process of the distribution's Redis that keeps nothing.
type redisServer struct {
	addr string
	sha  string
	stop func()
}

var errNoRedis = errors.New("no redis-server in PATH")

func startRedis(ctx context.Context) (*redisServer, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoRedis
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a port for Redis: %w", err)
	}
	s := &redisServer{addr: l.Addr().String()}
	if err := l.Close(); err != nil {
		return nil, fmt.Errorf("find a port for Redis: %w", err)
	}
	_, port, _ := net.SplitHostPort(s.addr)
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, binary, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	cmd.Dir, cmd.Stderr = os.TempDir(), os.Stderr
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start Redis: %w", err)
	}
	s.stop = func() {
		cancel()
		_ = cmd.Wait() // it was killed: its error says just that
	}
	if s.sha, err = s.load(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// load waits until Redis listens and gives it the script.
func (s *redisServer) load(ctx context.Context) (sha string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		c, err := dialRedis(s.addr)
		if err == nil {
			defer c.conn.Close()
			return c.do(respCommand("SCRIPT", "LOAD", redisScript))
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("wait for Redis: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// decision is the command of one admission.
func (s *redisServer) decision() []byte {
	limit := strconv.FormatInt(plenty, 10)
	args := []string{"EVALSHA", s.sha, "4", "key", "team", "model", "pool", "1000", "3600000"}
	for range 4 {
		args = append(args, limit, limit)
	}
	return respCommand(args...)
}

// measure sends decisions over conns connections for d, each its next one when
// the last was answered, and returns the rate and the median wait.
func (s *redisServer) measure(conns int, d time.Duration) (perSecond float64, p50 time.Duration, err error) {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		all  []time.Duration
		errs []error
		stop atomic.Bool
	)
	began := time.Now()
	for range conns {
		wg.Go(func() {
			took, err := s.loop(&stop)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			if err != nil {
				errs = append(errs, err)
			}
		})
	}
	time.Sleep(d)
	stop.Store(true)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, 0, fmt.Errorf("ask Redis: %w", err)
	}
	return float64(len(all)) / time.Since(began).Seconds(), median(all), nil
}

func (s *redisServer) loop(stop *atomic.Bool) (took []time.Duration, err error) {
	c, err := dialRedis(s.addr)
	if err != nil {
		return nil, err
	}
	defer c.conn.Close()
	command := s.decision()
	for !stop.Load() {
		began := time.Now()
		answer, err := c.do(command)
		if err != nil {
			return nil, err
		}
		if answer != "1" {
			return nil, fmt.Errorf("refused: %s", answer)
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

// redisConn speaks as much of RESP as the script needs.
type redisConn struct {
	conn net.Conn
	in   *bufio.Reader
}

func dialRedis(addr string) (*redisConn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &redisConn{conn: c, in: bufio.NewReader(c)}, nil
}

// respCommand is an array of bulk strings.
func respCommand(args ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.Bytes()
}

// do sends a command and returns its answer: a number, a status or a bulk string.
func (c *redisConn) do(command []byte) (string, error) {
	if _, err := c.conn.Write(command); err != nil {
		return "", err
	}
	line, err := c.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case ':', '+':
		return text, nil
	case '$':
		line, err := c.in.ReadString('\n')
		return strings.TrimRight(line, "\r\n"), err
	}
	return "", fmt.Errorf("answer of Redis: %q", strings.TrimSpace(line))
}
