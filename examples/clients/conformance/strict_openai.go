package main

import (
	"encoding/json"
	"fmt"
)

// chatAnswer is a chat completion, a chunk of one, or a completion.
type chatAnswer struct {
	Choices []struct {
		Index        int         `json:"index"`
		Message      chatMessage `json:"message"`
		Delta        chatMessage `json:"delta"`
		Text         string      `json:"text"`
		FinishReason *string     `json:"finish_reason"`
	} `json:"choices"`
	Usage *chatUsageFields `json:"usage"`
	Error *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

type chatMessage struct {
	Content   *string    `json:"content"`
	ToolCalls []chatCall `json:"tool_calls"`
}

type chatCall struct {
	Index    *int    `json:"index"`
	ID       *string `json:"id"`
	Function struct {
		Name      *string `json:"name"`
		Arguments string  `json:"arguments"`
	} `json:"function"`
}

type chatUsageFields struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
	Details    struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func (u *chatUsageFields) usage() *Usage {
	if u == nil {
		return nil
	}
	return &Usage{Input: u.Prompt, Output: u.Completion, Cached: u.Details.Cached}
}

func chatWhole(body []byte) (Result, error) {
	var a chatAnswer
	if err := json.Unmarshal(body, &a); err != nil {
		return Result{}, fmt.Errorf("decode: %w", err)
	}
	if len(a.Choices) != 1 || a.Choices[0].FinishReason == nil {
		return Result{}, fmt.Errorf("%d choices, or one that has not finished", len(a.Choices))
	}
	c := a.Choices[0]
	r := Result{Text: c.Text, Finish: *c.FinishReason, Usage: a.Usage.usage()}
	if c.Message.Content != nil {
		r.Text += *c.Message.Content
	}
	for _, t := range c.Message.ToolCalls {
		if t.ID == nil || t.Function.Name == nil {
			return Result{}, fmt.Errorf("a tool call without id or name")
		}
		r.Tools = append(r.Tools, Tool{*t.ID, *t.Function.Name, t.Function.Arguments})
	}
	return r, nil
}

// chatListener follows a stream of chat or plain completions.
type chatListener struct {
	r     Result
	texts int
}

func (l *chatListener) said() int      { return l.texts }
func (l *chatListener) result() Result { return l.r }

func (l *chatListener) event(e sseEvent) error {
	if e.data == "[DONE]" {
		if l.r.Finish == "" {
			return fmt.Errorf("%w: [DONE] of an answer that has not finished", errMalformed)
		}
		return errOver
	}
	var a chatAnswer
	if err := json.Unmarshal([]byte(e.data), &a); err != nil {
		return fmt.Errorf("%w: %q: %w", errMalformed, e.data, err)
	}
	if a.Error != nil {
		return told{a.Error.Type, a.Error.Message}
	}
	if a.Usage != nil {
		l.r.Usage = a.Usage.usage()
	}
	for _, c := range a.Choices {
		text := c.Text
		if c.Delta.Content != nil {
			text += *c.Delta.Content
		}
		if text != "" {
			l.texts++
		}
		if text != "" && l.r.Finish != "" {
			return fmt.Errorf("%w: text after the finish reason", errMalformed)
		}
		l.r.Text += text
		for _, t := range c.Delta.ToolCalls {
			if err := l.call(t); err != nil {
				return err
			}
		}
		if c.FinishReason != nil {
			l.r.Finish = *c.FinishReason
		}
	}
	return nil
}

// call takes a piece of a tool call: the first has id and name, the others have neither.
func (l *chatListener) call(t chatCall) error {
	switch n := len(l.r.Tools); {
	case t.Index == nil || *t.Index > n:
		return fmt.Errorf("%w: a tool call without an index, or one that leaves some out", errMalformed)
	case *t.Index == n:
		if t.ID == nil || t.Function.Name == nil {
			return fmt.Errorf("%w: a tool call begins without id or name", errMalformed)
		}
		l.r.Tools = append(l.r.Tools, Tool{ID: *t.ID, Name: *t.Function.Name})
	case t.ID != nil || t.Function.Name != nil:
		return fmt.Errorf("%w: a tool call has its id or name twice", errMalformed)
	}
	l.r.Tools[*t.Index].Arguments += t.Function.Arguments
	return nil
}

// response is an answer of the Responses API.
type response struct {
	Status string `json:"status"`
	Output []struct {
		Type, Name, Arguments string
		CallID                string `json:"call_id"`
		Content               []struct{ Type, Text string }
	} `json:"output"`
	Usage *struct {
		Input   int64 `json:"input_tokens"`
		Output  int64 `json:"output_tokens"`
		Details struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	} `json:"usage"`
}

func (a response) result() Result {
	r := Result{Finish: a.Status}
	for _, item := range a.Output {
		for _, part := range item.Content {
			r.Text += part.Text
		}
		if item.Type == "function_call" {
			r.Tools = append(r.Tools, Tool{item.CallID, item.Name, item.Arguments})
		}
	}
	if a.Usage != nil {
		r.Usage = &Usage{Input: a.Usage.Input, Output: a.Usage.Output, Cached: a.Usage.Details.Cached}
	}
	return r
}

func responseWhole(body []byte) (Result, error) {
	var a response
	if err := json.Unmarshal(body, &a); err != nil {
		return Result{}, fmt.Errorf("decode: %w", err)
	}
	return a.result(), nil
}

// responseListener follows a stream of the Responses API.
type responseListener struct {
	r     Result
	next  int64
	texts int
}

func (l *responseListener) said() int      { return l.texts }
func (l *responseListener) result() Result { return l.r }

func (l *responseListener) event(e sseEvent) error {
	var o struct {
		Type     string
		Number   *int64 `json:"sequence_number"`
		Delta    string
		Response response
		Message  string
		Error    *struct{ Type, Message string }
	}
	if err := json.Unmarshal([]byte(e.data), &o); err != nil {
		return fmt.Errorf("%w: %q: %w", errMalformed, e.data, err)
	}
	switch {
	case o.Error != nil:
		return told{o.Error.Type, o.Error.Message}
	case o.Type == "error":
		return told{o.Type, o.Message}
	case o.Type != e.name || o.Number == nil || *o.Number != l.next:
		return fmt.Errorf("%w: the event %s has the type %s and another number than %d", errMalformed, e.name, o.Type, l.next)
	}
	l.next++
	switch o.Type {
	case "response.output_text.delta":
		l.r.Text += o.Delta
		l.texts++
	case "response.completed":
		whole := o.Response.result()
		if whole.Text != l.r.Text {
			return fmt.Errorf("%w: deltas say %q, the whole %q", errMalformed, l.r.Text, whole.Text)
		}
		l.r = whole
		return errOver
	}
	return nil
}
