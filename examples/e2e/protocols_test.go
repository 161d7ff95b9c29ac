package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

// TestBothProtocolsOnBothProviders: clients of OpenAI and of Anthropic are
// served by deployments of both, through different nodes, and what they use
// counts the same.
func TestBothProtocolsOnBothProviders(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	up.Play(upstream.Match{Model: "claude"}, upstream.Step{Times: upstream.Forever, Usage: &upstream.Usage{Prompt: 100, Cached: 40, Completion: 5}})
	up.Play(upstream.Match{Model: "gpt"}, upstream.Step{Times: upstream.Forever, Usage: &upstream.Usage{Prompt: 100, Cached: 40, Completion: 5}})
	c := start(t, harness.Options{Nodes: 3, Config: config(time.Minute, model(up, "gpt", "rpm = 100\ntpm = 100000")+fmt.Sprintf(`
[[models]]
name     = "claude"
provider = "anthropic"
api_base = %q
api_key  = "os.environ/UPSTREAM_KEY"
rpm      = 100
tpm      = 100000
`, up.URL()))})
	key := createKey(t, c.Nodes[0], harness.KeySpec{}).Secret
	anthropic := http.Header{"X-Api-Key": {key}, "Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"b1", "b2"}}
	ctx := within(t, time.Minute)
	for _, model := range []string{"claude", "gpt"} {
		for i, stream := range []string{"false", "true"} {
			body := fmt.Sprintf(`{"model":%q,"max_tokens":9,"stream":%s,"messages":[{"role":"user","content":"hi"}]}`, model, stream)
			message := answered(ctx, t, c.Nodes[i].As(""), "/v1/messages?beta=true", body, anthropic)
			chat := answered(ctx, t, c.Nodes[2-i].As(key), "/v1/chat/completions", body, nil)
			if stream == "true" {
				if !strings.HasPrefix(message, "event: message_start\n") || !strings.HasSuffix(message, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n") || !strings.HasSuffix(chat, "data: [DONE]\n\n") {
					t.Errorf("%s streams\n%s\n%s", model, message, chat)
				}
			} else if !strings.Contains(message, `"text":"hello-world"`) || !strings.Contains(chat, `"content":"hello-world"`) {
				t.Errorf("%s answers\n%s\n%s", model, message, chat)
			}
		}
		count := answered(ctx, t, c.Nodes[1].As(""), "/v1/messages/count_tokens", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]}`, model), anthropic)
		if !strings.HasPrefix(count, `{"input_tokens":`) {
			t.Errorf("count: %s", count)
		}
		eventually(t, 5*time.Second, model+" has used 4 × 105 tokens in 4 requests", func() bool {
			l, err := c.Nodes[0].Admin().Limits(ctx, model)
			return err == nil && l.TPM.Used == 4*105 && l.RPM.Used == 4
		})
	}
	for _, r := range up.Requests("") {
		native := r.Model == "claude"
		if got := strings.Join(r.Header["Anthropic-Beta"], "|"); (got == "b1|b2") != (native && r.Query == "beta=true") && r.Path != "/v1/messages/count_tokens" {
			t.Errorf("%s %s has the betas %q", r.Path, r.Model, got)
		}
		if r.Credential != providerKey {
			t.Errorf("%s went up with %q", r.Path, r.Credential)
		}
	}

	// A limit's refusal, and a node that cannot decide, speak Anthropic too.
	tight := createKey(t, c.Nodes[0], harness.KeySpec{RPM: new(int64(1))}).Secret
	body := `{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
	anthropic = http.Header{"X-Api-Key": {tight}}
	answered(ctx, t, c.Nodes[0].As(""), "/v1/messages", body, anthropic)
	r, err := c.Nodes[1].As("").Do(ctx, http.MethodPost, "/v1/messages", body, anthropic)
	if err != nil || r.Status != http.StatusTooManyRequests || !strings.HasPrefix(string(r.Body), `{"type":"error","error":{"type":"rate_limit_error","message":"Rate limit exceeded for api_key`) {
		t.Errorf("beyond the limit: %v %d %s", err, r.Status, r.Body)
	}
	if r.Header.Get("Retry-After") == "" || r.LimitedBy() != "key" {
		t.Errorf("headers %v", r.Header)
	}
}

// answered sends a POST and wants a 200.
func answered(ctx context.Context, t *testing.T, c *harness.Client, path, body string, h http.Header) string {
	t.Helper()
	r, err := c.Do(ctx, http.MethodPost, path, body, h)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if r.Status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, r.Status, r.Body)
	}
	return string(r.Body)
}
