package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	self := card{ID: "b", Address: "B", Run: "1", Expect: 3}
	stateless := func(id string, expect int) card { return card{ID: id, Address: strings.ToUpper(id), Expect: expect} }
	member := func(id, state, leader string) card {
		return card{ID: id, Address: strings.ToUpper(id), HasState: true, ClusterID: "c", State: state, LeaderID: leader}
	}
	for name, c := range map[string]struct {
		self      card
		s         survey
		join      string
		bootstrap int
		wait      string
	}{
		"alone":                         {self: self, wait: "1 of the 3"},
		"lowest of all starts":          {self: self, s: survey{cards: []card{stateless("c", 3), stateless("d", 3)}}, bootstrap: 3},
		"another is lower":              {self: self, s: survey{cards: []card{stateless("a", 3), stateless("c", 3)}}, wait: "waiting for node a"},
		"one too many":                  {self: self, s: survey{cards: []card{stateless("c", 3), stateless("d", 3), stateless("e", 3)}}, wait: "4 of the 3"},
		"disagreement":                  {self: self, s: survey{cards: []card{stateless("c", 5), stateless("d", 3)}}, wait: "disagree"},
		"a joiner does not count":       {self: self, s: survey{cards: []card{stateless("c", 0), stateless("d", 3)}}, wait: "2 of the 3"},
		"a non-voter does not count":    {self: self, s: survey{cards: []card{{ID: "c", NonVoter: true, Expect: 3}, stateless("d", 3)}}, wait: "2 of the 3"},
		"a survivor is never overruled": {self: self, s: survey{cards: []card{member("a", "Follower", ""), stateless("c", 3), stateless("d", 3)}}, join: "a"},
		"the leader is asked first":     {self: self, s: survey{cards: []card{member("a", "Follower", ""), member("c", "Leader", "c")}}, join: "c a"},
		"join only":                     {self: card{ID: "b"}, s: survey{cards: []card{stateless("c", 3)}}, wait: "not set"},
		"a twin":                        {self: self, s: survey{twin: "X"}, wait: "uses this node's id"},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(c.self, c.s)
			var join []string
			for _, m := range d.join {
				join = append(join, m.ID)
			}
			if strings.Join(join, " ") != c.join || len(d.bootstrap) != c.bootstrap {
				t.Errorf("decision %+v", d)
			}
			if (c.wait != "") != (d.wait != nil) || d.wait != nil && !strings.Contains(d.wait.Error(), c.wait) {
				t.Errorf("wait: %v", d.wait)
			}
		})
	}
}

func TestWrongSecretIsRefused(t *testing.T) {
	t.Parallel()
	n := openNode(t, func(o *Options) { o.ID = "n1" })
	apply(t, n, "a")
	stranger := openNode(t, func(o *Options) { o.ID, o.Secret, o.Join = "n2", "a different secret", []string{n.Addr()} })
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := stranger.hello(ctx, n.Addr()); err == nil || !strings.Contains(err.Error(), "cluster.secret") {
		t.Errorf("hello: %v", err)
	}
	for _, proto := range []string{protoRaft, protoForward} {
		if conn, err := stranger.mux.dial(ctx, n.Addr(), proto); err == nil {
			_ = conn.Close()
			t.Errorf("%s connection with a wrong secret", proto)
		}
	}
	if len(n.Members(ctx)) != 1 || stranger.Status().State != "forming" {
		t.Error("a stranger joined")
	}
}

func TestForeignClusterIsRefused(t *testing.T) {
	t.Parallel()
	n := openNode(t, func(o *Options) { o.ID = "n1" })
	foreign := openNode(t, func(o *Options) { o.ID, o.DataDir = "n2", t.TempDir() })
	apply(t, foreign, "theirs")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	layer := &streamLayer{queue: foreign.mux.raft, mux: foreign.mux, cluster: foreign.clusterID()}
	if conn, err := layer.Dial("127.0.0.1:1", time.Second); err == nil {
		_ = conn.Close()
		t.Error("dialled nobody")
	}
	waitLeader(t, n)
	if _, err := layer.Dial(raftAddr(n), 5*time.Second); !errors.Is(err, ErrForeignCluster) {
		t.Errorf("raft connection: %v", err)
	}
	if _, err := foreign.client.call(ctx, n.Addr(), request{path: pathApply, body: []byte("x")}); !errors.Is(err, ErrForeignCluster) {
		t.Errorf("forwarded command: %v", err)
	}
	if err := foreign.announce(card{Address: n.Addr()}); !errors.Is(err, ErrForeignCluster) {
		t.Errorf("join: %v", err)
	}
	if err := foreign.acceptBootstrap(proposedCluster{ClusterID: "other", Commit: true}); !errors.Is(err, errRefused) {
		t.Errorf("bootstrap: %v", err)
	}
	// Restarted with a join list of the other cluster, it stays what it is.
	foreign.close(t)
	back := foreign.again(t, func(o *Options) { o.Join = []string{n.Addr()} })
	apply(t, back, "still theirs")
	if len(n.Members(ctx)) != 1 {
		t.Error("foreign node was added")
	}
}

func TestAcceptBootstrapChecksTheList(t *testing.T) {
	t.Parallel()
	addrs := freeAddrs(t, 2)
	n := openNode(t, func(o *Options) { o.ID, o.Join, o.BootstrapExpect = "n1", addrs, 3 })
	me := server{ID: "n1", Address: n.Addr()}
	n.meet(card{ID: "n9", Address: "x:1", Expect: 3})
	for name, p := range map[string]proposedCluster{
		"other size":    {ClusterID: "c", Servers: []server{me}},
		"not listed":    {ClusterID: "c", Servers: []server{{"a", "a:1"}, {"b", "b:1"}, {"c", "c:1"}}},
		"other address": {ClusterID: "c", Servers: []server{{"n1", "a:1"}, {"b", "b:1"}, {"c", "c:1"}}},
		"bad id":        {ClusterID: "../c", Servers: []server{me, {"b", "b:1"}, {"c", "c:1"}}},
		"one left out":  {ClusterID: "c", Servers: []server{me, {"b", "b:1"}, {"c", "c:1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := n.acceptBootstrap(p); !errors.Is(err, errRefused) {
				t.Errorf("accepted: %v", err)
			}
		})
	}
	if err := n.acceptBootstrap(proposedCluster{ClusterID: "c", Servers: []server{me, {"b", "b:1"}, {"n9", "x:1"}}}); err != nil {
		t.Errorf("a fair proposal: %v", err)
	}
	if s := n.Status(); s.State != "forming" {
		t.Errorf("a question alone made it %s", s.State)
	}
}

func TestTheReasonForWaitingIsLoggedOnceThenRarely(t *testing.T) {
	t.Parallel()
	n := openNode(t, func(o *Options) { o.Join = freeAddrs(t, 1) })
	eventually(t, 10*time.Second, "a reason", func() bool { return strings.Contains(n.logs.String(), "no member of a cluster answers") })
	time.Sleep(4 * formEvery)
	if c := strings.Count(n.logs.String(), "not a member of a cluster yet"); c != 1 {
		t.Errorf("logged %d times", c)
	}
	if _, _, err := tryApply(n, "x", 20*time.Second); !errors.Is(err, ErrNoLeader) {
		t.Errorf("apply: %v", err)
	}
	if m := n.Members(context.Background()); len(m) != 1 || fmt.Sprint(n.Status().State) != "forming" {
		t.Errorf("members %+v", m)
	}
}
