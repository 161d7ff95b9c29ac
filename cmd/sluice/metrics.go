package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice/limiter"
)

// metrics returns the handler of /metrics. What the parts do not count
// themselves is read when it is asked for.
func (a *app) metrics() http.Handler {
	a.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		clusterCollector{a},
	)
	return promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{})
}

var (
	descInfo        = prometheus.NewDesc("sluice_info", "1, with the version that runs.", []string{"version", "node"}, nil)
	descState       = prometheus.NewDesc("sluice_raft_state", "1 for the state that the node is in.", []string{"state"}, nil)
	descLeader      = prometheus.NewDesc("sluice_raft_leader", "Whether this node leads.", nil, nil)
	descHasLeader   = prometheus.NewDesc("sluice_raft_has_leader", "Whether this node knows a leader.", nil, nil)
	descTerm        = prometheus.NewDesc("sluice_raft_term", "Raft's current term.", nil, nil)
	descLast        = prometheus.NewDesc("sluice_raft_last_log_index", "Index of the last entry of this node's log.", nil, nil)
	descCommit      = prometheus.NewDesc("sluice_raft_commit_index", "Index up to which entries are committed, as this node knows.", nil, nil)
	descApplied     = prometheus.NewDesc("sluice_raft_applied_index", "Index up to which this node has applied entries.", nil, nil)
	descSaturation  = prometheus.NewDesc("sluice_saturation", "Part of the model's limit that is used in the running window.", []string{"model"}, nil)
	descPermits     = prometheus.NewDesc("sluice_permits", "Permits of the model that this node holds and has not used.", []string{"model"}, nil)
	descConfig      = prometheus.NewDesc("sluice_config_version", "Version of the cluster-wide configuration.", nil, nil)
	descDegraded    = prometheus.NewDesc("sluice_degraded", "Whether this node has no quorum to count with.", nil, nil)
	descMode        = prometheus.NewDesc("sluice_limits_mode", "How this node admits at the moment: exact, share or allow.", []string{"mode"}, nil)
	descKeys        = prometheus.NewDesc("sluice_keys", "Virtual keys in the cluster.", nil, nil)
	raftStates      = []string{"forming", "follower", "candidate", "leader", "stopped"}
	allDescriptions = []*prometheus.Desc{
		descInfo, descState, descLeader, descHasLeader, descTerm, descLast, descCommit, descApplied, descSaturation, descPermits, descConfig, descDegraded, descMode, descKeys,
	}
)

// clusterCollector shows the node, its log and the models' windows.
type clusterCollector struct{ *app }

var _ prometheus.Collector = clusterCollector{}

func (c clusterCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range allDescriptions {
		ch <- d
	}
}

func (c clusterCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	s, v, current := c.node.Status(), c.state.View(), c.mode()
	gauge(descInfo, 1, version, s.NodeID)
	for _, state := range raftStates {
		gauge(descState, truth(s.State == state), state)
	}
	gauge(descLeader, truth(s.State == "leader"))
	gauge(descHasLeader, truth(s.LeaderID != ""))
	gauge(descTerm, float64(s.Term))
	gauge(descLast, float64(s.LastLogIndex))
	gauge(descCommit, float64(s.CommitIndex))
	gauge(descApplied, float64(s.AppliedIndex))
	gauge(descConfig, float64(v.ConfigVersion()))
	gauge(descDegraded, truth(c.gate.Degraded()))
	for _, mode := range []string{limiter.Exact, string(limiter.NoQuorumShare), string(limiter.NoQuorumAllow)} {
		gauge(descMode, truth(current == mode), mode)
	}
	gauge(descKeys, float64(v.KeyCount()))
	for _, m := range (shown{c.state, c.gate}).Limits("") {
		gauge(descSaturation, m.Saturation, m.Model)
		gauge(descPermits, float64(c.gate.Permits(m.Model)), m.Model)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
