package proxy

import (
	"errors"
	"net/http"
)

// anthropicError is the error object of Anthropic's wire format.
type anthropicError struct {
	Type  string `json:"type"` // always "error"
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	RequestID string `json:"request_id,omitempty"`
}

// EncodeError returns the body that answers r with err, in the wire format that
// the client speaks: as err says if it is an *Error, else it tells nothing.
// callID is shown where the format has a place for it.
func EncodeError(r *http.Request, err error, callID string) []byte {
	var e endpoint
	if path, err := CleanPath(r); err == nil {
		e, _ = match(path)
	}
	return asError(err).encodeAs(spoken(e, r.Header), callID)
}

// WriteError answers r with err as EncodeError says it.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	var at endpoint
	if path, err := CleanPath(r); err == nil {
		at, _ = match(path)
	}
	asError(err).write(w, spoken(at, r.Header), "")
}

// encodeAs returns the envelope of e in a protocol, without a line break.
func (e *Error) encodeAs(p protocol, callID string) []byte {
	if p != anthropicProtocol {
		return e.encode()
	}
	env := anthropicError{Type: "error", RequestID: callID}
	env.Error.Type, env.Error.Message = anthropicType(e.Status), e.Message
	return encodeJSON(&env)
}

// event returns e as an event of a stream.
func (e *Error) event(p protocol, callID string) []byte {
	head := "data: "
	if p == anthropicProtocol {
		head = "event: error\ndata: "
	}
	return append(append([]byte(head), e.encodeAs(p, callID)...), "\n\n"...)
}

// anthropicType returns the error type that Anthropic's clients know for a
// status. An upstream that fails is not the caller's fault: api_error.
func anthropicType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return "timeout_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// protocol returns whose wire format the client speaks.
func (x *exchange) protocol() protocol { return spoken(x.endpoint, x.r.Header) }

func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Status: http.StatusInternalServerError, Type: typeUnavailable, Message: "Internal error.", cause: err}
}
