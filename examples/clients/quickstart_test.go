package clients

import (
	"errors"
	"net/http"
	"strconv"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"sluice/examples/harness"
)

// The quick start of the README: a model of 60 tokens a minute whose answers
// take 30 each, and two keys without priorities.
func TestQuickStartTwoKeysAndTheThirdCallIsRateLimited(t *testing.T) {
	n := start(t, `
[[models]]
name = "my-fake-model"
tpm  = 60
provider = "mock"
mock_response = "hello-world"
`)
	first, second := client(t, n, harness.KeySpec{}), client(t, n, harness.KeySpec{})
	for i, c := range []openai.Client{first, second} {
		var raw *http.Response
		answer, err := c.Chat.Completions.New(t.Context(), hello("my-fake-model"), option.WithResponseInto(&raw))
		if err != nil {
			t.Fatalf("call %d: %v", i+1, err)
		}
		if answer.Usage.TotalTokens != 30 || answer.Usage.PromptTokens != 10 || answer.Usage.CompletionTokens != 20 {
			t.Errorf("call %d: usage %+v", i+1, answer.Usage)
		}
		if text := answer.Choices[0].Message.Content; text != "hello-world" {
			t.Errorf("call %d: content %q", i+1, text)
		}
		if raw.Header.Get("x-litellm-model-group") != "my-fake-model" || raw.Header.Get("x-litellm-call-id") == "" {
			t.Errorf("call %d: headers %v", i+1, raw.Header)
		}
	}

	_, err := second.Chat.Completions.New(t.Context(), hello("my-fake-model"))
	var refused *openai.Error
	if !errors.As(err, &refused) {
		t.Fatalf("call 3: %v", err)
	}
	const message = "Model capacity reached for my-fake-model. Priority: None, Rate limit type: tokens, Model TPM: 60, Model RPM: not configured, Remaining: 0"
	if refused.StatusCode != http.StatusTooManyRequests || refused.Message != message {
		t.Errorf("call 3: status %d, message %q", refused.StatusCode, refused.Message)
	}
	if refused.Type != "throttling_error" || refused.Code != "429" || refused.Param != "" {
		t.Errorf("call 3: type %q, code %q, param %q", refused.Type, refused.Code, refused.Param)
	}
	h := refused.Response.Header
	if s, err := strconv.Atoi(h.Get("retry-after")); err != nil || s < 1 || s > 60 {
		t.Errorf("call 3: retry-after %q", h.Get("retry-after"))
	}
	if h.Get("rate_limit_type") != "tokens" || h.Get("x-sluice-limited-by") != "model" || h.Get("reset_at") == "" {
		t.Errorf("call 3: headers %v", h)
	}
}

// Ten requests a minute of which nine are reserved for prod: whoever comes
// first, prod is served nine and dev one.
func TestTenRequestsAMinuteServeProdNineAndDevOne(t *testing.T) {
	const config = `
[[models]]
name = "gpt-5.6-luna"
rpm  = 10
provider = "mock"
mock_response = "hello-world"

[priority_reservation]
prod = 0.9
dev  = 0.1

[priority_reservation_settings]
default_priority     = 0
saturation_threshold = 0.5
`
	for _, tt := range []struct {
		name  string
		order []string
	}{
		{"in turn, prod first", []string{"prod", "prod", "prod", "prod", "prod", "dev", "prod", "dev", "prod", "dev", "prod", "prod", "prod"}},
		{"dev once, then prod, then dev again", []string{"dev", "prod", "prod", "prod", "prod", "prod", "prod", "prod", "prod", "prod", "prod", "dev", "dev"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := start(t, config)
			clients := map[string]openai.Client{
				"prod": client(t, n, harness.KeySpec{Priority: "prod"}),
				"dev":  client(t, n, harness.KeySpec{Priority: "dev"}),
			}
			served := map[string]int{}
			for _, who := range tt.order {
				c := clients[who]
				_, err := c.Chat.Completions.New(t.Context(), hello("gpt-5.6-luna"))
				var refused *openai.Error
				switch {
				case err == nil:
					served[who]++
				case !errors.As(err, &refused) || refused.StatusCode != http.StatusTooManyRequests:
					t.Fatalf("%s: %v", who, err)
				}
			}
			if served["prod"] != 9 || served["dev"] != 1 {
				t.Errorf("served %v, want prod 9 and dev 1", served)
			}
		})
	}
}
