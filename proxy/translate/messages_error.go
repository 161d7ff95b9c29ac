package translate

import (
	"bytes"
	"fmt"
)

// MessagesError translates an OpenAI-type error answer into Anthropic's
// envelope and returns the status to send it with: the upstream's, or 502 if
// that was no error or is about credentials or an account, as those are the
// gateway's and a client would take it for its own key. The upstream's words
// are kept, for clients act on them, but not those about credentials.
func MessagesError(status int, body []byte) (int, []byte) {
	if status < 400 || status > 599 {
		status = 502
	}
	var message, code []byte
	if msgValid(body) {
		message, code = msgErrorMember(msgTrim(body))
	}
	kind := msgErrorType(status)
	switch {
	case status >= 401 && status <= 403:
		status = 502
		message = msgAppendText(nil, refusedOurs)
	case !msgFilled(message):
		message = msgAppendText(nil, fmt.Sprintf("The upstream answered with status %d.", status))
	case status == 400 && msgTooLong(message, code):
		// Anthropic's clients know a conversation that has grown too long
		// by these words, and shorten it.
		message = msgAppendJoined(nil, ": ", [][]byte{[]byte(`"prompt is too long"`), message})
	}
	return status, msgAppendError(nil, kind, message)
}

// msgAppendError appends the envelope; message is a JSON string.
func msgAppendError(dst []byte, kind string, message []byte) []byte {
	dst = append(append(dst, `{"type":"error","error":{"type":"`...), kind...)
	return append(append(append(dst, `","message":`...), message...), `}}`...)
}

// msgErrorMember finds the message and the code in the forms that servers
// give their errors: {"error":{…}}, {"error":"…"}, {"message":"…"},
// {"detail":"…"}.
func msgErrorMember(body []byte) (message, code []byte) {
	inner := msgMember(body, "error")
	switch {
	case msgIsString(inner):
		return inner, nil
	case inner == nil:
		inner = body
	}
	for _, name := range []string{"message", "detail"} {
		if v := msgMember(inner, name); msgFilled(v) {
			return v, msgMember(inner, "code")
		}
	}
	return nil, msgMember(inner, "code")
}

func msgTooLong(message, code []byte) bool {
	return string(msgText(code)) == "context_length_exceeded" || bytes.Contains(message, []byte("maximum context length"))
}

// msgErrorType returns Anthropic's type for a status of the upstream's. What
// the client did not cause is not shown as its fault: a refused credential or
// an unknown model is between gateway and upstream.
func msgErrorType(status int) string {
	switch status {
	case 400, 422:
		return "invalid_request_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 503, 529:
		return "overloaded_error"
	case 408, 504:
		return "timeout_error"
	}
	return "api_error"
}
