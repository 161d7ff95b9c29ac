package node

import (
	"strings"
	"testing"
	"time"
)

func TestWhatDiffersBetweenNodesIsToldOncePerProcess(t *testing.T) {
	t.Parallel()
	shared := func(v string) map[string]string { return map[string]string{"gateway.master_key": v} }
	a := openNode(t, func(o *Options) { o.ID, o.Shared = "a", shared("one") })
	waitLeader(t, a)
	same := openNode(t, func(o *Options) { o.ID, o.Join, o.Shared = "same", []string{a.Addr()}, shared("one") })
	other := openNode(t, func(o *Options) {
		o.ID, o.Join, o.Shared, o.Version = "other", []string{a.Addr()}, shared("two"), "test-2"
	})
	waitVoter(t, a, "same", true)
	waitVoter(t, a, "other", true) // a rotation of the key happens one node at a time
	for _, n := range []*testNode{a, other} {
		eventually(t, 5*time.Second, n.ID()+" warns of the setting", func() bool {
			return strings.Contains(n.logs.String(), "setting=gateway.master_key") && strings.Contains(n.logs.String(), "another node runs another version")
		})
	}
	time.Sleep(3 * dutyEvery)
	if c := strings.Count(a.logs.String(), "setting=gateway.master_key"); c != 1 || strings.Contains(a.logs.String(), "one\" ") {
		t.Errorf("%d warnings", c)
	}
	if strings.Contains(same.logs.String(), "setting=gateway.master_key member=a ") {
		t.Error("two nodes with the same setting warn of each other")
	}
}
