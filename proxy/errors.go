package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

// ErrShutdown is the cause with which a server cancels its base context when
// it can wait no longer: running streams then end with an error event of their
// own, as the client is still there to read it.
var ErrShutdown = errors.New("the gateway is shutting down")

// Error is an answer of the gateway's own that is not a success. It holds no
// secret: credentials appear only as "sk-...abcd".
type Error struct {
	Status    int
	Type      string // error.type of the envelope
	Param     string // error.param; "" is null
	Message   string
	LimitedBy string // x-sluice-limited-by; "" for none
	Allow     string // Allow, with a 405
	Accept    string // Accept-Encoding, with a 415

	RetryAfter int64 // Retry-After in seconds; 0 for none

	cause error // for the log; may name hosts, never credentials
}

// Error returns the message that the client sees.
func (e *Error) Error() string { return e.Message }

// Unwrap returns what led to the answer, nil if nothing else did.
func (e *Error) Unwrap() error { return e.cause }

// The error types that are not named at their only use.
const (
	typeInvalid     = "invalid_request_error"
	typeAuth        = "auth_error"
	typeUnavailable = "internal_server_error"
	typeTimeout     = "timeout_error"
	typeThrottled   = "throttling_error"
)

// badRequest is a 400 that names the field at fault; param "" names none.
func badRequest(param, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Type: typeInvalid, Param: param, Message: message}
}

// envelope is the error object of OpenAI's wire format. Code is the status as
// a string because OpenAI's clients read it as one.
type envelope struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	} `json:"error"`
}

// encode returns the envelope of e, without a line break at its end.
func (e *Error) encode() []byte {
	var env envelope
	env.Error.Message, env.Error.Type = e.Message, e.Type
	env.Error.Code = strconv.Itoa(e.Status)
	if e.Param != "" {
		env.Error.Param = &e.Param
	}
	return encodeJSON(&env)
}

// encodeJSON encodes what consists of strings and pointers to them, which
// cannot fail, without a line break at its end.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n")
}

// write sends e as the whole response, in the protocol that the client speaks.
// callID is what Anthropic's clients show as the request's id.
func (e *Error) write(w http.ResponseWriter, p protocol, callID string) {
	h := w.Header()
	if e.LimitedBy != "" {
		h["X-Sluice-Limited-By"] = []string{e.LimitedBy}
	}
	if e.Allow != "" {
		h["Allow"] = []string{e.Allow}
	}
	if e.RetryAfter > 0 {
		h["Retry-After"] = []string{strconv.FormatInt(e.RetryAfter, 10)}
	}
	if e.Accept != "" {
		h["Accept-Encoding"] = []string{e.Accept}
	}
	if p == anthropicProtocol {
		h["Request-Id"] = []string{callID}
	}
	writeJSON(w, e.Status, e.encodeAs(p, callID))
}

var jsonType = []string{"application/json"}

// writeJSON sends body as the whole response.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	// An error here means that the client is gone; there is nobody to tell.
	_, _ = w.Write(body)
}
