package e2e

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

func TestSIGTERMLetsARunningStreamFinishAndHandsLeadershipOver(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	up.Play(upstream.Match{Model: "m"}, upstream.Step{ChunkDelayMS: 500})
	c := start(t, harness.Options{Nodes: 3, Config: config(time.Minute, model(up, "m", "rpm = 100"))})
	key := createKey(t, c.Nodes[0], harness.KeySpec{}).Secret
	leader, err := c.Leader(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}

	resp, err := leader.As(key).ChatStream(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stream := bufio.NewReader(resp.Body)
	first, err := stream.ReadString('\n')
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the stream does not start: %d %q %v", resp.StatusCode, first, err)
	}
	if err := leader.Terminate(); err != nil {
		t.Fatal(err)
	}
	sawUnready := make(chan bool, 1)
	go func() { sawUnready <- sawReadinessTurnFalse(t, leader) }()

	rest, err := io.ReadAll(stream)
	if err != nil {
		t.Errorf("the stream broke: %v", err)
	}
	if text := first + string(rest); !strings.HasSuffix(text, "data: [DONE]\n\n") || strings.Count(text, "data: ") != 5 {
		t.Errorf("the stream is not whole: %q", text)
	}
	if !<-sawUnready {
		t.Error("readiness never turned false while the stream drained")
	}
	if code, err := leader.Wait(within(t, 15*time.Second)); err != nil || code != 0 {
		t.Errorf("the process ended with %d, %v", code, err)
	}
	began := time.Now()
	if _, err := c.Others(leader)[0].Admin().CreateKey(within(t, 5*time.Second), harness.KeySpec{}); err != nil {
		t.Errorf("a write after the leader left: %v", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("leadership was not handed over: the first write took %s", took)
	}
}

// sawReadinessTurnFalse polls until the node says 503 or answers no more.
func sawReadinessTurnFalse(t *testing.T, n *harness.Node) bool {
	for {
		r, err := n.Admin().Get(t.Context(), "/health/readiness")
		if err != nil {
			return false
		}
		if r.Status == http.StatusServiceUnavailable {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
}
