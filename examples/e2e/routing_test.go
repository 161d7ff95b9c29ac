package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

// startProviders starts n mock providers as processes of their own and returns
// their addresses, and functions that kill them.
func startProviders(t *testing.T, n int) (urls []string, kill []func()) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "mockupstream")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "sluice/examples/mockupstream").CombinedOutput(); err != nil {
		t.Fatalf("build the mock provider: %v\n%s", err, out)
	}
	for range n {
		cmd := exec.Command(binary, "--listen", "127.0.0.1:0")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatalf("start the mock provider: %v", err)
		}
		end := sync.OnceFunc(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it says "killed"
		})
		t.Cleanup(end)
		line, err := bufio.NewReader(out).ReadString('\n')
		_, url, found := strings.Cut(line, "mock upstream on ")
		url, _, _ = strings.Cut(url, ";")
		if err != nil || !found {
			t.Fatalf("the mock provider says %q: %v", line, err)
		}
		urls, kill = append(urls, url), append(kill, end)
	}
	return urls, kill
}

func TestAProviderThatDiesIsNotNoticed(t *testing.T) {
	t.Parallel()
	urls, kill := startProviders(t, 2)
	var conf strings.Builder
	conf.WriteString("[[models]]\nname = \"m\"\n")
	for i, url := range urls {
		fmt.Fprintf(&conf, "  [[models.deployments]]\n  id = \"d%d\"\n  provider = \"openai_compatible\"\n  api_base = \"%s/v1\"\n  api_key = \"os.environ/UPSTREAM_KEY\"\n", i, url)
	}
	c := start(t, harness.Options{Nodes: 1, Config: config(time.Minute, conf.String())})
	key := createKey(t, c.Nodes[0], harness.KeySpec{}).Secret

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var served [2]atomic.Int64
	var wrong atomic.Int64
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for ctx.Err() == nil {
				r, err := c.Nodes[0].As(key).Chat(context.WithoutCancel(ctx), "m")
				switch {
				case err != nil:
					t.Errorf("a call: %v", err)
					return
				case r.Status != http.StatusOK:
					wrong.Add(1)
					t.Errorf("status %d: %s", r.Status, r.Body)
				case r.Header.Get("X-Litellm-Model-Id") == "d0":
					served[0].Add(1)
				default:
					served[1].Add(1)
				}
			}
		})
	}
	eventually(t, 10*time.Second, "both serve", func() bool { return served[0].Load() > 50 && served[1].Load() > 50 })
	kill[0]()
	after := served[1].Load()
	// Longer than one cooldown: the dead one is asked again in between.
	time.Sleep(7 * time.Second)
	stop()
	workers.Wait()
	t.Logf("served by the dead one %d, by the other %d, of these %d after the death; wrong %d", served[0].Load(), served[1].Load(), served[1].Load()-after, wrong.Load())
	if served[1].Load()-after < 50 {
		t.Error("the other one did not take over")
	}
}

// A key with one slot must not be in its own way.
func TestAFallbackOfAKeyWithOneSlot(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	up.Play(upstream.Match{Model: "m"}, upstream.Step{Times: upstream.Forever, Status: 503})
	c := start(t, harness.Options{Nodes: 1, Config: config(time.Minute,
		"[upstream]\nmax_attempts = 2\n"+model(up, "m", "rpm = 10\nfallbacks = [\"spare\"]")+model(up, "spare", "rpm = 2"))})
	one := int64(1)
	key := createKey(t, c.Nodes[0], harness.KeySpec{MaxParallel: &one}).Secret
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusServiceUnavailable} {
		r := chat(t, c.Nodes[0], key, "m")
		if r.Status != want {
			t.Fatalf("call %d: status %d, want %d (the spare has its own limit of 2): %s", i, r.Status, want, r.Body)
		}
	}
	for name, used := range map[string]int64{"m": 3, "spare": 2} {
		l, err := c.Nodes[0].Admin().Limits(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if l.RPM.Used != used {
			t.Errorf("%s has counted %d, want %d", name, l.RPM.Used, used)
		}
	}
	if m, spare := up.Count("m"), up.Count("spare"); m != 3 || spare != 2 {
		t.Errorf("the provider was called %d and %d times", m, spare)
	}
}
