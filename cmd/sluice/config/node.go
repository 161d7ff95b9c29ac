package config

import (
	"log/slog"
	"math"
	"net/url"
	"strings"
	"time"
)

// readNode reads the node-local tables into s, which holds the defaults.
func (r *reader) readNode(root *table, s *Settings) {
	r.readGateway(root.table("gateway"), &s.Gateway)
	r.readClusterTable(root.table("cluster"), &s.Cluster)
	t := root.table("log")
	level := t.choice("level", "info", "debug", "info", "warn", "error")
	_ = s.Log.Level.UnmarshalText([]byte(level)) // one of the four
	s.Log.Format = t.choice("format", s.Log.Format, "text", "json")
	t.close()
}

func (r *reader) readGateway(t *table, g *Gateway) {
	g.Listen = t.text("listen", g.Listen, `"127.0.0.1:4000"`)
	g.DataDir = t.text("data_dir", g.DataDir, `"data"`)
	g.MasterKey = t.secret("master_key", "os.environ/SLUICE_MASTER_KEY")
	g.Drain = t.duration("drain", g.Drain, 0)
	g.WriteTimeout = t.duration("write_timeout", g.WriteTimeout, time.Millisecond)
	g.MaxBody = t.size("max_body", g.MaxBody)
	g.BodyMemory = t.size("max_body_memory", max(g.BodyMemory, g.MaxBody))
	if g.BodyMemory < g.MaxBody {
		t.problem(t.at("max_body_memory"), "is less than max_body", "a body of that size could never be taken; write "+formatSize(max(g.MaxBody, 1<<30))+" or more")
	}
	g.CORSOrigins = t.origins("cors_origins")
	g.OpenMetrics = t.boolean("open_metrics", g.OpenMetrics)
	t.known = append(t.known, "window") // cluster-wide: read there
	t.close()
}

// origins reads the origins of pages.
func (t *table) origins(key string) []string {
	const example = `"https://app.example.com"`
	list := t.texts(key, example)
	for i, o := range list {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Host == "" || u.Scheme+"://"+u.Host != o || strings.Contains(o, "*")) {
			t.problem(index(t.at(key), i), o+" is not an origin", `write "*", or scheme, host and port without anything behind them: `+example)
		}
	}
	return list
}

func (r *reader) readClusterTable(t *table, c *Cluster) {
	c.NodeID = t.text("node_id", "", `"n1"`)
	c.Listen = t.text("listen", c.Listen, `"127.0.0.1:4100"`)
	c.Advertise = t.text("advertise", "", `"node1.example.com:4100"`)
	c.Join = t.texts("join", `"127.0.0.1:4101"`)
	c.BootstrapExpect = int(t.whole("bootstrap_expect", 0, 1, 99))
	c.Secret = t.secret("secret", "os.environ/SLUICE_CLUSTER_SECRET")
	c.CertFile = t.text("cert_file", "", `"node.crt"`)
	c.KeyFile = t.text("key_file", "", `"node.key"`)
	c.CAFile = t.text("ca_file", "", `"ca.crt"`)
	c.NonVoter = !t.boolean("voter", true)
	c.RaftMultiplier = t.number("raft_multiplier", c.RaftMultiplier, 0.1, 100)
	c.SnapshotThreshold = uint64(t.whole("snapshot_threshold", int64(c.SnapshotThreshold), 1, math.MaxInt32))
	c.SnapshotInterval = t.duration("snapshot_interval", c.SnapshotInterval, time.Millisecond)
	t.close()
}

// levelName is what the file calls a level.
func levelName(l slog.Level) string {
	switch {
	case l <= slog.LevelDebug:
		return "debug"
	case l <= slog.LevelInfo:
		return "info"
	case l <= slog.LevelWarn:
		return "warn"
	}
	return "error"
}
