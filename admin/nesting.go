package admin

import (
	"bytes"
	"encoding/json"
)

// maxNesting bounds how deep a body's values lie in each other. What is kept is
// wrapped on its way into the log and snapshots, and a decoder refuses what is
// too deep: better here, by name, than there.
const maxNesting = 100

// nesting walks through JSON that is known to be valid and remembers, for every
// object around the cursor, which members it has seen.
type nesting struct{ around []*enclosing }

// enclosing is one object or array that has not ended yet.
type enclosing struct {
	names map[string]bool // nil for an array
	named bool            // a name was read, its value comes next
}

// checkNesting refuses a value that lies deeper than maxNesting or has an
// object, at any depth, with a member that comes twice. name is the member of
// the body that the value belongs to.
func checkNesting(name string, raw json.RawMessage) error {
	var n nesting
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	for {
		t, err := dec.Token()
		if err != nil {
			return nil // the end
		}
		if twice := n.take(t); twice != "" {
			return badRequest(name, "%s holds %s twice.", clip(name), clip(twice))
		}
		if len(n.around) > maxNesting {
			return badRequest(name, "%s is nested deeper than %d levels.", clip(name), maxNesting)
		}
	}
}

// take moves on by one token and returns the name that comes twice, "" if none does.
func (n *nesting) take(t json.Token) string {
	if t == json.Delim('}') || t == json.Delim(']') {
		n.around = n.around[:len(n.around)-1]
		return ""
	}
	if len(n.around) > 0 {
		in := n.around[len(n.around)-1]
		in.named = !in.named && in.names != nil
		if in.named {
			member, _ := t.(string)
			if in.names[member] {
				return member
			}
			in.names[member] = true
			return ""
		}
	}
	switch t {
	case json.Delim('{'):
		n.around = append(n.around, &enclosing{names: make(map[string]bool)})
	case json.Delim('['):
		n.around = append(n.around, &enclosing{})
	}
	return ""
}
