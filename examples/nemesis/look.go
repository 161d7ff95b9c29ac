package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/examples/harness"
)

// nodeStatus is what of /cluster/status matters here.
type nodeStatus struct {
	Leader *struct {
		ID string `json:"id"`
	} `json:"leader"`
	Digest *struct {
		Index  uint64 `json:"applied_index"`
		SHA256 string `json:"sha256"`
	} `json:"digest"`
}

func status(ctx context.Context, n *harness.Node, digest bool) (*nodeStatus, error) {
	path := "/cluster/status"
	if digest {
		path += "?digest=1"
	}
	r, err := n.Admin().Get(within(ctx, 2*time.Second), path)
	if err != nil {
		return nil, err
	}
	s := &nodeStatus{}
	if err := json.Unmarshal(r.Body, s); err != nil {
		return nil, fmt.Errorf("read the status of %s: %w", n.ID, err)
	}
	return s, nil
}

// look asks a healed cluster for what it must have kept, and given back.
func (r *runner) look(ctx context.Context) {
	for _, n := range r.cluster.Nodes { // once more, for what was counted last
		once, stop := context.WithTimeout(ctx, watchEvery)
		r.watcher.watch(once, n)
		stop()
	}
	r.slots(ctx)
	r.present(ctx)
	r.registers(ctx)
	r.inflight(ctx)
	r.digests(ctx)
}

// quiet is how long leftovers may take to go: the slots of a node that died are
// given back after five seconds, those of a client that left when it is noticed.
const quiet = 15 * time.Second

// slots fills a key's slots, which a request in flight that was forgotten would
// prevent.
func (r *runner) slots(ctx context.Context) {
	i := slices.IndexFunc(r.plan.Keys, func(k KeyPlan) bool { return k.MaxParallel > 0 })
	key := r.plan.Keys[i]
	s := SlotFacts{Limit: key.MaxParallel}
	for end := time.Now().Add(quiet); ; {
		s.Statuses, s.Extra = nil, 0
		var wg sync.WaitGroup
		wg.Go(func() {
			for _, x := range r.load.burst(ctx, key.Name, "slow", int(key.MaxParallel)) {
				s.Statuses = append(s.Statuses, x.Status)
			}
		})
		sleep(ctx, 75*time.Millisecond) // the provider takes 150 ms
		s.Extra = r.load.send(ctx, r.cluster.Nodes[len(r.cluster.Nodes)-1], key.Name, "slow", false).Status
		wg.Wait()
		r.end.Slots = s
		if len(checkSlots(&Facts{Slots: s})) == 0 || time.Now().After(end) || ctx.Err() != nil {
			return
		}
		sleep(ctx, 500*time.Millisecond)
	}
}

// present asks every node for every key whose creation was acknowledged.
func (r *runner) present(ctx context.Context) {
	r.end.Present = map[string]map[string]string{}
	for _, n := range r.cluster.Nodes {
		shown := map[string]string{}
		for name, k := range r.load.keys {
			shown[name] = r.shows(ctx, n, k)
		}
		r.end.Present[n.ID] = shown
	}
}

// shows returns what is wrong with a key on a node, "" for nothing.
func (r *runner) shows(ctx context.Context, n *harness.Node, k KeyPlan) string {
	reply, err := n.Admin().Get(within(ctx, patience), "/key/info?key="+r.load.secrets[k.Name])
	if err != nil {
		return err.Error()
	}
	var body struct {
		Info struct {
			RPM *int64 `json:"rpm_limit"`
		} `json:"info"`
	}
	if err := json.Unmarshal(reply.Body, &body); err != nil || reply.Status != 200 {
		return fmt.Sprintf("status %d: %.200s", reply.Status, reply.Body)
	}
	if got := body.Info.RPM; k.RPM > 0 && (got == nil || *got != k.RPM) {
		return fmt.Sprintf("rpm_limit is %v, %d was acknowledged", got, k.RPM)
	}
	return ""
}

// registers reads each of them on each node: once for the history, which the
// search judges, and so that all nodes can be compared.
func (r *runner) registers(ctx context.Context) {
	r.end.Registers = map[string]map[string]string{}
	names := map[string]bool{}
	for _, o := range r.manager.history {
		names[o.Register] = true
	}
	for name := range names {
		shown := map[string]string{}
		for _, n := range r.cluster.Nodes {
			o := r.manager.operate(ctx, n, nil, Op{Register: name, Client: 50, Kind: "read"})
			if o.Outcome != "ok" {
				r.trouble("a healed node cannot read register %s: %s", name, o)
				continue
			}
			r.manager.add(o)
			shown[n.ID] = strconv.FormatInt(o.Value, 10)
		}
		r.end.Registers[name] = shown
	}
}

// inflight adds up the gauge of every node.
func (r *runner) inflight(ctx context.Context) {
	for end := time.Now().Add(quiet); ; sleep(ctx, 200*time.Millisecond) {
		r.end.Slots.Inflight = map[string]float64{}
		left := 0.0
		for _, n := range r.cluster.Nodes {
			reply, err := n.Admin().Get(within(ctx, patience), "/metrics")
			if err != nil {
				r.trouble("read the metrics of %s: %v", n.ID, err)
				return
			}
			sum := 0.0
			lines := bufio.NewScanner(strings.NewReader(string(reply.Body)))
			for lines.Scan() {
				if fields := strings.Fields(lines.Text()); len(fields) == 2 && strings.HasPrefix(fields[0], "sluice_inflight") {
					v, _ := strconv.ParseFloat(fields[1], 64)
					sum += v
				}
			}
			r.end.Slots.Inflight[n.ID] = sum
			left += sum
		}
		if left == 0 || time.Now().After(end) || ctx.Err() != nil {
			return
		}
	}
}

// digests waits until all nodes have applied the same entry.
func (r *runner) digests(ctx context.Context) {
	for end := time.Now().Add(quiet); ; sleep(ctx, 100*time.Millisecond) {
		r.end.Digests = nil
		same := true
		for _, n := range r.cluster.Nodes {
			s, err := status(ctx, n, true)
			if err != nil || s.Digest == nil {
				r.trouble("ask %s for its digest: %v", n.ID, err)
				return
			}
			r.end.Digests = append(r.end.Digests, Digest{Node: n.ID, Index: s.Digest.Index, SHA256: s.Digest.SHA256})
			same = same && s.Digest.Index == r.end.Digests[0].Index
		}
		if same || time.Now().After(end) || ctx.Err() != nil {
			return
		}
	}
}
