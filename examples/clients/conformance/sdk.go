package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// sdk is the driver that uses the Go libraries of both providers. The zero value is ready.
type sdk struct{}

var _ driver = sdk{}

// Name says how the table calls it.
func (sdk) Name() string { return "go" }

// Close has nothing to do.
func (sdk) Close() error { return nil }

// Run carries out a call.
func (sdk) Run(ctx context.Context, c Call) (Result, error) {
	switch c.Do {
	case doChat:
		return goChat(ctx, c), nil
	case doCompletions:
		return goCompletions(ctx, c), nil
	case doEmbeddings:
		return goEmbeddings(ctx, c), nil
	case doModels:
		return goModels(ctx, c), nil
	case doResponses:
		return goResponses(ctx, c), nil
	case doStored:
		return goStored(ctx, c), nil
	case doMessages:
		return goMessages(ctx, c), nil
	case doCountTokens:
		return goCountTokens(ctx, c), nil
	case doListClaude:
		return goClaudeModels(ctx, c), nil
	}
	return Result{Skip: "cannot do " + c.Do}, nil
}

// prompt is the text that a call sends.
func (c Call) prompt() string {
	if c.Bytes > 0 {
		return strings.Repeat("x", c.Bytes)
	}
	return "Hello world!"
}

func (c Call) timeout() time.Duration { return time.Duration(c.TimeoutMS) * time.Millisecond }

// citySchema is the argument of the function weather.
var citySchema = map[string]any{
	"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}},
	"required": []string{"city"}, "additionalProperties": false,
}

// weatherSchema is what structured output has to look like.
var weatherSchema = map[string]any{
	"type":       "object",
	"properties": map[string]any{"city": map[string]any{"type": "string"}, "degrees": map[string]any{"type": "integer"}},
	"required":   []string{"city", "degrees"}, "additionalProperties": false,
}

// transportFailure names an error that came from neither an answer nor an event.
func transportFailure(err error) *Failure {
	var n net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &n) && n.Timeout():
		return &Failure{Kind: failedTimeout, Message: err.Error()}
	case errors.As(err, &n), strings.Contains(err.Error(), "EOF"), strings.Contains(err.Error(), "connection reset"):
		return &Failure{Kind: failedConnect, Message: err.Error()}
	}
	return &Failure{Kind: failedOther, Message: err.Error()}
}

func (f *Failure) headers(res *http.Response) {
	if res == nil {
		return
	}
	f.RetryAfter, f.LimitedBy = res.Header.Get("Retry-After"), res.Header.Get("X-Sluice-Limited-By")
	f.RequestID = res.Header.Get("X-Request-Id")
	if id := res.Header.Get("Request-Id"); id != "" {
		f.RequestID = id
	}
}
