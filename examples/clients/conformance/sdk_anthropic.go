package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func claude(c Call) anthropic.Client {
	opts := []option.RequestOption{option.WithoutEnvironmentDefaults(), option.WithAPIKey(c.Key), option.WithBaseURL(c.BaseURL)}
	if !c.DefaultRetries {
		opts = append(opts, option.WithMaxRetries(0))
	}
	if c.TimeoutMS > 0 {
		opts = append(opts, option.WithRequestTimeout(c.timeout()))
	}
	for k, v := range c.Headers {
		opts = append(opts, option.WithHeader(k, v))
	}
	return anthropic.NewClient(opts...)
}

// claudeFailure puts what the library raised into the words of a Result; nil stays nil.
func claudeFailure(err error) *Failure {
	var e *anthropic.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		f := &Failure{Kind: failedStatus, Status: e.StatusCode, Type: string(e.Type())}
		if e.StatusCode == http.StatusOK {
			f.Kind, f.Status = failedStream, 0 // an error event
		}
		var body struct {
			Error struct{ Type, Message string }
		}
		if json.Unmarshal([]byte(e.RawJSON()), &body) == nil {
			f.Type, f.Message = body.Error.Type, body.Error.Message
		}
		f.headers(e.Response)
		return f
	}
	return transportFailure(err)
}

func goMessages(ctx context.Context, c Call) Result {
	client := claude(c)
	p := anthropic.MessageNewParams{
		Model: c.Model, MaxTokens: 1024,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(c.prompt()))},
	}
	if c.Tools {
		p.Tools = []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{
			Properties: citySchema["properties"], Required: []string{"city"},
		}, "weather")}
	}
	if c.Structured {
		p.OutputConfig.Format.Schema = weatherSchema
	}
	if !c.Stream {
		answer, err := client.Messages.New(ctx, p)
		if err != nil {
			return Result{Failure: claudeFailure(err)}
		}
		r := messageResult(*answer)
		r.parse(c.Structured)
		return r
	}
	stream := client.Messages.NewStreaming(ctx, p)
	defer stream.Close()
	var sum anthropic.Message
	texts, stopped := 0, false
	for stream.Next() {
		event := stream.Current()
		if err := sum.Accumulate(event); err != nil {
			return Result{Failure: &Failure{Kind: failedOther, Message: err.Error()}}
		}
		stopped = stopped || event.Type == "message_stop"
		if event.Type == "content_block_delta" && event.Delta.Text != "" {
			texts++
		}
		if c.LeaveAfter > 0 && texts >= c.LeaveAfter {
			r := messageResult(sum)
			return Result{Text: r.Text, Left: true}
		}
	}
	r := messageResult(sum)
	r.Failure = claudeFailure(stream.Err())
	if r.Failure == nil && !stopped {
		r.Finish = "(no message_stop)"
	}
	return r
}

func messageResult(m anthropic.Message) Result {
	u := m.Usage
	r := Result{Finish: string(m.StopReason), Usage: &Usage{
		Input:  u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens,
		Output: u.OutputTokens, Cached: u.CacheReadInputTokens,
	}}
	for _, b := range m.Content {
		r.Text += b.Text
		r.Thinking += b.Thinking
		r.Signature += b.Signature
		if b.Type == "tool_use" {
			r.Tools = append(r.Tools, Tool{b.ID, b.Name, string(b.Input)})
		}
	}
	return r
}

func goCountTokens(ctx context.Context, c Call) Result {
	client := claude(c)
	count, err := client.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{
		Model: c.Model, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(c.prompt()))},
	})
	if err != nil {
		return Result{Failure: claudeFailure(err)}
	}
	return Result{Tokens: count.InputTokens}
}

func goClaudeModels(ctx context.Context, c Call) Result {
	client := claude(c)
	page, err := client.Models.List(ctx, anthropic.ModelListParams{})
	if err != nil {
		return Result{Failure: claudeFailure(err)}
	}
	var r Result
	for _, m := range page.Data {
		if m.Type != "model" || m.DisplayName == "" || m.CreatedAt.IsZero() {
			return Result{Failure: &Failure{Kind: failedOther, Message: "a model of another shape: " + m.RawJSON()}}
		}
		r.Models = append(r.Models, m.ID)
	}
	slices.Sort(r.Models)
	return r
}
