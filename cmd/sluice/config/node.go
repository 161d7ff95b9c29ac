package config

import (
	"log/slog"
	"math"
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
	g.OpenMetrics = t.boolean("open_metrics", g.OpenMetrics)
	t.known = append(t.known, "window") // cluster-wide: read there
	t.close()
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
