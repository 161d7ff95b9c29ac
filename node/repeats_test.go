package node

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestADeadMemberDoesNotFloodTheLog(t *testing.T) {
	var b logBuffer
	l := newRaftLogger(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelInfo})))
	now := time.Unix(0, 0)
	l.known.now = func() time.Time { return now }
	for range 40 * 5 { // 40 seconds of Raft without a majority
		for _, peer := range []string{"n2", "n3"} {
			err := errors.New("dial from " + now.String())
			l.Named("net").Error("failed to heartbeat to", "peer", peer, "error", err)
			l.Error("failed to make requestVote RPC", "target", raft.Server{ID: raft.ServerID(peer)}, "error", err, "term", now.Unix())
		}
		l.Warn("Election timeout reached, restarting election")
		now = now.Add(200 * time.Millisecond)
	}
	l.Warn("clearing log suffix", "from", 7)
	l.Warn("clearing log suffix", "from", 8)
	l.known.now = func() time.Time { return now.Add(repeatGap) }
	l.Error("failed to heartbeat to", "peer", "n2", "error", "lost again")
	for want, count := range map[string]int{
		"failed to heartbeat to": 5, "failed to make requestVote RPC": 4, "Election timeout": 2, "clearing log suffix": 2,
		"peer=n2": 3, "peer=n3": 2, "lost again": 1, "repeated=149": 5,
	} {
		if got := strings.Count(b.String(), want); got != count {
			t.Errorf("%q is there %d times, not %d", want, got, count)
		}
	}
	if t.Failed() {
		t.Log(b.String())
	}
}

func TestDebugShowsEveryRepeat(t *testing.T) {
	var b logBuffer
	l := newRaftLogger(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for range 3 {
		l.Error("failed to heartbeat to", "peer", "n2")
	}
	if got := strings.Count(b.String(), "failed to heartbeat"); got != 3 {
		t.Error(b.String())
	}
}

func TestRememberedMessagesAreBounded(t *testing.T) {
	r := newRepeats()
	for i := range 3 * maxRepeats {
		if _, ok := r.show("m", []any{"error", fmt.Sprint(i)}); !ok || len(r.seen) > maxRepeats {
			t.Fatal(i, ok, len(r.seen))
		}
	}
}
