package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

func openAI(c Call) openai.Client {
	opts := []option.RequestOption{option.WithAPIKey(c.Key), option.WithBaseURL(c.BaseURL + "/v1")}
	if !c.DefaultRetries {
		opts = append(opts, option.WithMaxRetries(0))
	}
	if c.TimeoutMS > 0 {
		opts = append(opts, option.WithRequestTimeout(c.timeout()))
	}
	for k, v := range c.Headers {
		opts = append(opts, option.WithHeader(k, v))
	}
	return openai.NewClient(opts...)
}

// openAIFailure puts what the library raised into the words of a Result; nil stays nil.
func openAIFailure(err error) *Failure {
	var e *openai.Error
	var s *ssestream.StreamError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		f := &Failure{Kind: failedStatus, Status: e.StatusCode, Type: e.Type, Message: e.Message}
		f.headers(e.Response)
		return f
	case errors.As(err, &s):
		return &Failure{Kind: failedStream, Message: s.Message}
	}
	return transportFailure(err)
}

func goChat(ctx context.Context, c Call) Result {
	client := openAI(c)
	p := openai.ChatCompletionNewParams{Model: c.Model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(c.prompt())}}
	if c.Tools {
		p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: "weather", Parameters: citySchema,
		})}
	}
	if c.Structured {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "weather", Schema: weatherSchema, Strict: openai.Bool(true)},
		}
	}
	if c.Stream {
		return goChatStream(ctx, c, client, p)
	}
	answer, err := client.Chat.Completions.New(ctx, p)
	if err != nil {
		return Result{Failure: openAIFailure(err)}
	}
	return chatResult(*answer, c.Structured)
}

func goChatStream(ctx context.Context, c Call, client openai.Client, p openai.ChatCompletionNewParams) Result {
	if c.Usage {
		p.StreamOptions.IncludeUsage = openai.Bool(true)
	}
	stream := client.Chat.Completions.NewStreaming(ctx, p)
	defer stream.Close()
	var sum openai.ChatCompletionAccumulator
	var said string
	var usage *Usage
	var finish string
	texts := 0
	for stream.Next() {
		chunk := stream.Current()
		sum.AddChunk(chunk)
		if chunk.JSON.Usage.Valid() {
			usage = chatUsageOf(chunk.Usage)
		}
		for _, choice := range chunk.Choices {
			said += choice.Delta.Content
			if choice.FinishReason != "" {
				finish = choice.FinishReason
			}
			if choice.Delta.Content != "" {
				texts++
			}
		}
		if c.LeaveAfter > 0 && texts >= c.LeaveAfter {
			return Result{Text: said, Left: true}
		}
	}
	r := chatResult(sum.ChatCompletion, false)
	r.Text, r.Usage, r.Finish, r.Failure = said, usage, finish, openAIFailure(stream.Err())
	return r
}

func chatResult(answer openai.ChatCompletion, structured bool) Result {
	var r Result
	if answer.JSON.Usage.Valid() {
		r.Usage = chatUsageOf(answer.Usage)
	}
	if len(answer.Choices) == 0 {
		return r
	}
	choice := answer.Choices[0]
	r.Text, r.Finish = choice.Message.Content, choice.FinishReason
	for _, t := range choice.Message.ToolCalls {
		r.Tools = append(r.Tools, Tool{t.ID, t.Function.Name, t.Function.Arguments})
	}
	r.parse(structured)
	return r
}

// parse reads structured output, as the Go libraries leave it to the caller.
func (r *Result) parse(structured bool) {
	var w Weather
	if structured && json.Unmarshal([]byte(r.Text), &w) == nil {
		r.Parsed = &w
	}
}

func chatUsageOf(u openai.CompletionUsage) *Usage {
	return &Usage{Input: u.PromptTokens, Output: u.CompletionTokens, Cached: u.PromptTokensDetails.CachedTokens}
}

func goCompletions(ctx context.Context, c Call) Result {
	client := openAI(c)
	p := openai.CompletionNewParams{Model: openai.CompletionNewParamsModel(c.Model), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(c.prompt())}}
	if !c.Stream {
		answer, err := client.Completions.New(ctx, p)
		if err != nil {
			return Result{Failure: openAIFailure(err)}
		}
		return Result{Text: answer.Choices[0].Text, Finish: string(answer.Choices[0].FinishReason), Usage: chatUsageOf(answer.Usage)}
	}
	stream := client.Completions.NewStreaming(ctx, p)
	defer stream.Close()
	var r Result
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			r.Text += choice.Text
			r.Finish = string(choice.FinishReason)
		}
	}
	r.Failure = openAIFailure(stream.Err())
	return r
}

func goEmbeddings(ctx context.Context, c Call) Result {
	client := openAI(c)
	answer, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{
		Model: c.Model, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two"}},
	})
	if err != nil {
		return Result{Failure: openAIFailure(err)}
	}
	r := Result{Usage: &Usage{Input: answer.Usage.PromptTokens}}
	for _, e := range answer.Data {
		r.Vectors = append(r.Vectors, e.Embedding)
	}
	return r
}

func goModels(ctx context.Context, c Call) Result {
	client := openAI(c)
	page, err := client.Models.List(ctx)
	if err != nil {
		return Result{Failure: openAIFailure(err)}
	}
	var r Result
	for _, m := range page.Data {
		r.Models = append(r.Models, m.ID)
	}
	slices.Sort(r.Models)
	return r
}

func goResponses(ctx context.Context, c Call) Result {
	client := openAI(c)
	p := responses.ResponseNewParams{Model: c.Model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(c.prompt())}}
	if c.Tools {
		p.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("weather", citySchema, true)}
	}
	if c.Structured {
		p.Text.Format = responses.ResponseFormatTextConfigParamOfJSONSchema("weather", weatherSchema)
	}
	if !c.Stream {
		answer, err := client.Responses.New(ctx, p)
		if err != nil {
			return Result{Failure: openAIFailure(err)}
		}
		r := responseResult(*answer)
		r.parse(c.Structured)
		return r
	}
	stream := client.Responses.NewStreaming(ctx, p)
	defer stream.Close()
	var said string
	var r Result
	for texts := 0; stream.Next(); {
		switch event := stream.Current(); event.Type {
		case "response.output_text.delta":
			said += event.Delta
			if texts++; texts == c.LeaveAfter {
				return Result{Text: said, Left: true}
			}
		case "response.completed":
			r = responseResult(event.Response)
		}
	}
	switch r.Failure = openAIFailure(stream.Err()); {
	case r.Finish == "" && r.Failure == nil:
		r.Finish = "(not completed)"
	case r.Finish == "":
		r.Text = said
	case r.Text != said:
		r.Text = "deltas " + said + " but completed " + r.Text
	}
	return r
}

func responseResult(answer responses.Response) Result {
	r := Result{Text: answer.OutputText(), Finish: string(answer.Status), Usage: &Usage{
		Input: answer.Usage.InputTokens, Output: answer.Usage.OutputTokens, Cached: answer.Usage.InputTokensDetails.CachedTokens,
	}}
	for _, item := range answer.Output {
		if item.Type == "function_call" {
			call := item.AsFunctionCall()
			r.Tools = append(r.Tools, Tool{call.CallID, call.Name, call.Arguments})
		}
	}
	return r
}

func goStored(ctx context.Context, c Call) Result {
	client := openAI(c)
	made, err := client.Responses.New(ctx, responses.ResponseNewParams{Model: c.Model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(c.prompt())}})
	if err != nil {
		return Result{Failure: openAIFailure(err)}
	}
	read, err := client.Responses.Get(ctx, made.ID, responses.ResponseGetParams{})
	if err != nil {
		return Result{Failure: openAIFailure(err)}
	}
	if err := client.Responses.Delete(ctx, made.ID); err != nil {
		return Result{Failure: openAIFailure(err)}
	}
	_, err = client.Responses.Get(ctx, made.ID, responses.ResponseGetParams{})
	gone := openAIFailure(err)
	return Result{Text: made.OutputText(), Stored: read.OutputText(), Deleted: gone != nil && gone.Status == 404}
}
