package main

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"sluice/admin"
	"sluice/fsm"
	"sluice/node"
)

func TestANodeJoinsAndEndsWhenItIsRemoved(t *testing.T) {
	t.Parallel()
	config := configFile(t, "1s", "")
	a := serveTest(t, "--node-id", "a", "--data-dir", t.TempDir(), "--config", config)
	address := a.eventually(regexp.MustCompile(`msg=serving .*cluster=(\S+)`))
	b := serveTest(t, "--node-id", "b", "--data-dir", t.TempDir(), "--config", config, "--join", address)
	for range 20 {
		if code, body := b.chat(a.newKey()); code != http.StatusOK {
			t.Fatalf("a key of the other node: %d %s", code, body)
		}
	}
	a.poll("both to be voters", func() bool {
		_, body := a.call("GET", "/cluster/status", testKey, "")
		return strings.Count(body, `"voter":true`) == 2 && strings.Count(body, `"reachable":true`) == 2
	})
	if code, body := a.call("POST", "/cluster/remove", testKey, `{"node":"b"}`); code != http.StatusOK {
		t.Fatalf("remove: %d %s", code, body)
	}
	if c := b.exit(); c != 1 {
		t.Errorf("exit code %d", c)
	}
	lines := strings.Split(strings.TrimSpace(b.stderr.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "sluice: ") || !strings.Contains(last, "this node was removed from the cluster") {
		t.Errorf("its last words were %s", last)
	}
	if code, body := a.call("POST", "/cluster/remove", testKey, `{"node":"a"}`); code != http.StatusConflict {
		t.Errorf("the last voter: %d %s", code, body)
	}
	if code, body := a.call("POST", "/cluster/remove", testKey, `{"node":"zzz"}`); code != http.StatusNotFound {
		t.Errorf("a stranger: %d %s", code, body)
	}
}

func TestErrorsOfTheLogAreTold(t *testing.T) {
	for err, want := range map[error]admin.Failure{
		node.ErrNoLeader:       admin.FailureNoLeader,
		node.ErrOutcomeUnknown: admin.FailureOutcomeUnknown,
		node.ErrTooLarge:       admin.FailureTooLarge,
		node.ErrNotMember:      admin.FailureNotMember,
		node.ErrLastVoter:      admin.FailureLastVoter,
		node.ErrNotVoter:       admin.FailureNotVoter,
		node.ErrNotTransferred: admin.FailureNotTransferred,
		node.ErrNoMajority:     admin.FailureNoMajority,
		node.ErrClosed:         admin.FailureNoLeader,
		fsm.ErrNotFound:        admin.FailureOther,
		fmt.Errorf("%w: %w", node.ErrOutcomeUnknown, node.ErrNoLeader): admin.FailureOutcomeUnknown,
		errors.New("other"): admin.FailureOther,
	} {
		if got := classify(fmt.Errorf("write: %w", err)); got != want {
			t.Errorf("%v is %v, want %v", err, got, want)
		}
	}
}

// Contract: SIGTERM ends with exit code 0, also where there is nobody to hand
// the counters to.
func TestANodeThatWaitsForOthersStopsInOrder(t *testing.T) {
	p := launch(t, "--dev", "--join", "127.0.0.1:1", "--bootstrap-expect", "2")
	addr := p.eventually(regexp.MustCompile(`msg=serving http=(\S+)`))
	for path, want := range map[string]int{
		"/v1/models": http.StatusServiceUnavailable, "/key/list": http.StatusServiceUnavailable,
		"/health/readiness": http.StatusServiceUnavailable, "/health/liveness": http.StatusOK, "/cluster/status": http.StatusUnauthorized,
	} {
		res, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != want {
			t.Errorf("%s: status %d, want %d: an empty list would look like lost data", path, res.StatusCode, want)
		}
	}
	p.signals <- syscall.SIGTERM
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if out := p.stderr.String(); strings.Contains(out, "the cluster did not answer before the end") {
		t.Errorf("it says that something is lost, but it never served:\n%s", out)
	}
}
