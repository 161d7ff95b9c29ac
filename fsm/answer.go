package fsm

import (
	"encoding/json"
	"errors"
	"fmt"

	"sluice/limiter"
)

// An answer is one byte that says what follows, and the result itself. It
// travels from the node that applied the entry to the one that asked.
const (
	answerResult = 0 // JSON, or a batch's binary answer
	answerFailed = 1 // JSON of failure
)

// failure is an error as it travels.
type failure struct {
	Code     string        `json:"code"`
	Field    string        `json:"field,omitempty"`
	Msg      string        `json:"message,omitempty"`
	Problems []ConfigError `json:"problems,omitempty"`
}

// codes names the errors that the other side must be able to match.
var codes = []struct {
	code string
	err  error
}{
	{"not_found", ErrNotFound},
	{"exists", ErrExists},
	{"alias_taken", ErrAliasTaken},
	{"stopped", ErrStopped},
	{"closed", ErrClosed},
	{"replayed", errReplayed},
	{"old_epoch", limiter.ErrOldEpoch},
	{"old_batch", limiter.ErrOldBatch},
	{"skipped", errSkipped},
	{"not_fresh", ErrNotFresh},
	{"restoring", ErrRestoring},
	{"restore_lost", ErrRestoreLost},
}

// errSkipped answers an ignorable command of an unknown type.
var errSkipped = errors.New("command of an unknown type was skipped")

func resultAnswer(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return failedAnswer(fmt.Errorf("encode answer: %w", err))
	}
	return append([]byte{answerResult}, b...)
}

func failedAnswer(err error) []byte {
	f := failure{Code: "other", Msg: err.Error()}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			f = failure{Code: c.code}
			break
		}
	}
	var bad *InvalidError
	var badConfig *InvalidConfigError
	switch {
	case errors.As(err, &bad):
		f = failure{Code: "invalid", Field: bad.Field, Msg: bad.Msg}
	case errors.As(err, &badConfig):
		f = failure{Code: "invalid_config", Problems: badConfig.Problems}
	}
	b, err := json.Marshal(f)
	if err != nil {
		b = []byte(`{"code":"other"}`)
	}
	return append([]byte{answerFailed}, b...)
}

// decodeAnswer returns the result, or the error that the state machine answered.
func decodeAnswer(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, errors.New("state machine answered nothing")
	}
	if b[0] == answerResult {
		return b[1:], nil
	}
	if b[0] != answerFailed {
		return nil, fmt.Errorf("answer of an unknown kind %d", b[0])
	}
	var f failure
	if err := json.Unmarshal(b[1:], &f); err != nil {
		return nil, fmt.Errorf("decode failure: %w", err)
	}
	switch f.Code {
	case "invalid":
		return nil, &InvalidError{Field: f.Field, Msg: f.Msg}
	case "invalid_config":
		return nil, &InvalidConfigError{Problems: f.Problems}
	}
	for _, c := range codes {
		if c.code == f.Code {
			return nil, c.err
		}
	}
	return nil, fmt.Errorf("state machine refused: %s", f.Msg)
}
