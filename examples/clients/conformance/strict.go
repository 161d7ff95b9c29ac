package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// strict is a driver without any library: it reads answers to the letter and
// forgives nothing, so that what libraries overlook has a judge too.
type strict struct{ http *http.Client }

var _ driver = (*strict)(nil)

func newStrict() *strict {
	return &strict{&http.Client{Transport: &http.Transport{DisableCompression: true}}}
}

// Name says how the table calls it.
func (s *strict) Name() string { return "strict" }

// Close ends its connections.
func (s *strict) Close() error {
	s.http.CloseIdleConnections()
	return nil
}

// dialect is what the strict reader knows of a route.
type dialect struct {
	path   string
	body   func(Call) map[string]any
	whole  func(body []byte) (Result, error)
	stream func() listener
}

// listener follows one stream.
type listener interface {
	// event takes the next event. errOver ends the stream well; another error is a breach.
	event(sseEvent) error
	// said is how many events with text there were.
	said() int
	result() Result
}

// errOver is returned by a listener for the event that ends its stream.
var errOver = errors.New("the stream is over")

// told is an error that the stream itself reported.
type told struct{ kind, message string }

func (t told) Error() string { return t.message }

var dialects = map[string]dialect{
	doChat:        {"/v1/chat/completions", chatBody, chatWhole, func() listener { return &chatListener{} }},
	doCompletions: {"/v1/completions", chatBody, chatWhole, func() listener { return &chatListener{} }},
	doMessages:    {"/v1/messages", chatBody, messageWhole, func() listener { return &messageListener{} }},
	doResponses:   {"/v1/responses", chatBody, responseWhole, func() listener { return &responseListener{} }},
}

// chatBody is a request that every route understands: fields that a route does
// not have are nothing to it.
func chatBody(c Call) map[string]any {
	b := map[string]any{"model": c.Model}
	switch c.Do {
	case doCompletions:
		b["prompt"] = c.prompt()
	case doResponses:
		b["input"] = c.prompt()
	default:
		b["messages"] = []any{map[string]any{"role": "user", "content": c.prompt()}}
	}
	if c.Do == doMessages {
		b["max_tokens"] = 1024
	}
	if c.Stream {
		b["stream"] = true
	}
	if c.Usage && c.Do == doChat {
		b["stream_options"] = map[string]any{"include_usage": true}
	}
	if c.Tools {
		b["tools"] = map[string]any{
			doChat:      []any{map[string]any{"type": "function", "function": map[string]any{"name": "weather", "parameters": citySchema}}},
			doMessages:  []any{map[string]any{"name": "weather", "input_schema": citySchema}},
			doResponses: []any{map[string]any{"type": "function", "name": "weather", "parameters": citySchema}},
		}[c.Do]
	}
	return b
}

// Run carries out a call.
func (s *strict) Run(ctx context.Context, c Call) (Result, error) {
	d, ok := dialects[c.Do]
	switch {
	case !ok:
		return Result{Skip: "the strict reader reads answers and streams only"}, nil
	case c.Structured:
		return Result{Skip: "it has no parser of structured output"}, nil
	case c.DefaultRetries:
		return Result{Skip: "it never tries again"}, nil
	}
	if c.TimeoutMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout())
		defer cancel()
	}
	body, err := json.Marshal(d.body(c))
	if err != nil {
		return Result{}, fmt.Errorf("encode a request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.BaseURL+d.path, bytes.NewReader(body))
	if err != nil {
		return Result{}, fmt.Errorf("make a request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.Do == doMessages {
		req.Header.Set("X-Api-Key", c.Key)
		req.Header.Set("Anthropic-Version", "2023-06-01")
	} else {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	for k, v := range c.Headers {
		req.Header.Set(k, v)
	}
	res, err := s.http.Do(req)
	if err != nil {
		return Result{Failure: transportFailure(err)}, nil
	}
	defer res.Body.Close()
	return read(c, d, res), nil
}

func read(c Call, d dialect, res *http.Response) Result {
	kind := res.Header.Get("Content-Type")
	switch {
	case c.Stream && res.StatusCode == http.StatusOK:
		if !strings.HasPrefix(kind, "text/event-stream") {
			return breach("a stream of type %q", kind)
		}
		return readStream(c, d.stream(), res.Body)
	case !strings.HasPrefix(kind, "application/json"):
		return breach("a body of type %q", kind)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return Result{Failure: transportFailure(err)}
	}
	if res.StatusCode != http.StatusOK {
		return Result{Failure: readFailure(c, res, body)}
	}
	r, err := d.whole(body)
	if err != nil {
		return breach("%v in %.300s", err, body)
	}
	return r
}

// breach is the result of an answer that no strict reader takes.
func breach(format string, args ...any) Result {
	return Result{Failure: &Failure{Kind: failedOther, Message: fmt.Sprintf(format, args...)}}
}

// readFailure reads the one shape that errors of the protocol have.
func readFailure(c Call, res *http.Response, body []byte) *Failure {
	var e struct {
		Type  string
		Error *struct {
			Type, Message *string
			Param         *string
			Code          any
		}
	}
	err := json.Unmarshal(body, &e)
	switch {
	case err != nil || e.Error == nil || e.Error.Type == nil || e.Error.Message == nil:
		return breach("an error of another shape: %.300s", body).Failure
	case c.Do == doMessages && e.Type != "error":
		return breach("an error without the type error: %.300s", body).Failure
	}
	f := &Failure{Kind: failedStatus, Status: res.StatusCode, Type: *e.Error.Type, Message: *e.Error.Message}
	f.headers(res)
	return f
}

func readStream(c Call, l listener, body io.Reader) Result {
	over, left := false, errors.New("the client leaves")
	err := readEvents(body, func(e sseEvent) error {
		if over {
			return fmt.Errorf("%w: an event after the last: %v", errMalformed, e)
		}
		err := l.event(e)
		over = errors.Is(err, errOver)
		switch {
		case over:
			return nil
		case err != nil:
			return err
		case c.LeaveAfter > 0 && l.said() >= c.LeaveAfter:
			return left
		}
		return nil
	})
	r := l.result()
	var t told
	switch {
	case errors.Is(err, left):
		return Result{Text: r.Text, Left: true}
	case errors.As(err, &t):
		r.Failure = &Failure{Kind: failedStream, Type: t.kind, Message: t.message}
	case err != nil:
		r.Failure = transportFailure(err)
	case !over:
		r.Failure = &Failure{Kind: failedOther, Message: "the stream ends without its last event"}
	}
	return r
}
