package proxy

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// unknown is the model label of requests that named no configured model, so
// that clients cannot make series.
const unknown = "unknown"

// metrics are the series of the data plane. Labels are bounded by the
// configuration: entries of [[models]], known priorities, deployments.
type metrics struct {
	requests  *prometheus.CounterVec // model, priority, status
	limited   *prometheus.CounterVec // model, priority, scope, dimension
	tokens    *prometheus.CounterVec // model, priority, kind, estimated
	failures  *prometheus.CounterVec // deployment, reason
	inflight  *prometheus.GaugeVec   // model
	admission prometheus.Histogram
	overhead  prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	short := []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_requests_total", Help: "Requests answered by the data plane; 499 is a client that left.",
		}, []string{"model", "priority", "status"}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_limited_total", Help: "Requests refused by a limit.",
		}, []string{"model", "priority", "scope", "dimension"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_tokens_total", Help: "Tokens recorded; kind is input, output, a part of input (cached, cache_creation) or of output (reasoning).",
		}, []string{"model", "priority", "kind", "estimated"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_upstream_failures_total", Help: "Calls that an upstream failed.",
		}, []string{"deployment", "reason"}),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_inflight", Help: "Admitted requests that have not ended.",
		}, []string{"model"}),
		admission: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_admission_seconds", Help: "Time to an admission or refusal.", Buckets: short,
		}),
		overhead: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_overhead_seconds", Help: "Time that the gateway added before the first byte of an answer.", Buckets: short,
		}),
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.limited, m.tokens, m.failures, m.inflight, m.admission, m.overhead} {
		if err := reg.Register(c); err != nil {
			errs = append(errs, fmt.Errorf("register a metric of the proxy: %w", err))
		}
	}
	return m, errors.Join(errs...)
}

// cooldowns shows which deployments take no traffic.
type cooldowns struct {
	p    *Proxy
	desc *prometheus.Desc
}

var _ prometheus.Collector = cooldowns{}

func newCooldowns(p *Proxy) cooldowns {
	return cooldowns{p, prometheus.NewDesc("sluice_deployment_cooldown",
		"Seconds until the deployment takes traffic again at this node; 0: it does.", []string{"deployment"}, nil)}
}

func (c cooldowns) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

func (c cooldowns) Collect(ch chan<- prometheus.Metric) {
	t := c.p.table.Load()
	if t == nil {
		return // nothing has been asked yet
	}
	now := c.p.now()
	for _, pool := range t.pools {
		for _, d := range pool.targets {
			left, _ := d.rests(now)
			ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, left.Seconds(), d.ID)
		}
	}
}

// count adds n tokens of one kind.
func (m *metrics) count(model, priority, kind string, estimated bool, n int64) {
	if n > 0 {
		m.tokens.WithLabelValues(model, priority, kind, strconv.FormatBool(estimated)).Add(float64(n))
	}
}
