package clients

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

// withProvider runs a node whose model m is served by a mock provider.
func withProvider(t *testing.T) (*harness.Node, *upstream.Server) {
	t.Helper()
	up := startUpstream(t)
	n := start(t, fmt.Sprintf(`
[[models]]
name = "m"
rpm  = 1000
tpm  = 100000
provider = "openai_compatible"
api_base = "%s/v1"

[[models]]
name = "other"
provider = "mock"
mock_response = "other"
`, up.URL()))
	return n, up
}

func TestStreamsArriveWholeAndUsageOnlyIfAskedFor(t *testing.T) {
	n, up := withProvider(t)
	up.Play(upstream.Match{Model: "m"}, upstream.Step{Times: upstream.Forever, Content: "Grüße, 世界 🙂"})
	c := client(t, n, harness.KeySpec{})
	for _, tt := range []struct {
		name  string
		usage bool
	}{{"not asked", false}, {"asked", true}} {
		t.Run(tt.name, func(t *testing.T) {
			params := hello("m")
			if tt.usage {
				params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
			}
			stream := c.Chat.Completions.NewStreaming(t.Context(), params)
			defer stream.Close()
			var sum openai.ChatCompletionAccumulator
			var usages int
			for stream.Next() {
				chunk := stream.Current()
				sum.AddChunk(chunk)
				if chunk.Usage.TotalTokens > 0 {
					usages++
				}
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			if text := sum.Choices[0].Message.Content; text != "Grüße, 世界 🙂" {
				t.Errorf("content %q", text)
			}
			if want := map[bool]int{false: 0, true: 1}[tt.usage]; usages != want {
				t.Errorf("%d chunks with usage, want %d", usages, want)
			}
		})
	}
	requests := up.Requests("m")
	for _, r := range requests {
		if !strings.Contains(string(r.Body), `"include_usage":true`) {
			t.Errorf("the provider was not asked for usage: %s", r.Body)
		}
	}
	// Tokens are recorded when an answer is complete, which its client may see first.
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		l, err := n.Admin().Limits(t.Context(), "m")
		if err == nil && l.TPM.Used == 60 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("recorded %+v, %v; want 60 tokens", l, err)
		}
	}
}

func TestAStreamThatBreaksOffIsAnErrorToTheClient(t *testing.T) {
	n, up := withProvider(t)
	c := client(t, n, harness.KeySpec{})
	for _, end := range []upstream.End{upstream.EndReset, upstream.EndNoLastChunk} {
		t.Run(string(end), func(t *testing.T) {
			up.Play(upstream.Match{Model: "m"}, upstream.Step{End: end, Chunks: []upstream.Chunk{
				{Text: "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n"},
				{Text: "data: {\"choi", DelayMS: 100},
			}})
			stream := c.Chat.Completions.NewStreaming(t.Context(), hello("m"))
			defer stream.Close()
			text := ""
			for stream.Next() {
				for _, choice := range stream.Current().Choices {
					text += choice.Delta.Content
				}
			}
			if stream.Err() == nil || text != "half" {
				t.Errorf("content %q, error %v; want the half answer and an error", text, stream.Err())
			}
		})
	}
}

func TestEmbeddings(t *testing.T) {
	n, _ := withProvider(t)
	c := client(t, n, harness.KeySpec{})
	answer, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "m",
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Data) != 2 || len(answer.Data[0].Embedding) != 3 || answer.Usage.TotalTokens != 10 {
		t.Errorf("answer %+v", answer)
	}
}

func TestModelsAreThoseThatTheKeyMayUse(t *testing.T) {
	n, _ := withProvider(t)
	for _, tt := range []struct {
		name string
		spec harness.KeySpec
		want string
	}{
		{"all", harness.KeySpec{}, "[m other]"},
		{"one", harness.KeySpec{Models: []string{"other"}}, "[other]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := client(t, n, tt.spec)
			page, err := c.Models.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, m := range page.Data {
				names = append(names, m.ID)
			}
			if fmt.Sprint(names) != tt.want {
				t.Errorf("models %v, want %s", names, tt.want)
			}
		})
	}
}

func TestErrorsAreWhatTheClientUnderstands(t *testing.T) {
	n, _ := withProvider(t)
	allowed := client(t, n, harness.KeySpec{Models: []string{"other"}})
	unknown := openai.NewClient(option.WithAPIKey("sk-unknown"), option.WithBaseURL(n.URL()+"/v1"), option.WithMaxRetries(0))
	for _, tt := range []struct {
		name   string
		client openai.Client
		model  string
		status int
	}{
		{"unknown key", unknown, "m", http.StatusUnauthorized},
		{"model not allowed", allowed, "m", http.StatusForbidden},
		{"unknown model", client(t, n, harness.KeySpec{}), "nowhere", http.StatusNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.client.Chat.Completions.New(t.Context(), hello(tt.model))
			var e *openai.Error
			if !errors.As(err, &e) || e.StatusCode != tt.status || e.Message == "" || e.Type == "" {
				t.Errorf("got %v, want status %d with message and type", err, tt.status)
			}
		})
	}
}
