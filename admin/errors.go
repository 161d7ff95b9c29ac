package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"sluice/fsm"
)

// Error is a refusal as clients see it: the status, and what OpenAI's envelope
// says. Handlers return it, Options.Authenticate may, and Client returns it for
// every response that is not a success.
type Error struct {
	Status  int    // HTTP status, 400 to 599
	Type    string // error.type; "" = the usual one of the status
	Param   string // error.param; "" = null
	Message string // never holds a secret
	// RetryAfter is sent as whole seconds if it is above 0.
	RetryAfter time.Duration
	// Allow lists the methods of a 405.
	Allow string
	// Detail is the body's second form, for clients that read FastAPI's
	// `detail`; nil = none, but team routes always have one.
	Detail any
}

// Error returns the message with its status.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Status) }

// Failure says which of the store's failures an error is. The store's replicator
// belongs to a package that admin does not know, so Options.Classify tells.
type Failure int

// The failures that have an answer of their own.
const (
	FailureOther          Failure = iota
	FailureNoLeader               // nothing was written
	FailureOutcomeUnknown         // the write may or may not have happened
	FailureTooLarge               // the command is larger than the log takes
	FailureNotMember              // the node named is not in the cluster
	FailureLastVoter              // the cluster would be left without a voter
	FailureNotVoter               // no voter that could lead instead
	FailureOldMember              // a member may run a version that cannot read this
	FailureNotTransferred         // the leader goes on leading
	FailureNoMajority             // the voters that answer would be no majority of those left
)

func badRequest(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

func notFound(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusNotFound, Param: param, Message: fmt.Sprintf(format, args...)}
}

// explain turns whatever a handler returned into an Error.
func (a *Admin) explain(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	var invalid *fsm.InvalidError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &invalid):
		return badRequest(invalid.Field, "%s", invalid.Error())
	case errors.As(err, &tooLarge):
		return &Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("Request body is larger than %d bytes.", tooLarge.Limit)}
	case errors.Is(err, fsm.ErrAliasTaken):
		return &Error{Status: http.StatusConflict, Param: "key_alias", Message: "Key with this alias already exists. Key aliases are unique; choose another or update that key."}
	case errors.Is(err, fsm.ErrExists):
		return &Error{Status: http.StatusConflict, Message: "It already exists."}
	case errors.Is(err, fsm.ErrNotFound):
		return notFound("", "Not found.")
	case errors.Is(err, fsm.ErrStopped), errors.Is(err, fsm.ErrClosed):
		return &Error{Status: http.StatusServiceUnavailable, Message: "This node has stopped; ask another one."}
	}
	if e := explainRestore(err); e != nil {
		return e
	}
	return a.explainFailure(err)
}

func (a *Admin) explainFailure(err error) *Error {
	switch a.o.Classify(err) {
	case FailureNoLeader:
		return &Error{Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
			Message: "The cluster has no leader at the moment, so nothing was changed. Try again shortly; `sluice admin cluster status` shows which nodes are reachable."}
	case FailureOutcomeUnknown:
		return &Error{Status: http.StatusServiceUnavailable, Type: "outcome_unknown", RetryAfter: time.Second,
			Message: "outcome unknown: the leader was lost while this was being written, so it may or may not have happened. Send the same request with the same Idempotency-Key again; it will not be done twice."}
	case FailureTooLarge:
		return &Error{Status: http.StatusRequestEntityTooLarge, Message: "The record is larger than one log entry may be."}
	case FailureNotMember:
		return notFound("node", "No such node in the cluster; `sluice admin cluster status` lists its members.")
	case FailureLastVoter:
		return &Error{Status: http.StatusConflict, Param: "node", Message: "That would leave the cluster without a voting node."}
	case FailureOldMember:
		return &Error{Status: http.StatusConflict, Message: "Every node must be reachable and know this kind of write, so nothing was changed. `sluice admin cluster status` shows who is missing or older: start, update or remove that node, then repeat."}
	case FailureNoMajority:
		return &Error{Status: http.StatusConflict, Param: "node", Message: "Refused, nothing was changed: the voters that answer would be no majority of those that are left. Start the ones that do not answer, or remove those first; `sluice admin cluster status` shows them. If they are lost for good: `sluice recover --help`."}
	case FailureNotTransferred:
		return &Error{Status: http.StatusServiceUnavailable, Param: "node", RetryAfter: time.Second,
			Message: "Leadership was not handed over, the leader goes on: the other node does not answer or has not caught up. `sluice admin cluster status` shows both."}
	case FailureNotVoter:
		return &Error{Status: http.StatusConflict, Param: "node", Message: "Leadership can only go to another node with a vote; `sluice admin cluster status` shows which have one."}
	}
	return nil
}

func usualType(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "auth_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusConflict:
		return "conflict_error"
	case http.StatusUnprocessableEntity:
		return "validation_error"
	}
	if status >= 500 {
		return "internal_server_error"
	}
	return "bad_request_error"
}

type envelope struct {
	Error  *envelopeError `json:"error"`
	Detail any            `json:"detail,omitempty"`
}

type envelopeError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// write sends the refusal. Team routes of LiteLLM answer with `detail`, and its
// own command line reads that, so they carry both forms.
func (e *Error) write(w http.ResponseWriter, withDetail bool) {
	body := envelope{Detail: e.Detail, Error: &envelopeError{Message: e.Message, Type: e.Type, Code: strconv.Itoa(e.Status)}}
	if e.Type == "" {
		body.Error.Type = usualType(e.Status)
	}
	if e.Param != "" {
		body.Error.Param = &e.Param
	}
	if withDetail && body.Detail == nil {
		body.Detail = map[string]string{"error": e.Message}
	}
	if e.RetryAfter > 0 {
		seconds := int64((e.RetryAfter + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if e.Allow != "" {
		w.Header().Set("Allow", e.Allow)
	}
	writeJSON(w, e.Status, body)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"message":"The answer could not be written.","type":"internal_server_error","param":null,"code":"500"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a client that has gone needs no answer
}
