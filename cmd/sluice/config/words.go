package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// indexes finds the array indexes in a path.
var indexes = regexp.MustCompile(`\[\d+\]`)

// placeholder is a reference of a shell, a compose file or this package, as the
// whole of a value: somebody's template was not filled in.
var placeholder = regexp.MustCompile(`^(\$\{.*\}|\$\(.*\)|\{\{.*\}\}|os\.environ/.*)$`)

// environ begins a value that is to be read from the environment.
const environ = "os.environ/"

// reference returns the variable that a value refers to.
func reference(s string) (name string, ok bool) {
	name, ok = strings.CutPrefix(s, environ)
	if !ok || name == "" {
		return "", false
	}
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return "", false
		}
	}
	return name, true
}

// Resolve returns what a reference os.environ/NAME stands for. The error names
// the variable, never its value.
func Resolve(ref string, lookup Lookup) (string, error) {
	name, ok := reference(ref)
	if !ok {
		return "", errors.New("the reference is not of the form os.environ/NAME")
	}
	value, ok := lookup(name)
	if fault := secretFault(value, ok); fault != "" {
		return "", fmt.Errorf("environment variable %s %s", name, fault)
	}
	return value, nil
}

// secretFault says why a variable cannot be used, "" if it can. What comes
// from a mistake in setting it must not become a credential.
func secretFault(value string, set bool) string {
	switch {
	case !set:
		return "is not set"
	case value == "":
		return "is empty"
	case strings.TrimSpace(value) == "":
		return "is blank"
	case strings.ContainsAny(value, "\r\n"):
		return "has more than one line"
	case strings.TrimSpace(value) != value:
		return "begins or ends with a blank"
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "holds a control character"
	case placeholder.MatchString(value):
		return "holds a reference that nothing has replaced"
	}
	return ""
}

// parseSize reads bytes with a decimal or binary unit.
func parseSize(s string) (int64, bool) {
	s = strings.TrimSpace(s)
	digits := strings.TrimRight(s, "BKMGikmgb ")
	unit, ok := units[strings.ToUpper(strings.TrimSpace(s[len(digits):]))]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !ok || n < 0 || n > (1<<62)/unit {
		return 0, false
	}
	return n * unit, true
}

var units = map[string]int64{
	"": 1, "B": 1,
	"KB": 1e3, "MB": 1e6, "GB": 1e9,
	"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30,
}

// formatSize writes bytes so that parseSize reads the same back.
func formatSize(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n > 0 && n%u.size == 0 {
			return fmt.Sprintf("%d%s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}

// shortDuration writes d without the zero parts of d.String(): 1m, not 1m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func lastKey(path string) string { return strings.TrimPrefix(path[len(parent(path)):], ".") }

// nearest returns the known name that key is most likely a slip of, "" if none is near.
func nearest(key string, known []string) string {
	best, name := 3, ""
	if len(key) > 64 {
		return ""
	}
	for _, k := range known {
		if d := distance(strings.ReplaceAll(strings.ToLower(key), "-", "_"), k); d < best && d < len(k) {
			best, name = d, k
		}
	}
	return name
}

// distance is Levenshtein's: how many letters must be put in, left out or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
