package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The tests run this test binary in place of sluice: with fakeEnv set it is a
// server that knows the flags and the readiness endpoint.
const fakeEnv = "HARNESS_TEST_FAKE"

func TestMain(m *testing.M) {
	if os.Getenv(fakeEnv) != "" {
		os.Exit(fakeSluice(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func fakeSluice(args []string) int {
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	listen := fs.String("listen", "", "")
	for _, name := range []string{"config", "node-id", "data-dir", "cluster-listen", "join", "bootstrap-expect"} {
		fs.String(name, "", "")
	}
	if err := fs.Parse(args[1:]); err != nil {
		return 2
	}
	if os.Getenv(fakeEnv) == "broken" {
		fmt.Fprintln(os.Stderr, "this node never starts")
		return 3
	}
	fmt.Println("started, master key", os.Getenv("SLUICE_MASTER_KEY"))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/readiness", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	mux.HandleFunc("POST /key/generate", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `{"key":"sk-1","token":"hash","echo":%s}`, body)
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { _ = http.ListenAndServe(*listen, mux) }()
	<-ctx.Done()
	return 7
}

func startFake(t *testing.T, mode string) (*Cluster, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Start(t.Context(), Options{Nodes: 2, Config: "# toml", Binary: self, Env: []string{fakeEnv + "=" + mode}, Patience: 10 * time.Second})
	if c != nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func TestNodesLiveThroughStopPauseAndRestartAndAreGoneAfterClose(t *testing.T) {
	c, err := startFake(t, "ok")
	if err != nil {
		t.Fatal(err)
	}
	n := c.Nodes[0]
	if k, err := n.Admin().CreateKey(t.Context(), KeySpec{Priority: "prod"}); err != nil || k.Secret != "sk-1" || k.Hash != "hash" {
		t.Errorf("create a key: %+v, %v", k, err)
	}

	if err := n.Pause(); err != nil {
		t.Fatal(err)
	}
	// The signal takes effect a moment after it was sent.
	answers := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		ready, _ := n.IsReady(ctx)
		return ready
	}
	for deadline := time.Now().Add(5 * time.Second); answers(); {
		if time.Now().After(deadline) {
			t.Fatal("a paused node answers")
		}
	}
	if err := n.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := n.Ready(t.Context()); err != nil {
		t.Error(err)
	}

	if err := n.Terminate(); err != nil {
		t.Fatal(err)
	}
	if code, err := n.Wait(t.Context()); err != nil || code != 7 {
		t.Errorf("after SIGTERM: exit code %d, %v", code, err)
	}
	if err := n.Kill(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("kill a stopped node: %v", err)
	}
	if err := c.Restart(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(n.Log(), "started, master key "+DefaultMasterKey); got != 2 {
		t.Errorf("the log shows %d runs: %s", got, n.Log())
	}
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	if code, err := n.Wait(t.Context()); err != nil || code != -1 {
		t.Errorf("after SIGKILL: exit code %d, %v", code, err)
	}

	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if len(c.Running()) != 0 {
		t.Error("a process outlived Close")
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("files outlived Close: %v", err)
	}
}

func TestANodeThatEndsAtOnceIsReportedWithItsLog(t *testing.T) {
	_, err := startFake(t, "broken")
	if err == nil || !strings.Contains(err.Error(), "this node never starts") {
		t.Errorf("error %v", err)
	}
}

func TestPortsAreGivenOutOnce(t *testing.T) {
	p := ports{low: lowestPort, high: highestPort}
	seen := map[string]bool{}
	for range 20 {
		addrs, err := p.take(5)
		if err != nil || len(addrs) != 5 {
			t.Fatalf("%v, %v", addrs, err)
		}
		for _, a := range addrs {
			if seen[a] {
				t.Errorf("%s twice", a)
			}
			seen[a] = true
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{}, {Config: "x", Nodes: -1}, {Config: "x", Nodes: 10}} {
		if _, err := Start(t.Context(), o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}
