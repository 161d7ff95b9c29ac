package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

// patience is how long a client waits for an answer.
const patience = 5 * time.Second

// load sends requests and writes down what came of them. Any goroutine may call.
type load struct {
	plan    *Plan
	cluster *harness.Cluster
	since   func() time.Duration

	next    atomic.Int64
	mu      sync.Mutex
	sent    map[string]Sent
	keys    map[string]KeyPlan
	secrets map[string]string
}

// know adds a key that was acknowledged.
func (l *load) know(k KeyPlan, secret string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys[k.Name], l.secrets[k.Name] = k, secret
}

func (l *load) secret(key string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.secrets[key]
}

// worker sends one request after the other, as its generator decides, until ctx ends.
func (l *load) worker(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		key := l.plan.Keys[r.IntN(len(l.plan.Keys))]
		if r.IntN(2) == 0 {
			key = l.plan.Keys[r.IntN(3)] // the plain ones, which ask for the shared models
		}
		model := key.Models[r.IntN(len(key.Models))]
		l.send(ctx, l.node(r.Float64()), key.Name, model, r.IntN(4) == 0)
		sleep(ctx, time.Duration(r.ExpFloat64()*float64(l.pause())))
	}
}

// pause is the mean time between two requests of a worker now.
func (l *load) pause() time.Duration {
	if l.plan.Pulse > 0 && l.since()/l.plan.Pulse%2 == 1 {
		return 8 * l.plan.Pause
	}
	return l.plan.Pause
}

func (l *load) node(x float64) *harness.Node {
	for i, w := range l.plan.Weights {
		if x -= w; x < 0 {
			return l.cluster.Nodes[i]
		}
	}
	return l.cluster.Nodes[0]
}

// send asks once. The id travels in the prompt.
func (l *load) send(ctx context.Context, n *harness.Node, key, model string, stream bool) Sent {
	s := Sent{ID: fmt.Sprintf("q%d-%d", l.plan.Seed, l.next.Add(1)), Key: key, Model: model, Node: n.ID}
	body := map[string]any{"model": model, "messages": []map[string]string{{"role": "user", "content": s.ID}}}
	if stream {
		body["stream"] = true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	s.At = l.since()
	resp, err := n.As(l.secret(key)).Open(ctx, "POST", "/v1/chat/completions", body, nil)
	if err == nil {
		s.Status, s.LimitedBy = resp.StatusCode, resp.Header.Get("X-Sluice-Limited-By")
		s.Mode = resp.Header.Get("X-Sluice-Limits")
		var text []byte
		text, err = io.ReadAll(resp.Body)
		err = errors.Join(err, resp.Body.Close())
		if s.Status >= 400 && s.Status != 429 {
			s.Err = string(text[:min(len(text), 300)])
		}
	}
	s.Done = l.since()
	if err != nil {
		s.Err = err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[s.ID] = s
	return s
}

// burst sends n requests with a key at once, over all nodes.
func (l *load) burst(ctx context.Context, key, model string, n int) []Sent {
	all := make([]Sent, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { all[i] = l.send(ctx, l.cluster.Nodes[i%len(l.cluster.Nodes)], key, model, false) })
	}
	wg.Wait()
	return all
}

var idInPrompt = regexp.MustCompile(`"content": ?"(q\d+-\d+)"`)

// executed turns the provider's record into facts.
func executed(up *upstream.Server, epoch time.Time) []Executed {
	var all []Executed
	for _, r := range up.Requests("") {
		e := Executed{ID: "unreadable: " + string(r.Body), At: r.At.Sub(epoch)}
		if m := idInPrompt.FindSubmatch(r.Body); m != nil {
			e.ID = string(m[1])
		}
		if !r.DoneAt.IsZero() {
			e.Done = r.DoneAt.Sub(epoch)
		}
		all = append(all, e)
	}
	return all
}
