package translate

import "strconv"

// msgMostHeld bounds the bytes of blocks that wait for their turn, and those
// that are kept of calls; msgHolding is what holding a block or a piece costs
// besides its bytes.
const (
	msgMostHeld = 16 << 20
	msgHolding  = 64
)

type msgBlockKind uint8

const (
	msgTextBlock msgBlockKind = iota
	msgThinkingBlock
	msgToolBlock
)

// msgBlock is one content block of the answer.
type msgBlock struct {
	kind   msgBlockKind
	id     []byte // of a tool call, as JSON; nil if not known
	name   []byte
	open   bool
	closed bool
	held   [][]byte // pieces that wait for the block to open
	object msgObjectEnd
}

// msgBlocks puts the blocks of a stream in order. They queue up as they begin;
// only the first is open and passes its pieces on at once, those behind it hold
// theirs back. So parallel calls may come interleaved, and still a client sees
// one block at a time. The first one leaves when another waits and nothing of
// its own can follow: text when anything else has begun, a tool call when its
// arguments are a whole object.
type msgBlocks struct {
	message string // its id
	queue   []*msgBlock
	calls   map[int64]*msgBlock // by the upstream's index
	last    *msgBlock           // the call that was spoken of last
	next    int                 // index of the next block to open
	tools   int                 // calls opened
	held    int                 // bytes held back
	known   int                 // bytes that are kept of calls to the end, so that late pieces find theirs
}

// say adds a piece of text or of thoughts, a JSON string.
func (b *msgBlocks) say(dst []byte, kind msgBlockKind, piece []byte) []byte {
	var block *msgBlock
	if n := len(b.queue); n > 0 && b.queue[n-1].kind == kind {
		block = b.queue[n-1]
	} else {
		block = b.begin(kind)
	}
	return b.advance(b.add(dst, block, piece), false)
}

// begin queues a new block.
func (b *msgBlocks) begin(kind msgBlockKind) *msgBlock {
	block := &msgBlock{kind: kind}
	b.queue = append(b.queue, block)
	b.held += msgHolding
	return block
}

// call adds what a chunk says of one tool call.
func (b *msgBlocks) call(dst, index, id, function []byte) []byte {
	var name, piece []byte
	msgPick(function, msgTake("name", &name), msgTake("arguments", &piece))
	if len(piece) > 0 && piece[0] == '{' { // some servers send the object itself
		piece = msgAppendText(nil, msgAppendCompact(nil, piece))
	}
	block := b.find(index, id, name, piece)
	if block == nil {
		if !msgFilled(id) && !msgFilled(name) && !msgFilled(piece) {
			return dst
		}
		block = b.begin(msgToolBlock)
		b.known += msgHolding
		if index != nil {
			if b.calls == nil {
				b.calls = map[int64]*msgBlock{}
			}
			b.calls[msgCount(index)] = block
		}
	}
	b.last = block
	// The caller's bytes do not outlive the event.
	if block.id == nil && msgFilled(id) {
		block.id = append([]byte(nil), id...)
		b.known += len(id)
	}
	if block.name == nil && msgFilled(name) {
		block.name = append([]byte(nil), name...)
		b.known += len(name)
	}
	dst = b.advance(dst, false)
	if msgFilled(piece) {
		dst = b.add(dst, block, piece)
		dst = b.advance(dst, false)
	}
	return dst
}

// find returns the call that is spoken of, nil for a new one. Some servers give
// every call the same index or none at all: a name with another id, or with another
// object, begins another call.
func (b *msgBlocks) find(index, id, name, piece []byte) *msgBlock {
	block := b.last
	if index != nil {
		block = b.calls[msgCount(index)]
	}
	switch {
	case block == nil || !msgFilled(name) || block.name == nil:
		return block
	case msgFilled(id) && block.id != nil && string(id) != string(block.id):
		return nil
	case index == nil && !msgFilled(id):
		return nil
	case !msgFilled(id) && block.object.whole && len(piece) > 2 && piece[1] == '{':
		return nil // a second object with a name
	}
	return block
}

// add passes a piece on, or holds it back.
func (b *msgBlocks) add(dst []byte, block *msgBlock, piece []byte) []byte {
	switch {
	case block.closed:
		// It was closed because its object was whole: what follows could
		// only make it invalid.
		return dst
	case block.kind == msgToolBlock:
		block.object.scan(msgText(piece))
	}
	if block.open {
		return b.appendPiece(dst, block, piece)
	}
	block.held = append(block.held, append([]byte(nil), piece...))
	b.held += len(piece) + msgHolding
	return dst
}

// advance opens the first block in the queue, and closes it for the next one
// if it may or, at the end of the stream, must.
func (b *msgBlocks) advance(dst []byte, end bool) []byte {
	for len(b.queue) > 0 {
		block := b.queue[0]
		if !block.open {
			if block.kind == msgToolBlock && block.name == nil && !end {
				return dst // the name is on its way
			}
			dst = b.openBlock(dst, block)
		}
		whole := block.kind != msgToolBlock || block.object.whole
		if !end && (len(b.queue) == 1 || !whole) {
			return dst
		}
		block.open, block.closed = false, true
		b.queue = b.queue[1:]
		b.held -= msgHolding
		dst = msgAppendIndex(msgOpenEvent(dst, "content_block_stop"), b.next-1)
		dst = msgCloseEvent(dst)
	}
	return dst
}

// finish closes everything.
func (b *msgBlocks) finish(dst []byte) []byte { return b.advance(dst, true) }

func (b *msgBlocks) openBlock(dst []byte, block *msgBlock) []byte {
	block.open = true
	dst = msgAppendIndex(msgOpenEvent(dst, "content_block_start"), b.next)
	b.next++
	dst = append(dst, `,"content_block":`...)
	switch block.kind {
	case msgTextBlock:
		dst = append(dst, `{"type":"text","text":""}`...)
	case msgThinkingBlock:
		dst = append(dst, `{"type":"thinking","thinking":"","signature":""}`...)
	case msgToolBlock:
		dst = msgAppendCallID(append(dst, `{"type":"tool_use","id":`...), block.id, b.message, b.tools)
		b.tools++
		dst = append(dst, `,"name":`...)
		if block.name == nil {
			dst = append(dst, `""`...)
		}
		dst = append(append(dst, block.name...), `,"input":{}}`...)
	}
	dst = msgCloseEvent(dst)
	for _, piece := range block.held {
		b.held -= len(piece) + msgHolding
		dst = b.appendPiece(dst, block, piece)
	}
	block.held = nil
	return dst
}

func (b *msgBlocks) appendPiece(dst []byte, block *msgBlock, piece []byte) []byte {
	dst = msgAppendIndex(msgOpenEvent(dst, "content_block_delta"), b.next-1)
	switch block.kind {
	case msgTextBlock:
		dst = append(dst, `,"delta":{"type":"text_delta","text":`...)
	case msgThinkingBlock:
		dst = append(dst, `,"delta":{"type":"thinking_delta","thinking":`...)
	case msgToolBlock:
		dst = append(dst, `,"delta":{"type":"input_json_delta","partial_json":`...)
	}
	return msgCloseEvent(append(append(dst, piece...), '}'))
}

func msgAppendIndex(dst []byte, index int) []byte {
	return strconv.AppendInt(append(dst, `,"index":`...), int64(index), 10)
}

// msgObjectEnd finds the end of a JSON object that comes in pieces.
type msgObjectEnd struct {
	depth    int
	str, esc bool
	whole    bool // the object has ended
}

func (o *msgObjectEnd) scan(piece []byte) {
	for _, c := range piece {
		switch {
		case o.whole:
			return
		case o.esc:
			o.esc = false
		case o.str:
			o.esc = c == '\\'
			o.str = c != '"'
		case c == '"':
			o.str = true
		case c == '{' || c == '[' && o.depth > 0:
			o.depth++
		case (c == '}' || c == ']') && o.depth > 0:
			o.depth--
			o.whole = o.depth == 0
		}
	}
}
