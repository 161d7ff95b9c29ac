package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// target is where requests go.
type target struct {
	name string
	addr string // host:port
	key  string // bearer token, "" for none
	pid  int    // of its process, 0 for this one
}

const chatPath = "/v1/chat/completions"

// request is the bytes of one chat request, the same for every participant but
// for the credential.
func (t target) request(model string) []byte {
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Hello world!"}]}`, model)
	auth := ""
	if t.key != "" {
		auth = "Authorization: Bearer " + t.key + "\r\n"
	}
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		chatPath, t.addr, auth, len(body), body)
}

// measured is what one slice of load gave.
type measured struct {
	perSecond float64
	p50       time.Duration
	cpu       time.Duration // of its process per request; 0 where the system does not tell
	ours      time.Duration // of this process, which is the load and the upstream

	rounds []float64 // requests per second of each, in their order
}

// versus returns the ratios of m to another one, round by round: neighbours in
// time share what the machine does besides.
func (m measured) versus(other measured) []float64 {
	ratios := make([]float64, len(m.rounds))
	for i := range ratios {
		ratios[i] = m.rounds[i] / other.rounds[i]
	}
	return ratios
}

// closedLoop keeps conns connections busy for d: each sends its next request
// when the last was answered. A raw connection instead of an http.Client keeps
// the load generator's own cost, which all participants share, small.
func closedLoop(ctx context.Context, t target, model string, conns int, d time.Duration) (measured, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	payload := t.request(model)
	var (
		mu   sync.Mutex
		all  []time.Duration
		errs []error
		wg   sync.WaitGroup
	)
	cpu, ours := cpuTime(t.pid), cpuTime(0)
	began := time.Now()
	for range conns {
		wg.Go(func() {
			took, err := loop(ctx, t.addr, payload)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			if err != nil {
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(began)
	if len(errs) > 0 {
		return measured{}, fmt.Errorf("load on %s: %w", t.name, errs[0])
	}
	if len(all) == 0 {
		return measured{}, fmt.Errorf("load on %s: no request was answered in %s", t.name, d)
	}
	slices.Sort(all)
	n := time.Duration(len(all))
	return measured{
		perSecond: float64(n) / elapsed.Seconds(), p50: all[n/2],
		cpu: (cpuTime(t.pid) - cpu) / n, ours: (cpuTime(0) - ours) / n,
	}, nil
}

// loop is one connection's part; it returns the time of every request.
func loop(ctx context.Context, addr string, payload []byte) ([]time.Duration, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	answers := bufio.NewReaderSize(c, 16<<10)
	var took []time.Duration
	for ctx.Err() == nil {
		began := time.Now()
		if _, err := c.Write(payload); err != nil {
			return nil, fmt.Errorf("send: %w", err)
		}
		status, err := readAnswer(answers)
		if err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		if status != http.StatusOK {
			return nil, fmt.Errorf("status %d", status)
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

var contentLength = []byte("content-length:")

// readAnswer reads one answer, which must have a declared length, and returns
// its status. It looks at no more than that: what the load costs is shared by
// all participants and makes them look alike.
func readAnswer(r *bufio.Reader) (status int, err error) {
	length := -1
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		switch {
		case err != nil:
			return 0, err
		case first:
			if status, err = strconv.Atoi(string(line[min(len("HTTP/1.1 "), len(line)):min(len("HTTP/1.1 200"), len(line))])); err != nil {
				return 0, fmt.Errorf("%.100q is no status line", line)
			}
		case len(line) <= 2: // the blank one
			if length < 0 {
				return 0, errors.New("it has no Content-Length")
			}
			_, err := r.Discard(length)
			return status, err
		}
		if n := len(contentLength); len(line) > n && bytes.EqualFold(line[:n], contentLength) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[n:]))); err != nil {
				return 0, fmt.Errorf("its Content-Length: %w", err)
			}
		}
	}
}

// perRound is how many turns each target gets in a round: many short ones, so
// that what the machine does meanwhile hits all of them.
const perRound = 3

// compare measures the targets in turn, round after round, and returns each
// one's medians.
func compare(ctx context.Context, o options, targets []target, model string, conns int) ([]measured, error) {
	speeds := make([][]float64, len(targets))
	delays := make([][]time.Duration, len(targets))
	cpus := make([][]time.Duration, len(targets))
	ours := make([][]time.Duration, len(targets))
	for round := range perRound * (o.rounds + 1) {
		for i, t := range targets {
			m, err := closedLoop(ctx, t, model, conns, o.slice/perRound)
			if err != nil {
				return nil, err
			}
			if round < perRound {
				continue // warms connections and caches up
			}
			speeds[i] = append(speeds[i], m.perSecond)
			delays[i] = append(delays[i], m.p50)
			cpus[i], ours[i] = append(cpus[i], m.cpu), append(ours[i], m.ours)
		}
	}
	medians := make([]measured, len(targets))
	for i := range targets {
		medians[i] = measured{rounds: slices.Clone(speeds[i]), perSecond: median(speeds[i]), p50: median(delays[i]), cpu: median(cpus[i]), ours: median(ours[i])}
	}
	return medians, nil
}
