package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Op is one management request about a register: a key whose metadata holds a
// number. Reads are those that the node confirmed with the leader; a read with
// the header x-sluice-stale promises nothing and is not here.
type Op struct {
	Register string
	Client   int
	Kind     string // create, update, delete, read
	Value    int64  // written, or read; 0 for absent
	// Outcome is "ok", "refused" (it exists already, or does not exist), "failed"
	// (the answer says that nothing was done), or "unknown": it may have
	// happened, or may happen later.
	Outcome, Why string
	Call, End    time.Duration
	Node         string
}

func (o Op) String() string {
	return fmt.Sprintf("%9.4fs – %9.4fs %s client %d: %s %s %d: %s %s", o.Call.Seconds(), o.End.Seconds(), o.Node, o.Client, o.Kind, o.Register, o.Value, o.Outcome, o.Why)
}

// register is the model: the value, 0 for a key that does not exist.
var register = porcupine.NondeterministicModel{
	Init: func() []any { return []any{int64(0)} },
	Step: func(state, input, _ any) []any {
		have, o := state.(int64), input.(Op)
		if o.Outcome == "unknown" {
			return append(after(have, o), have)
		}
		if o.Kind == "read" {
			if have == o.Value {
				return []any{have}
			}
			return nil
		}
		next := after(have, o)
		switch {
		case o.Outcome == "ok":
			return next
		case next == nil: // it was refused, and rightly so
			return []any{have}
		}
		return nil
	},
	Equal: func(a, b any) bool { return a == b },
}

// after returns the state after a write that is done, none if it must be refused.
func after(have int64, o Op) []any {
	exists := have != 0
	switch {
	case o.Kind == "create" && !exists, o.Kind == "update" && exists:
		return []any{o.Value}
	case o.Kind == "delete" && exists:
		return []any{int64(0)}
	}
	return nil
}

// linearizeTime bounds the search for one register.
const linearizeTime = 20 * time.Second

// checkRegisters: the history of every register is linearizable.
func checkRegisters(f *Facts) []Violation {
	by := map[string][]Op{}
	for _, o := range f.History {
		by[o.Register] = append(by[o.Register], o)
	}
	model := register.ToModel()
	var found []Violation
	for _, name := range slices.Sorted(maps.Keys(by)) {
		var ops []porcupine.Operation
		for i, o := range by[name] {
			if o.Outcome == "failed" {
				continue // it must not show
			}
			end := int64(o.End)
			client := o.Client
			if o.Outcome == "unknown" { // open-ended, so its client goes on under another name
				end, client = math.MaxInt64, 1000+i
			}
			ops = append(ops, porcupine.Operation{ClientId: client, Input: o, Call: int64(o.Call), Return: end})
		}
		switch porcupine.CheckOperationsTimeout(model, ops, linearizeTime) {
		case porcupine.Illegal:
			found = append(found, violated("metadata is linearizable", "register %s:\n%s", name, listed(by[name])))
		case porcupine.Unknown:
			found = append(found, violated("metadata is linearizable", "register %s: not decided within %s, %d operations", name, linearizeTime, len(ops)))
		}
	}
	return found
}

func listed(ops []Op) string {
	slices.SortFunc(ops, func(a, b Op) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&b, "    %s\n", o)
	}
	return b.String()
}
