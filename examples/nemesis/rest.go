package main

import (
	"maps"
	"slices"
)

// checkPresent: what was acknowledged is on every node.
func checkPresent(f *Facts) []Violation {
	var found []Violation
	for _, node := range slices.Sorted(maps.Keys(f.Present)) {
		for _, key := range slices.Sorted(maps.Keys(f.Present[node])) {
			if wrong := f.Present[node][key]; wrong != "" {
				found = append(found, violated("acknowledged writes are on every node", "%s on %s: %s", key, node, wrong))
			}
		}
	}
	for _, register := range slices.Sorted(maps.Keys(f.Registers)) {
		shown := f.Registers[register]
		values := slices.Compact(slices.Sorted(maps.Values(shown)))
		if len(values) > 1 {
			found = append(found, violated("acknowledged writes are on every node", "register %s is shown as %v", register, shown))
		}
	}
	return found
}

// checkDigests: all nodes are in the same state.
func checkDigests(f *Facts) []Violation {
	for _, d := range f.Digests {
		if first := f.Digests[0]; d.Index != first.Index || d.SHA256 != first.SHA256 {
			return []Violation{violated("all nodes have the same state", "%+v", f.Digests)}
		}
	}
	return nil
}

// checkSlots: when all is quiet, nothing is in flight.
func checkSlots(f *Facts) []Violation {
	var found []Violation
	s := f.Slots
	if int64(len(s.Statuses)) != s.Limit || slices.ContainsFunc(s.Statuses, func(status int) bool { return status != 200 }) {
		found = append(found, violated("no slot is lost", "of %d slots, requests at once were answered %v", s.Limit, s.Statuses))
	} else if s.Limit > 0 && s.Extra != 429 {
		found = append(found, violated("no slot is given twice", "with %d slots taken, another request was answered %d", s.Limit, s.Extra))
	}
	for _, node := range slices.Sorted(maps.Keys(s.Inflight)) {
		if n := s.Inflight[node]; n != 0 {
			found = append(found, violated("no receipt is left", "%s says sluice_inflight %v", node, n))
		}
	}
	return found
}
