package node

import (
	"context"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

func TestEveryRaftOptionReachesRaft(t *testing.T) {
	base := Options{}.withDefaults()
	logger := slog.New(slog.DiscardHandler)
	for name, c := range map[string]struct {
		change func(*Options)
		fields []string
	}{
		"RaftMultiplier":    {func(o *Options) { o.RaftMultiplier = 3 }, []string{"HeartbeatTimeout", "ElectionTimeout", "LeaderLeaseTimeout"}},
		"SnapshotThreshold": {func(o *Options) { o.SnapshotThreshold = 7 }, []string{"SnapshotThreshold"}},
		"SnapshotInterval":  {func(o *Options) { o.SnapshotInterval = time.Hour }, []string{"SnapshotInterval"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := base
			c.change(&o)
			before := reflect.ValueOf(*base.raftConfig("a", false, logger))
			after := reflect.ValueOf(*o.raftConfig("a", false, logger))
			for _, f := range c.fields {
				if before.FieldByName(f).Interface() == after.FieldByName(f).Interface() {
					t.Errorf("%s has no effect on %s", name, f)
				}
			}
		})
	}
	c := base.raftConfig("a", true, logger)
	if c.LocalID != "a" || !c.NoSnapshotRestoreOnStart || c.PreVoteDisabled || c.TrailingLogs != trailingLogs ||
		c.HeartbeatTimeout != 300*time.Millisecond || c.LeaderLeaseTimeout != 200*time.Millisecond || c.SnapshotInterval != time.Minute {
		t.Errorf("config %+v", c)
	}
	if err := raft.ValidateConfig(c); err != nil {
		t.Error(err)
	}
}

func TestOpenRefusesWithTheNameOfTheSetting(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no secret off loopback":      {func(o *Options) { o.Secret, o.Listen, o.Advertise = "", "0.0.0.0:0", "127.0.0.1:0" }, "cluster.secret"},
		"unspecified advertise":       {func(o *Options) { o.Listen = "0.0.0.0:0" }, "cluster.advertise"},
		"unresolvable advertise":      {func(o *Options) { o.Advertise = "no-such-host.invalid:1" }, "cluster.advertise"},
		"listen without a port":       {func(o *Options) { o.Listen = "127.0.0.1" }, "cluster.listen"},
		"bad join":                    {func(o *Options) { o.Join = []string{"x"} }, "cluster.join"},
		"lone bootstrap among others": {func(o *Options) { o.Join, o.BootstrapExpect = []string{"127.0.0.1:1"}, 1 }, "cluster.bootstrap_expect"},
		"bad id":                      {func(o *Options) { o.ID = "a b" }, "cluster.node_id"},
		"multiplier":                  {func(o *Options) { o.RaftMultiplier = -1 }, "cluster.raft_multiplier"},
		"half of the files":           {func(o *Options) { o.CertFile = "x" }, "certificate"},
		"missing file":                {func(o *Options) { o.CertFile, o.KeyFile, o.CAFile = "x", "y", "z" }, "certificate"},
		"non-voter alone":             {func(o *Options) { o.NonVoter = true }, "cluster.join"},
		"state machine ahead":         {func(o *Options) { o.FSMIndex = 5 }, "state machine holds entry 5"},
	} {
		t.Run(name, func(t *testing.T) {
			o, _, _ := testOptions(t, c.change)
			n, err := Open(context.Background(), o)
			if err == nil {
				_ = n.Shutdown(context.Background())
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q does not name %q", err, c.want)
			}
		})
	}
}

func TestHostNamesStayHostNames(t *testing.T) {
	addr := func(s string) net.Addr { return namedAddr(s) }
	for listen, want := range map[string]string{"localhost:0": "localhost:77", "localhost:5": "localhost:5"} {
		got, err := Options{Listen: listen}.advertise(context.Background(), addr("127.0.0.1:77"))
		if err != nil || got != want {
			t.Errorf("%s: %q, %v", listen, got, err)
		}
	}
	n := openNode(t, func(o *Options) { o.Advertise = "localhost:0" })
	<-n.Formed()
	if a, _ := n.configuredAddress(n.ID()); !strings.HasPrefix(a, "localhost:") {
		t.Errorf("address in the configuration: %s", a)
	}
}

func TestRaftMessagesReachSlog(t *testing.T) {
	var b logBuffer
	l := newRaftLogger(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelWarn})))
	l.Info("quiet")
	l.With("who", "me").Named("x").Warn("loud", "n", hclog.Fmt("%03d", 7))
	l.Log(hclog.Off, "never")
	if got := b.String(); strings.Contains(got, "quiet") || strings.Contains(got, "never") ||
		!strings.Contains(got, "level=WARN") || !strings.Contains(got, "who=me n=007") {
		t.Error(got)
	}
	if l.IsInfo() || !l.IsWarn() || l.GetLevel() != hclog.Warn {
		t.Error("wrong level")
	}
	l.StandardLogger(nil).Print("dropped at info")
}
