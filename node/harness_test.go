package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestMain lets more tests run side by side than there are processors: they
// mostly wait for elections.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("5"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// listFSM is a state machine that keeps every command it was given.
type listFSM struct {
	mu      sync.Mutex
	entries []string
	index   uint64
	slow    func(cmd string) // called by Apply before it counts
}

var _ raft.FSM = (*listFSM)(nil)

func (f *listFSM) Apply(l *raft.Log) any {
	if f.slow != nil {
		f.slow(string(l.Data))
	}
	if string(l.Data) == "poison" {
		panic(errors.New("entry of an unknown kind"))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.Index <= f.index {
		return []byte("old")
	}
	f.entries, f.index = append(f.entries, string(l.Data)), l.Index
	return fmt.Appendf(nil, "%s#%d", l.Data, len(f.entries))
}

type listSnapshot []byte

func (s listSnapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := sink.Write(s); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}
func (listSnapshot) Release() {}

type listState struct {
	Entries []string
	Index   uint64
}

func (f *listFSM) Snapshot() (raft.FSMSnapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, err := json.Marshal(listState{f.entries, f.index})
	return listSnapshot(b), err
}

func (f *listFSM) Restore(r io.ReadCloser) error {
	defer r.Close()
	var s listState
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries, f.index = s.Entries, s.Index
	return nil
}

func (f *listFSM) appliedIndex() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.index
}

func (f *listFSM) list() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.entries)
}

// logBuffer keeps log lines until the test has failed.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// testNode is a node of the harness with what is needed to start it again.
type testNode struct {
	*Node
	fsm  *listFSM
	opts Options
	logs *logBuffer
}

func testOptions(t *testing.T, change func(*Options)) (Options, *listFSM, *logBuffer) {
	t.Helper()
	fsm, logs := &listFSM{}, &logBuffer{}
	o := Options{
		Listen: net.JoinHostPort(testHost(t), "0"), Secret: "a secret of some length", FSM: fsm, AppliedIndex: fsm.appliedIndex,
		// Slow machines must not lose leaders that a test has not stopped.
		RaftMultiplier: 2.5,
		Version:        "test", Logger: slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&o)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of node %s:\n%s", o.ID, logs)
		}
	})
	return o, fsm, logs
}

func openNode(t *testing.T, change func(*Options)) *testNode {
	t.Helper()
	o, fsm, logs := testOptions(t, change)
	n, err := Open(context.Background(), o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	tn := &testNode{Node: n, fsm: fsm, opts: o, logs: logs}
	t.Cleanup(func() { tn.close(t) })
	return tn
}

func (n *testNode) close(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.Shutdown(ctx); err != nil {
		stacks := make([]byte, 1<<20)
		t.Errorf("shutdown of %s: %v\n%s", n.ID(), err, stacks[:runtime.Stack(stacks, true)])
	}
}

// again starts the node with the same directory and address, and an empty
// state machine, as after a crash.
func (n *testNode) again(t *testing.T, change func(*Options)) *testNode {
	t.Helper()
	return openNode(t, func(o *Options) {
		o.ID, o.DataDir, o.Join, o.BootstrapExpect = n.opts.ID, n.opts.DataDir, n.opts.Join, n.opts.BootstrapExpect
		o.Listen, o.NonVoter = n.Addr(), n.opts.NonVoter
		if change != nil {
			change(o)
		}
	})
}

// crash stops the node without handing over anything.
func (n *testNode) crash(t *testing.T) {
	t.Helper()
	n.fail(errors.New("crashed by the test"))
	n.close(t)
}

// testHost returns a loopback address of the test's own, where the system has
// more than one: ports that tests give back cannot be taken by other
// connections there.
func testHost(t *testing.T) string {
	t.Helper()
	h := fnv.New32a()
	fmt.Fprint(h, t.Name(), os.Getpid())
	sum := h.Sum32()
	host := fmt.Sprintf("127.%d.%d.%d", 1+sum%250, sum>>8%250, 1+sum>>16%250)
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "127.0.0.1"
	}
	_ = ln.Close()
	return host
}

// freeAddrs returns n addresses that nobody listens on.
func freeAddrs(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for range n {
		ln, err := net.Listen("tcp", net.JoinHostPort(testHost(t), "0"))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ln.Addr().String())
		defer ln.Close()
	}
	return out
}

// openCluster starts size voters with files and waits for a leader.
func openCluster(t *testing.T, size int, changes ...func(*Options)) []*testNode {
	t.Helper()
	addrs := freeAddrs(t, size)
	nodes := make([]*testNode, size)
	for i := range nodes {
		nodes[i] = openNode(t, func(o *Options) {
			o.ID, o.DataDir, o.Listen, o.Join, o.BootstrapExpect = fmt.Sprintf("n%d", i+1), t.TempDir(), addrs[i], addrs, size
			for _, change := range changes {
				change(o)
			}
		})
	}
	waitLeader(t, nodes...)
	checkLogs(t, &nodes)
	return nodes
}

// checkLogs compares what the state machines have applied when the test ends:
// one must be a prefix of the other.
func checkLogs(t *testing.T, nodes *[]*testNode) {
	t.Helper()
	t.Cleanup(func() {
		longest := []string{}
		for _, n := range *nodes {
			if l := n.fsm.list(); len(l) > len(longest) {
				longest = l
			}
		}
		for _, n := range *nodes {
			l := n.fsm.list()
			if !slices.Equal(l, longest[:len(l)]) {
				t.Errorf("node %s has applied another history:\n%q\n%q", n.ID(), l, longest)
			}
		}
	})
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// waitLeader waits until all nodes agree on a leader among them and returns it.
func waitLeader(t *testing.T, nodes ...*testNode) *testNode {
	t.Helper()
	var leader *testNode
	eventually(t, 10*time.Second, "one leader that all know", func() bool {
		leader = nil
		id, _ := nodes[0].Leader()
		for _, n := range nodes {
			if other, _ := n.Leader(); other != id {
				return false
			}
			if n.ID() == id && n.leading() != nil && n.barrier.Load() == n.raft.Load().CurrentTerm() {
				leader = n
			}
		}
		return leader != nil
	})
	return leader
}

func others(nodes []*testNode, not *testNode) []*testNode {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *testNode) bool { return n == not })
}

func apply(t *testing.T, n *testNode, cmd string) string {
	t.Helper()
	answer, _, err := tryApply(n, cmd, 10*time.Second)
	if err != nil {
		t.Fatalf("apply %q on %s: %v", cmd, n.ID(), err)
	}
	return answer
}

func tryApply(n *testNode, cmd string, limit time.Duration) (string, uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	answer, index, err := n.Apply(ctx, []byte(cmd))
	return string(answer), index, err
}

// insist applies cmd as a client does whose commands may be repeated: a command
// that was on its way to a leader as it died has an unknown outcome.
func insist(t *testing.T, n *testNode, cmd string) {
	t.Helper()
	_, _, err := tryApply(n, cmd, 10*time.Second)
	for errors.Is(err, ErrOutcomeUnknown) {
		_, _, err = tryApply(n, cmd, 10*time.Second)
	}
	if err != nil {
		t.Fatalf("apply %q on %s: %v", cmd, n.ID(), err)
	}
}

func waitApplied(t *testing.T, cmd string, nodes ...*testNode) {
	t.Helper()
	for _, n := range nodes {
		eventually(t, 10*time.Second, fmt.Sprintf("%q applied on %s", cmd, n.ID()), func() bool {
			return slices.Contains(n.fsm.list(), cmd)
		})
	}
}

func waitVoter(t *testing.T, of *testNode, id string, voter bool) {
	t.Helper()
	eventually(t, 10*time.Second, fmt.Sprintf("%s with vote %v", id, voter), func() bool {
		s, ok := of.member(id)
		return ok && (s.Suffrage == raft.Voter) == voter
	})
}

// countFSM only remembers where it is.
type countFSM struct{ index atomic.Uint64 }

var _ raft.FSM = (*countFSM)(nil)

func (f *countFSM) Apply(l *raft.Log) any {
	f.index.Store(l.Index)
	return l.Data
}
func (f *countFSM) Snapshot() (raft.FSMSnapshot, error) { return listSnapshot("{}"), nil }
func (f *countFSM) Restore(r io.ReadCloser) error       { return r.Close() }
