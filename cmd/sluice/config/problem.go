package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one fault of a configuration.
type Problem struct {
	File    string // "" if it lies in no file
	Line    int    // from 1; 0 if unknown, as for a key that is missing
	Key     string // in TOML's terms, such as models[1].rpm
	Problem string
	Remedy  string
}

// String returns "file:line: key: problem; remedy" without the parts that are unknown.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Problem)
	if p.Remedy != "" {
		b.WriteString("; " + p.Remedy)
	}
	return b.String()
}

// Problems are all faults of a configuration, an error when there is at least one.
type Problems []Problem

// Error returns one line per problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Err returns ps in the order of the file as an error, nil if there are none.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	return slices.Clone(ps).sort()
}

// sort orders problems as the file is read and drops those that say something
// about a place that another one has said something about already.
func (ps Problems) sort() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	type place struct {
		line int
		key  string
	}
	seen := make(map[place]bool, len(ps))
	out := ps[:0]
	for _, p := range ps {
		at := place{p.Line, p.Key}
		if p.Line > 0 && p.Key != "" && seen[at] {
			continue
		}
		seen[at] = true
		out = append(out, p)
	}
	return out
}
