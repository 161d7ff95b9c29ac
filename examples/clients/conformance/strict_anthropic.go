package main

import (
	"encoding/json"
	"fmt"
)

type messageAnswer struct {
	Type       string
	Role       string
	Content    []messageBlock
	StopReason *string `json:"stop_reason"`
	Usage      *messageUsage
}

type messageBlock struct {
	Type, Text, Thinking, Signature, ID, Name string
	Input                                     json.RawMessage
}

// messageUsage has pointers: what an event leaves out keeps its earlier value.
type messageUsage struct {
	Input   *int64 `json:"input_tokens"`
	Output  *int64 `json:"output_tokens"`
	Read    *int64 `json:"cache_read_input_tokens"`
	Created *int64 `json:"cache_creation_input_tokens"`
}

// merge takes over what a later event says; its figures are cumulative.
func (u *messageUsage) merge(later *messageUsage) {
	if later == nil {
		return
	}
	for _, f := range []struct{ to, from **int64 }{
		{&u.Input, &later.Input}, {&u.Output, &later.Output}, {&u.Read, &later.Read}, {&u.Created, &later.Created},
	} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
}

func (u *messageUsage) usage() *Usage {
	value := func(p *int64) int64 {
		if p == nil {
			return 0
		}
		return *p
	}
	return &Usage{Input: value(u.Input) + value(u.Read) + value(u.Created), Output: value(u.Output), Cached: value(u.Read)}
}

func (b messageBlock) add(r *Result) {
	r.Text += b.Text
	r.Thinking += b.Thinking
	r.Signature += b.Signature
	if b.Type == "tool_use" {
		r.Tools = append(r.Tools, Tool{b.ID, b.Name, string(b.Input)})
	}
}

func messageWhole(body []byte) (Result, error) {
	var a messageAnswer
	if err := json.Unmarshal(body, &a); err != nil {
		return Result{}, fmt.Errorf("decode: %w", err)
	}
	if a.Type != "message" || a.Role != "assistant" || a.StopReason == nil || a.Usage == nil {
		return Result{}, fmt.Errorf("no finished message with its usage")
	}
	r := Result{Finish: *a.StopReason, Usage: a.Usage.usage()}
	for _, b := range a.Content {
		b.add(&r)
	}
	return r, nil
}

// messageListener follows a stream of messages and holds it to its legal order.
type messageListener struct {
	begun   bool
	stopped bool // by message_delta: nothing but its repetition and message_stop may follow
	open    bool // a block is
	block   messageBlock
	json    string // of the open block
	index   int
	usage   messageUsage
	r       Result
	texts   int
}

func (l *messageListener) said() int { return l.texts }

func (l *messageListener) result() Result {
	r := l.r
	if l.open {
		l.block.add(&r)
	}
	r.Usage = l.usage.usage()
	return r
}

type messageEvent struct {
	Type    string
	Message messageAnswer
	Index   int
	Block   messageBlock `json:"content_block"`
	Delta   struct {
		Type, Text, Thinking, Signature string
		JSON                            string  `json:"partial_json"`
		StopReason                      *string `json:"stop_reason"`
	}
	Usage *messageUsage
	Error struct{ Type, Message string }
}

func (l *messageListener) event(e sseEvent) error {
	var o messageEvent
	if err := json.Unmarshal([]byte(e.data), &o); err != nil {
		return fmt.Errorf("%w: %q: %w", errMalformed, e.data, err)
	}
	if o.Type != e.name {
		return fmt.Errorf("%w: the event %s has the type %s", errMalformed, e.name, o.Type)
	}
	illegal := fmt.Errorf("%w: %s has no place here: %s", errMalformed, e.name, e.data)
	switch o.Type {
	case "ping":
		return nil
	case "error":
		return told{o.Error.Type, o.Error.Message}
	case "message_start":
		if l.begun {
			return illegal
		}
		l.begun = true
		l.usage.merge(o.Message.Usage)
		return nil
	}
	if !l.begun {
		return illegal
	}
	switch o.Type {
	case "content_block_start", "content_block_delta", "content_block_stop":
		return l.content(o, illegal)
	case "message_delta":
		if l.open {
			return illegal
		}
		l.stopped = true
		l.usage.merge(o.Usage)
		if o.Delta.StopReason != nil {
			l.r.Finish = *o.Delta.StopReason
		}
		return nil
	case "message_stop":
		if l.open || !l.stopped {
			return illegal
		}
		return errOver
	}
	return illegal
}

// content takes the events of a block.
func (l *messageListener) content(o messageEvent, illegal error) error {
	starts := o.Type == "content_block_start"
	if l.stopped || l.open == starts || o.Index != l.index {
		return illegal
	}
	switch o.Type {
	case "content_block_start":
		l.open, l.block, l.json = true, o.Block, ""
	case "content_block_delta":
		l.block.Text += o.Delta.Text
		l.block.Thinking += o.Delta.Thinking
		l.block.Signature += o.Delta.Signature
		l.json += o.Delta.JSON
		if o.Delta.Text != "" {
			l.texts++
		}
	case "content_block_stop":
		if l.json != "" {
			l.block.Input = json.RawMessage(l.json)
		}
		l.block.add(&l.r)
		l.open, l.index = false, l.index+1
	}
	return nil
}
