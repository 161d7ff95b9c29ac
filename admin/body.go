package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// fields are the members of a body's one JSON object, undecoded. Names are
// exact: Key_Alias is not key_alias.
type fields map[string]json.RawMessage

// readBody reads a management body: one JSON object, each member once. An empty
// body stands for an empty object; what is missing is then named one by one.
func readBody(w http.ResponseWriter, r *http.Request, most int64) (fields, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Message: "Management bodies are sent without Content-Encoding."}
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, err
		}
		return nil, badRequest("", "The request body broke off.")
	}
	return parseObject(b)
}

// parseObject splits a JSON object into its members. A member that comes twice
// is refused: readers differ in which of the two they take.
func parseObject(b []byte) (fields, error) {
	f := make(fields)
	if len(bytes.TrimSpace(b)) == 0 {
		return f, nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, badRequest("", "The request body is not a JSON object.")
	}
	for dec.More() {
		t, err := dec.Token()
		name, isName := t.(string)
		if err != nil || !isName {
			return nil, badJSON(err)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, badJSON(err)
		}
		if _, twice := f[name]; twice {
			return nil, badRequest(clip(name), "%s is given twice.", clip(name))
		}
		if err := checkNesting(clip(name), raw); err != nil {
			return nil, err
		}
		f[name] = raw
	}
	if _, err := dec.Token(); err != nil {
		return nil, badJSON(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, badRequest("", "The request body holds more than one JSON object.")
	}
	return f, nil
}

func badJSON(err error) *Error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return badRequest("", "The request body is not valid JSON (at byte %d).", syntax.Offset)
	}
	return badRequest("", "The request body is not valid JSON.")
}

// isNull reports whether a member is absent or null.
func (f fields) isNull(name string) bool {
	raw, ok := f[name]
	return !ok || string(bytes.TrimSpace(raw)) == "null"
}

// text returns a string member, "" if it is absent or null.
func (f fields) text(name string) (string, error) {
	if f.isNull(name) {
		return "", nil
	}
	var s string
	if json.Unmarshal(f[name], &s) != nil {
		return "", wrongType("string_type", "Input should be a valid string", f[name], "body", name)
	}
	return s, nil
}

// required returns a string member that must be there.
func (f fields) required(name string) (string, error) {
	s, err := f.text(name)
	if err == nil && s == "" {
		return "", missing("body", name)
	}
	return s, err
}

// texts returns a list of strings, nil if it is absent or null.
func (f fields) texts(name string) ([]string, error) {
	if f.isNull(name) {
		return nil, nil
	}
	var list []string
	if json.Unmarshal(f[name], &list) != nil || list == nil || bytes.Contains(f[name], []byte("null")) && slices.Contains(list, "") {
		return nil, wrongType("list_type", "Input should be a valid list of strings", f[name], "body", name)
	}
	return list, nil
}

// validation is one entry of FastAPI's detail.
type validation struct {
	Type  string          `json:"type"`
	Loc   []string        `json:"loc"`
	Msg   string          `json:"msg"`
	Input json.RawMessage `json:"input"`
}

func missing(loc ...string) *Error {
	return unprocessable(validation{Type: "missing", Loc: loc, Msg: "Field required", Input: json.RawMessage("null")})
}

// wrongType refuses a value. It is quoted back only if it is a number or a
// boolean: a string may be a secret in the wrong place.
func wrongType(kind, msg string, input json.RawMessage, loc ...string) *Error {
	input = bytes.TrimSpace(input)
	if len(input) == 0 || len(input) > 40 || strings.ContainsAny(string(input[:1]), `"[{`) {
		input = json.RawMessage("null")
	}
	return unprocessable(validation{Type: kind, Loc: loc, Msg: msg, Input: input})
}

func unprocessable(v ...validation) *Error {
	parts := make([]string, len(v))
	for i, one := range v {
		parts[i] = fmt.Sprintf("%s: %s", strings.Join(one.Loc[1:], "."), one.Msg)
	}
	return &Error{Status: http.StatusUnprocessableEntity, Param: strings.Join(v[0].Loc[1:], "."), Message: strings.Join(parts, "; "), Detail: v}
}
