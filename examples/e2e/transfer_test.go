package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/examples/harness"
)

func TestLeadershipForANodeThatHangsIsRefusedInTime(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	c := start(t, harness.Options{Nodes: 3, Config: config(time.Minute, model(up, "m", "rpm = 100"))})
	leader, err := c.Leader(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	hung, other := c.Others(leader)[0], c.Others(leader)[1]
	if err := hung.Pause(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	status, says := ask(t, leader, "/cluster/transfer", hung.ID)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the answer took %v", took)
	}
	if status != http.StatusServiceUnavailable || !strings.Contains(says, "not handed over") {
		t.Errorf("%d %s", status, says)
	}
	createKey(t, other, harness.KeySpec{})
	if err := hung.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "leadership goes to it once it answers", func() bool {
		_, _ = ask(t, other, "/cluster/transfer", hung.ID)
		_, _, leads := membership(t.Context(), other)
		return leads == hung.ID
	})
}
