package clients

import (
	"fmt"
	"os"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

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

// gateway writes the head of a configuration.
const gateway = `
[gateway]
master_key = "os.environ/SLUICE_MASTER_KEY"

[cluster]
secret = "os.environ/SLUICE_CLUSTER_SECRET"
`

// start runs one node for the test.
func start(t *testing.T, config string) *harness.Node {
	t.Helper()
	binary, err := builder.Binary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := harness.Start(t.Context(), harness.Options{Binary: binary, Config: gateway + config})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Tail(40))
		}
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c.Nodes[0]
}

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

// client makes a virtual key and OpenAI's client that uses it. Without retries:
// the tests count requests.
func client(t *testing.T, n *harness.Node, spec harness.KeySpec) openai.Client {
	t.Helper()
	key, err := n.Admin().CreateKey(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return openai.NewClient(
		option.WithAPIKey(key.Secret),
		option.WithBaseURL(n.URL()+"/v1"),
		option.WithMaxRetries(0),
	)
}

func hello(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello world!")},
	}
}
