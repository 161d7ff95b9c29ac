package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

const (
	benchModel = "bench-model"
	plenty     = int64(1_000_000_000) // a limit that is checked and counted, and never reached
)

func gatewayConfig(upstreamURL string) string {
	return fmt.Sprintf(`
[gateway]
master_key = "os.environ/SLUICE_MASTER_KEY"

[cluster]
secret = "os.environ/SLUICE_CLUSTER_SECRET"

[[models]]
name = %q
rpm  = %d
tpm  = %d
provider = "openai_compatible"
api_base = "%s/v1"

[priority_reservation]
prod = 0.9
dev  = 0.1
`, benchModel, plenty, plenty, upstreamURL)
}

// governedKey makes a key with limits of its own, in a team with limits and a
// priority, so that a request meets every kind of limit there is.
func governedKey(ctx context.Context, n *harness.Node) (string, error) {
	limit := plenty
	team, err := n.Admin().CreateTeam(ctx, harness.TeamSpec{RPM: &limit, TPM: &limit, Metadata: map[string]any{"priority": "prod"}})
	if err != nil {
		return "", err
	}
	k, err := n.Admin().CreateKey(ctx, harness.KeySpec{TeamID: team, RPM: &limit, TPM: &limit})
	return k.Secret, err
}

// waits sums up what requests have waited for their admission.
type waits struct{ seconds, count float64 }

// mean is the mean wait since an earlier reading.
func (w waits) mean(since waits) time.Duration {
	return time.Duration((w.seconds - since.seconds) / max(w.count-since.count, 1) * float64(time.Second))
}

// admissionWaits reads the gateway's own metric.
func admissionWaits(ctx context.Context, n *harness.Node) (waits, error) {
	page, err := n.Admin().Get(ctx, "/metrics")
	if err != nil {
		return waits{}, fmt.Errorf("read the metrics: %w", err)
	}
	var w waits
	for line := range strings.Lines(string(page.Body)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		var sum *float64
		switch name {
		case "sluice_admission_seconds_sum":
			sum = &w.seconds
		case "sluice_admission_seconds_count":
			sum = &w.count
		default:
			continue
		}
		if *sum, err = strconv.ParseFloat(value, 64); err != nil {
			return waits{}, fmt.Errorf("read metric %s: %w", name, err)
		}
	}
	if w.count == 0 {
		return waits{}, fmt.Errorf("GET /metrics, status %d: no sluice_admission_seconds in it", page.Status)
	}
	return w, nil
}

// benchGateway compares direct requests, Go's bare reverse proxy and sluice
// with every limit on, on the same mock upstream.
func benchGateway(ctx context.Context, o options, r *report) error {
	up, err := upstream.Start(upstream.Options{Keep: -1})
	if err != nil {
		return err
	}
	defer up.Close()
	bare, pid, stop, err := startBareProxy(ctx, up.URL())
	if err != nil {
		return err
	}
	defer stop()
	c, err := harness.Start(ctx, harness.Options{Config: gatewayConfig(up.URL())})
	if err != nil {
		return err
	}
	defer c.Close()
	key, err := governedKey(ctx, c.Nodes[0])
	if err != nil {
		return err
	}
	direct, err := url.Parse(up.URL())
	if err != nil {
		return fmt.Errorf("read the upstream's address: %w", err)
	}
	targets := []target{
		{name: "direct", addr: direct.Host},
		{name: "bare httputil.ReverseProxy", addr: bare, pid: pid},
		{name: "sluice, one node, all limits on", addr: c.Nodes[0].HTTPAddr, key: key, pid: c.Nodes[0].PID()},
	}
	r.section("Gateway: closed loop, chat answers of about 400 bytes, each participant a process of its own;\nmedians of %d interleaved rounds of %s. Key, team, model and priority limits are checked and counted in the log.", o.rounds, o.slice)
	if err := throughput(ctx, o, r, targets); err != nil {
		return err
	}
	return latency(ctx, o, r, targets, c.Nodes[0])
}

func throughput(ctx context.Context, o options, r *report, targets []target) error {
	const conns = 64
	m, err := compare(ctx, o, targets, benchModel, conns)
	if err != nil {
		return err
	}
	for i, t := range targets {
		r.line(fmt.Sprintf("%s, %d connections", t.name, conns), fmt.Sprintf("%.0f/s, p50 %s", m[i].perSecond, micros(m[i].p50)))
	}
	for i, t := range targets[1:] {
		r.line("processor time a request: "+t.name+" + load, upstream", m[i+1].shares())
	}
	ratio := median(m[2].versus(m[1]))
	r.judge("sluice : bare proxy, requests per second", fmt.Sprintf("%.2f", ratio), "≥ 1.2", ratio >= 1.2)
	return nil
}

// latency compares one connection: what sluice adds is its own work and the
// log, which the bench "log" puts beside the disk.
func latency(ctx context.Context, o options, r *report, targets []target, n *harness.Node) error {
	before, err := admissionWaits(ctx, n)
	if err != nil {
		return err
	}
	m, err := compare(ctx, o, targets, benchModel, 1)
	if err != nil {
		return err
	}
	after, err := admissionWaits(ctx, n)
	if err != nil {
		return err
	}
	for i, t := range targets {
		r.line(t.name+", 1 connection", fmt.Sprintf("%.0f/s, p50 %s", m[i].perSecond, micros(m[i].p50)))
	}
	r.line("of that sluice's mean wait for the log", micros(after.mean(before)))
	return nil
}
