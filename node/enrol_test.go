package node

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// listed says whether the leader's configuration has every node, with its vote,
// where it is.
func listed(leader *testNode, nodes ...*testNode) bool {
	for _, n := range nodes {
		if s, ok := leader.member(n.ID()); !ok || string(s.Address) != n.Addr() || s.Suffrage != raft.Voter {
			return false
		}
	}
	return true
}

func TestNodesThatSwapTheirAddressesAreListedRightly(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	for name, turn := range map[string]func() []*testNode{
		"two followers": func() []*testNode { return others(nodes, waitLeader(t, nodes...)) },
		"all in a ring": func() []*testNode { return append([]*testNode(nil), nodes...) },
	} {
		movers, addrs := turn(), []string(nil)
		for _, n := range movers {
			addrs = append(addrs, n.Addr())
			n.close(t)
		}
		for i, n := range movers {
			back := n.again(t, func(o *Options) { o.Listen = addrs[(i+1)%len(addrs)] })
			for j := range nodes {
				if nodes[j] == n {
					nodes[j] = back
				}
			}
		}
		eventually(t, 20*time.Second, name+": the members are listed where they are", func() bool {
			return listed(waitLeader(t, nodes...), nodes...)
		})
		apply(t, nodes[0], name)
		waitApplied(t, name, nodes...)
	}
}

func TestANewNodePushesNoMemberOutThatAnswers(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 3)
	leader := waitLeader(t, nodes...)
	rest := others(nodes, leader)
	c := card{ID: "newcomer", Address: rest[0].Addr(), Run: "1"}
	if err := leader.enrol(t.Context(), leader.leading(), c); err != nil {
		t.Fatal(err)
	}
	if !listed(leader, nodes...) {
		t.Errorf("%s is not listed as it was", rest[0].ID())
	}
	if _, ok := leader.member(c.ID); !ok {
		t.Error("the new node is not a member")
	}
	rest[1].crash(t)
	apply(t, leader, "a majority is there")
}
