package translate

import (
	"errors"
	"strconv"
)

// Error is what cannot be translated: the client gets a 400 that says so.
// Param names the field at fault as OpenAI does ("messages[2].content[0].type"),
// "" if it is the body as a whole. Functions return it as *Error.
type Error struct {
	Param, Message string
}

// Error returns the message that the client sees.
func (e *Error) Error() string { return e.Message }

// ErrAnswer is wrapped by every error about what an upstream has sent: it is
// nothing that the client could put right.
var ErrAnswer = errors.New("the upstream's answer is not what its protocol says")

// Options are the defaults of a deployment.
type Options struct {
	// MaxTokens is the cap on the answer, in tokens, that is sent where the
	// client names none and the protocol demands one. 0 or less stands for 4096.
	MaxTokens int64
}

const defaultMaxTokens = 4096

// refusedOurs is what clients are told instead of words about a credential that
// is not theirs.
const refusedOurs = "The upstream refused the gateway's own credentials or account; tell the gateway's operator."

// fail returns an *Error.
func fail(param, message string) error { return &Error{Param: param, Message: message} }

// within says that the field which err names is a part of outer.
func within(err error, outer string) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Param == "":
		return fail(outer, e.Message)
	case e.Param[0] == '[':
		return fail(outer+e.Param, e.Message)
	}
	return fail(outer+"."+e.Param, e.Message)
}

// item says that the field which err names is a part of element i of the array outer.
func item(err error, outer string, i int) error {
	return within(err, outer+"["+strconv.Itoa(i)+"]")
}
