package translate

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// ChatError translates an Anthropic error body into OpenAI's envelope. Message
// and type stay what they are; code is the status as a string, or
// "context_length_exceeded" where the prompt does not fit, which clients look
// for. A body that is no error object is not shown. 529 becomes the 503 that
// OpenAI's clients know.
func ChatError(status int, body []byte) (int, []byte) {
	if status == 529 {
		status = 503
	}
	var kind, message []byte
	if json.Valid(body) {
		kind, message = readError(body)
	}
	if kind == nil {
		kind = []byte(`"api_error"`)
	}
	if message == nil {
		message = quote(nil, []byte("The upstream answered with status "+strconv.Itoa(status)+"."))
	}
	return status, appendError(nil, kind, message, status)
}

// readError returns type and message of the error that raw, an error body or
// an error event, holds; nil for what is not there.
func readError(raw []byte) (kind, message []byte) {
	for w := walk(raw); w.obj && w.next(); {
		if string(w.key) != "error" {
			continue
		}
		for e := walk(w.val); e.obj && e.next(); {
			switch {
			case !isString(e.val):
			case string(e.key) == "type":
				kind = e.val
			case string(e.key) == "message":
				message = e.val
			}
		}
	}
	return kind, message
}

func appendError(dst, kind, message []byte, status int) []byte {
	dst = append(append(dst, `{"error":{"message":`...), message...)
	dst = append(append(dst, `,"type":`...), kind...)
	dst = append(dst, `,"param":null,"code":"`...)
	if status == 400 && tooLong(message) {
		dst = append(dst, "context_length_exceeded"...)
	} else {
		dst = strconv.AppendInt(dst, int64(status), 10)
	}
	return append(dst, `"}}`...)
}

// tooLong tells by its words whether an error says that a prompt does not fit.
func tooLong(message []byte) bool {
	return bytes.Contains(message, []byte("prompt is too long")) || bytes.Contains(message, []byte("exceed context limit"))
}

// statusOf returns the status that an error of a stream would have come with.
func statusOf(kind []byte) int {
	switch string(inner(kind)) {
	case "invalid_request_error":
		return 400
	case "authentication_error":
		return 401
	case "permission_error":
		return 403
	case "not_found_error":
		return 404
	case "request_too_large":
		return 413
	case "rate_limit_error":
		return 429
	case "timeout_error":
		return 504
	case "overloaded_error":
		return 503
	}
	return 500
}
