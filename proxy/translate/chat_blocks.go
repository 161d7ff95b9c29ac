package translate

import (
	"fmt"
	"strconv"
)

// find returns the open block with that index, nil if there is none.
func (s *ChatStream) find(index int64) *openBlock {
	for i := range s.blocks {
		if s.blocks[i].index == index {
			return &s.blocks[i]
		}
	}
	return nil
}

// blockStart opens a block, and passes on what it already holds.
func (s *ChatStream) blockStart(dst []byte, e *streamEvent) ([]byte, error) {
	index := e.number()
	if index < 0 || !isObject(e.block) {
		return dst, fmt.Errorf("%w: content_block_start without a block", ErrAnswer)
	}
	if s.find(index) != nil || len(s.blocks) == maxBlocks {
		return dst, fmt.Errorf("%w: content_block_start of a block that is open, or of too many", ErrAnswer)
	}
	from := readBlock(e.block)
	b := openBlock{index: index, kind: from.kind}
	switch from.kind {
	case blockText:
		dst = s.text(dst, inner(from.text))
	case blockThinking:
		dst = s.think(dst, &b, inner(from.text))
	case blockRedacted:
		dst = s.delta(dst, `"thinking_blocks":[`, compact(nil, e.block), `]`)
	case blockTool:
		if !isString(from.id) || !isString(from.name) {
			return dst, fmt.Errorf("%w: a call without id or name", ErrAnswer)
		}
		b.call = s.calls
		s.calls++
		b.input = inputOf(from.input)
		if s.inputs += len(b.input); s.inputs > maxInputs {
			return dst, fmt.Errorf("%w: open blocks that begin with more input than can be kept", ErrAnswer)
		}
		call := append(strconv.AppendInt(nil, int64(b.call), 10), `,"id":`...)
		call = append(append(call, from.id...), `,"type":"function","function":{"name":`...)
		call = append(call, from.name...)
		dst = s.delta(dst, `"tool_calls":[{"index":`, call, `,"arguments":""}}]`)
	}
	s.blocks = append(s.blocks, b)
	return dst, nil
}

// blockDelta passes a piece of a block on.
func (s *ChatStream) blockDelta(dst []byte, e *streamEvent) ([]byte, error) {
	var kind, text, thinking, signature, part []byte
	for w := walk(e.delta); w.obj && w.next(); {
		switch string(w.key) {
		case "type":
			kind = inner(w.val)
		case "text":
			text = inner(w.val)
		case "thinking":
			thinking = inner(w.val)
		case "signature":
			signature = inner(w.val)
		case "partial_json":
			part = inner(w.val)
		}
	}
	b := s.find(e.number())
	if b == nil {
		return dst, fmt.Errorf("%w: content_block_delta of a block that is not open", ErrAnswer)
	}
	switch {
	case b.kind == blockText && string(kind) == "text_delta":
		dst = s.text(dst, text)
	case b.kind == blockThinking && string(kind) == "thinking_delta":
		dst = s.think(dst, b, thinking)
	case b.kind == blockThinking && string(kind) == "signature_delta":
		if len(b.signature)+len(signature) <= maxThinking {
			b.signature = append(b.signature, signature...)
		} else {
			b.long = true
		}
	case b.kind == blockTool && string(kind) == "input_json_delta" && len(part) > 0:
		b.said = true
		dst = s.arguments(dst, b.call, part)
	}
	return dst, nil
}

// blockStop closes a block, and passes on what had to wait for that.
func (s *ChatStream) blockStop(dst []byte, index int64) []byte {
	b := s.find(index)
	if b == nil {
		return dst
	}
	switch {
	case b.kind == blockTool && !b.said:
		text := quote(nil, b.input)
		dst = s.arguments(dst, b.call, inner(text))
	case b.kind == blockThinking && len(b.signature) > 0 && !b.long:
		block := append([]byte(`{"type":"thinking","thinking":"`), b.thinking...)
		block = append(append(block, `","signature":"`...), b.signature...)
		dst = s.delta(dst, `"thinking_blocks":[`, block, `"}]`)
	}
	s.inputs -= len(b.input)
	last := len(s.blocks) - 1
	*b = s.blocks[last]
	s.blocks[last] = openBlock{}
	s.blocks = s.blocks[:last]
	return dst
}

// text, think and arguments append a delta of what is between the quotes of a
// string, escapes as they came.
func (s *ChatStream) text(dst, piece []byte) []byte {
	if len(piece) == 0 {
		return dst
	}
	return s.delta(dst, `"content":"`, piece, `"`)
}

func (s *ChatStream) think(dst []byte, b *openBlock, piece []byte) []byte {
	if len(piece) == 0 {
		return dst
	}
	if b.long = b.long || len(b.thinking)+len(piece) > maxThinking; b.long {
		b.thinking = nil
	} else {
		b.thinking = append(b.thinking, piece...)
	}
	return s.delta(dst, `"reasoning_content":"`, piece, `"`)
}

func (s *ChatStream) arguments(dst []byte, call int, piece []byte) []byte {
	dst = append(append(dst, s.head...), `{"index":0,"delta":{"tool_calls":[{"index":`...)
	dst = strconv.AppendInt(dst, int64(call), 10)
	dst = append(append(append(dst, `,"function":{"arguments":"`...), piece...), `"}}]},"logprobs":null,"finish_reason":null}`...)
	return append(dst, s.tail...)
}
