package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

var builder harness.Builder

func TestMain(m *testing.M) {
	code := m.Run()
	if err := builder.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// startUpstream runs a mock provider for one test.
func startUpstream(t *testing.T) *upstream.Server {
	t.Helper()
	up, err := upstream.Start(upstream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Close(); err != nil {
			t.Errorf("close the upstream: %v", err)
		}
	})
	return up
}

// start runs a cluster for one test and shows its logs if the test fails.
func start(t *testing.T, o harness.Options) *harness.Cluster {
	t.Helper()
	binary, err := builder.Binary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.Binary = binary
	o.Env = append(o.Env, "UPSTREAM_KEY="+providerKey)
	c, err := harness.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Tail(40))
		}
		if err := c.Close(); err != nil {
			t.Errorf("close the cluster: %v", err)
		}
	})
	return c
}

// providerKey is the credential that the gateway holds for the mock provider.
const providerKey = "sk-provider-marker-7f3a9c"

// config writes a TOML of the given window, models and further sections.
func config(window time.Duration, rest string) string {
	return fmt.Sprintf(`
[gateway]
master_key = "os.environ/SLUICE_MASTER_KEY"
window     = "%s"

[cluster]
secret = "os.environ/SLUICE_CLUSTER_SECRET"

%s`, window, rest)
}

// model writes one [[models]] section that the mock provider serves.
func model(up *upstream.Server, name, limits string) string {
	return fmt.Sprintf(`
[[models]]
name     = %q
provider = "openai_compatible"
api_base = "%s/v1"
api_key  = "os.environ/UPSTREAM_KEY"
%s
`, name, up.URL(), limits)
}

// mockModel writes a [[models]] section without limits that needs no provider.
func mockModel(name string) string {
	return fmt.Sprintf("\n[[models]]\nname = %q\nprovider = \"mock\"\nmock_response = \"hello-world\"\n", name)
}

func createKey(t *testing.T, n *harness.Node, spec harness.KeySpec) harness.Key {
	t.Helper()
	// A leader that was lost in the middle may have made it: the same write again
	// shows the same key.
	spec.Once = rand.Text()
	var k harness.Key
	eventually(t, 15*time.Second, "a key created on "+n.ID, func() (made bool) {
		var err error
		k, err = n.Admin().CreateKey(t.Context(), spec)
		var failed *harness.StatusError
		if err != nil && (!errors.As(err, &failed) || failed.Reply.Status != http.StatusServiceUnavailable) {
			t.Fatalf("create a key on %s: %v", n.ID, err)
		}
		return err == nil
	})
	return k
}

func chat(t *testing.T, n *harness.Node, key, model string) *harness.Reply {
	t.Helper()
	r, err := n.As(key).Chat(t.Context(), model)
	if err != nil {
		t.Fatalf("chat on %s: %v", n.ID, err)
	}
	return r
}

// eventually polls until ok holds and fails the test after the patience.
func eventually(t *testing.T, patience time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("within %s: %s", patience, what)
		}
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
