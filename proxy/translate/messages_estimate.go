package translate

// What a Messages request's parts cost in an estimate, in tokens.
const (
	msgBytesPerToken  = 4
	msgImageTokens    = 1600 // an image as large as is not scaled down
	msgPageTokens     = 2000 // a page of a PDF, shown as text and image
	msgPageBytes      = 64 << 10
	msgOverheadTokens = 4 // around each message, and around each tool
)

// MessagesInputEstimate estimates the input tokens of a Messages request: a
// token for every four bytes of text, and fixed costs for images, pages of
// PDFs, messages and tools. It is for count_tokens where the upstream has no
// such endpoint, and reads whatever it finds: a block that could not be
// translated counts by its text. The error is an *Error.
func MessagesInputEstimate(body []byte) (tokens int64, err error) {
	if !msgValid(body) {
		return 0, msgErrorf("", "is not valid JSON, or nested more than %d levels deep", msgMaxDepth)
	}
	body = msgTrim(body)
	messages := msgMember(body, "messages")
	switch {
	case body[0] != '{':
		return 0, msgErrorf("", "must be an object")
	case messages == nil || messages[0] != '[':
		return 0, msgErrorf("messages", "must be an array")
	}
	var e msgEstimate
	e.content(msgMember(body, "system"))
	for m := range msgElements(messages) {
		e.fixed += msgOverheadTokens
		e.content(msgMember(m, "content"))
	}
	for tool := range msgElements(msgMember(body, "tools")) {
		e.fixed += msgOverheadTokens
		for _, name := range []string{"name", "description", "input_schema"} {
			e.text(msgMember(tool, name))
		}
	}
	return max(1, e.fixed+(e.bytes+msgBytesPerToken-1)/msgBytesPerToken), nil
}

type msgEstimate struct{ bytes, fixed int64 }

// text counts a string by what it says and any other value by its length.
func (e *msgEstimate) text(raw []byte) {
	e.bytes += int64(len(raw))
	if !msgIsString(raw) {
		return
	}
	e.bytes -= 2
	for i := 1; i < len(raw)-1; i++ {
		if raw[i] != '\\' {
			continue
		}
		if i++; raw[i] == 'u' {
			e.bytes -= 4 // a character of two bytes
			i += 4
			continue
		}
		e.bytes--
	}
}

// content counts a string or blocks; blocks hold further ones at most twice.
func (e *msgEstimate) content(raw []byte) { e.contentAt(raw, 3) }

func (e *msgEstimate) contentAt(raw []byte, levels int) {
	if msgIsString(raw) || levels == 0 {
		e.text(raw)
		return
	}
	for block := range msgElements(raw) {
		e.block(block, levels-1)
	}
}

func (e *msgEstimate) block(block []byte, levels int) {
	source := msgMember(block, "source")
	switch string(msgText(msgMember(block, "type"))) {
	case "image":
		e.fixed += msgImageTokens
	case "document":
		e.text(msgMember(block, "title"))
		e.text(msgMember(block, "context"))
		data := msgMember(source, "data")
		switch string(msgText(msgMember(source, "type"))) {
		case "text":
			e.text(data)
		case "content":
			e.contentAt(msgMember(source, "content"), levels)
		default:
			e.fixed += msgPageTokens * (1 + int64(len(data))*3/4/msgPageBytes)
		}
	case "thinking", "redacted_thinking":
		// Not sent on.
	default:
		for _, name := range []string{"text", "name", "input"} {
			e.text(msgMember(block, name))
		}
		e.contentAt(msgMember(block, "content"), levels)
	}
}
