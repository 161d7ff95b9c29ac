package proxy

import (
	"encoding/json"
	"strconv"

	"sluice/fsm"
)

// routing is what a body says to the gateway and not to the upstream.
type routing struct {
	own       bool     // the body has such a field
	fallbacks []string // nil: the configuration's
	retries   int64    // num_retries; -1: the configuration's
}

// takeFallbacks reads the names of the models that may stand in.
func (r *routing) takeFallbacks(raw []byte) error {
	r.own = true
	if raw[0] == 'n' {
		return nil
	}
	names := []string{}
	if err := json.Unmarshal(raw, &names); err != nil {
		return badRequest("fallbacks", `"fallbacks" must be a list of model names.`)
	}
	if len(names) > fsm.MaxFallbacks {
		return badRequest("fallbacks", `"fallbacks" may name `+strconv.Itoa(fsm.MaxFallbacks)+" models at most.")
	}
	r.fallbacks = names
	return nil
}

// isOwn reports whether a field is one of routing.
func isOwn(key []byte) bool { return string(key) == "fallbacks" || string(key) == "num_retries" }

// withoutOwn appends a valid object to dst without the fields that are the
// gateway's own. Every other byte stays as it is, but for the comma of a member
// that has become the first one.
func withoutOwn(dst, data []byte) []byte {
	m := newMembers(data)
	at, first := m.open+1, true // after what was dealt with
	dst = append(dst, data[:at]...)
	for m.next() {
		if !isOwn(m.key) {
			if first && m.comma >= 0 {
				at = m.comma + 1
			}
			first = false
			dst = append(dst, data[at:m.end]...)
		}
		at = m.end
	}
	return append(dst, data[at:]...)
}
