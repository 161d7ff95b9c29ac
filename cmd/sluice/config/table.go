package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/limiter"
)

// reader is what all tables of one document share.
type reader struct {
	file   string
	lines  lines
	lookup Lookup
	// unresolved: secrets stay references, because their variables are set
	// elsewhere.
	unresolved bool
	problems   Problems
}

func (r *reader) problem(path, problem, remedy string) {
	r.problems = append(r.problems, Problem{File: r.file, Line: r.lines.of(path), Key: path, Problem: problem, Remedy: remedy})
}

// table reads one TOML table key by key. Every read method returns the
// default, and notes a problem, where the value is not what it should be.
type table struct {
	*reader
	path  string
	vals  map[string]any
	known []string // keys asked for
}

func newTable(r *reader, path string, vals map[string]any) *table {
	return &table{reader: r, path: path, vals: vals}
}

// at returns the path of a key.
func (t *table) at(key string) string { return join(t.path, key) }

// get returns a key's raw value and remembers that the key has a meaning.
func (t *table) get(key string) (any, bool) {
	t.known = append(t.known, key)
	v, ok := t.vals[key]
	return v, ok
}

func (t *table) has(key string) bool { _, ok := t.vals[key]; return ok }

// close notes every key that nobody asked for.
func (t *table) close() {
	for _, key := range sortedKeys(t.vals) {
		if slices.Contains(t.known, key) {
			continue
		}
		switch near := nearest(key, t.known); {
		case later[indexes.ReplaceAllString(t.at(key), "[]")]:
			t.problem(t.at(key), "is not supported by this version yet", "remove it")
		case near != "":
			t.problem(t.at(key), "unknown key", fmt.Sprintf("did you mean %s?", near))
		default:
			t.problem(t.at(key), "unknown key", "remove it or correct its name")
		}
	}
}

func (t *table) wrongType(key string, v any, want, example string) {
	t.problem(t.at(key), fmt.Sprintf("is %s, not %s", kind(v), want), fmt.Sprintf("write %s = %s", lastKey(key), example))
}

// text reads a string. A whole value os.environ/NAME is replaced by the variable.
func (t *table) text(key, def, example string) string {
	v, ok := t.get(key)
	if !ok {
		return def
	}
	s, ok := v.(string)
	if !ok {
		t.wrongType(key, v, "text", example)
		return def
	}
	if name, ok := reference(s); ok {
		value, ok := t.variable(key, name)
		if !ok {
			return def
		}
		return value
	}
	if strings.TrimSpace(s) == "" {
		t.problem(t.at(key), "is empty", fmt.Sprintf("write %s = %s, or leave the key out", key, example))
		return def
	}
	return s
}

// secret reads a secret, which must be a reference to a variable that is set.
func (t *table) secret(key, example string) Secret {
	ref := t.reference(key, example)
	name, ok := reference(ref)
	if !ok || t.unresolved {
		return Secret{ref: ref}
	}
	value, ok := t.variable(key, name)
	if !ok {
		return Secret{}
	}
	return Secret{ref: ref, value: value}
}

// reference reads os.environ/NAME without looking the variable up. Anything
// else is refused and not repeated: it may be the secret itself.
func (t *table) reference(key, example string) string {
	v, ok := t.get(key)
	if !ok {
		return ""
	}
	s, _ := v.(string)
	if _, ok := reference(s); !ok {
		t.problem(t.at(key), "holds something other than a reference; secrets do not belong in this file",
			fmt.Sprintf("put it in an environment variable and write %s = %q", key, example))
		return ""
	}
	return s
}

// variable looks an environment variable up for a key.
func (t *table) variable(key, name string) (string, bool) {
	value, ok := t.lookup(name)
	if fault := secretFault(value, ok); fault != "" {
		t.problem(t.at(key), fmt.Sprintf("environment variable %s %s", name, fault), fmt.Sprintf("set %s before starting", name))
		return "", false
	}
	return value, true
}

// choice reads one of some words.
func (t *table) choice(key, def string, words ...string) string {
	v, ok := t.get(key)
	if !ok {
		return def
	}
	s, ok := v.(string)
	if !ok {
		t.wrongType(key, v, "text", fmt.Sprintf("%q", words[0]))
		return def
	}
	if later[indexes.ReplaceAllString(t.at(key), "[]")+"="+s] {
		t.problem(t.at(key), fmt.Sprintf("%q is not supported by this version yet", s), "remove it or use "+strings.Join(words, " | "))
		return def
	}
	if !slices.Contains(words, s) {
		t.problem(t.at(key), fmt.Sprintf("unknown value %q", s), "use "+strings.Join(words, " | "))
		return def
	}
	return s
}

// duration reads text such as "30s" from lo up.
func (t *table) duration(key string, def, lo time.Duration) time.Duration {
	v, ok := t.get(key)
	if !ok {
		return def
	}
	example := fmt.Sprintf("%q", shortDuration(def))
	if n, err := strconv.ParseFloat(fmt.Sprint(v), 64); err == nil && n >= 0 { // the unit is what is missing
		example = fmt.Sprintf("\"%vs\"", v)
	}
	s, ok := v.(string)
	if !ok {
		t.wrongType(key, v, "a duration in quotes", example)
		return def
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		t.problem(t.at(key), fmt.Sprintf("%q is not a duration", s), fmt.Sprintf("write %s = %s", key, example))
	case d < 0:
		t.problem(t.at(key), fmt.Sprintf("%s is negative", s), fmt.Sprintf("write %s = %s", key, example))
	case d < lo:
		t.problem(t.at(key), fmt.Sprintf("%s is too short", s), fmt.Sprintf("use at least %s", shortDuration(lo)))
	default:
		return d
	}
	return def
}

// size reads bytes: a whole number, or text such as "20MiB".
func (t *table) size(key string, def int64) int64 {
	v, ok := t.get(key)
	if !ok {
		return def
	}
	n, ok := v.(int64)
	if s, isText := v.(string); isText {
		n, ok = parseSize(s)
	}
	if !ok || n <= 0 {
		t.problem(t.at(key), fmt.Sprintf("%v is not a size", v), fmt.Sprintf("write %s = %q", key, formatSize(def)))
		return def
	}
	return n
}

// whole reads a whole number from lo to hi; 60, 60.0 and 6e1 are the same.
func (t *table) whole(key string, def, lo, hi int64) int64 {
	v, ok := t.get(key)
	if !ok {
		return def
	}
	n, ok := t.wholeOf(key, v)
	if !ok {
		return def
	}
	if n < lo || n > hi {
		t.outOfRange(key, v, n < 0, fmt.Sprintf("use a whole number from %d to %d", lo, hi))
		return def
	}
	return n
}

func (t *table) wholeOf(key string, v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case float64:
		if n == math.Trunc(n) && math.Abs(n) <= 1<<53 {
			return int64(n), true
		}
		t.problem(t.at(key), fmt.Sprintf("%v is not a whole number", n), "use digits only, such as 60")
	default:
		example := "60"
		if s, ok := v.(string); ok {
			if meant, err := strconv.ParseUint(s, 10, 53); err == nil {
				example = fmt.Sprint(meant) // only the quotes are too much
			}
		}
		t.wrongType(key, v, "a whole number", example)
	}
	return 0, false
}

// limit reads a limit: absent = none, 0 = blocked.
func (t *table) limit(key string) limiter.Limit {
	v, ok := t.get(key)
	if !ok {
		return limiter.Limit{}
	}
	n, ok := t.wholeOf(key, v)
	if ok && n < 0 {
		t.outOfRange(key, v, true, "use 0 to block, or leave it out for no limit")
		ok = false
	}
	if !ok {
		return limiter.Limit{}
	}
	return limiter.Of(n)
}

// number reads a number from lo to hi.
func (t *table) number(key string, def, lo, hi float64) float64 {
	v, ok := t.get(key)
	if !ok {
		return def
	}
	f, ok := v.(float64)
	if n, isWhole := v.(int64); isWhole {
		f, ok = float64(n), true
	}
	if !ok {
		t.wrongType(key, v, "a number", fmt.Sprint(def))
		return def
	}
	if !(f >= lo && f <= hi) || math.IsInf(f, 0) { // NaN is in no range
		remedy := fmt.Sprintf("use a number from %v to %s", lo, strconv.FormatFloat(hi, 'f', -1, 64))
		if math.IsInf(hi, 1) {
			remedy = fmt.Sprintf("use a number from %v up", lo)
		}
		t.outOfRange(key, v, f < 0, remedy)
		return def
	}
	return f
}

func (t *table) outOfRange(key string, v any, negative bool, remedy string) {
	problem := fmt.Sprintf("%v is out of range", v)
	if f, ok := v.(float64); ok && math.IsNaN(f) {
		problem = "NaN is not a number"
	} else if negative {
		problem = fmt.Sprintf("%v is negative", v)
	}
	t.problem(t.at(key), problem, remedy)
}

// boolean reads true or false.
func (t *table) boolean(key string, def bool) bool {
	v, ok := t.get(key)
	if !ok {
		return def
	}
	b, ok := v.(bool)
	if !ok {
		example := fmt.Sprint(def)
		if v == "true" || v == "false" {
			example = fmt.Sprint(v)
		}
		t.wrongType(key, v, "true or false", example)
		return def
	}
	return b
}

// texts reads a list of strings.
func (t *table) texts(key, example string) []string {
	v, ok := t.get(key)
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		t.wrongType(key, v, "a list", "["+example+"]")
		return nil
	}
	var out []string
	for i := range list {
		s, ok := list[i].(string)
		switch {
		case !ok:
			t.problem(index(t.at(key), i), fmt.Sprintf("is %s, not text", kind(list[i])), "write "+example)
			continue
		case strings.TrimSpace(s) == "":
			t.problem(index(t.at(key), i), "is empty", "write "+example+", or leave it out")
			continue
		}
		out = append(out, s)
	}
	return out
}

// table reads a table; an absent one is empty.
func (t *table) table(key string) *table {
	v, ok := t.get(key)
	m, isTable := v.(map[string]any)
	if ok && !isTable {
		t.problem(t.at(key), fmt.Sprintf("is %s, not a table", kind(v)), fmt.Sprintf("write [%s]", t.at(key)))
	}
	return newTable(t.reader, t.at(key), m)
}

// tables reads an array of tables, in either spelling.
func (t *table) tables(key string) []*table {
	v, ok := t.get(key)
	if !ok {
		return nil
	}
	var out []*table
	switch v := v.(type) {
	case []map[string]any:
		for i, m := range v {
			out = append(out, newTable(t.reader, index(t.at(key), i), m))
		}
	case []any:
		for i, e := range v {
			m, ok := e.(map[string]any)
			if !ok {
				t.problem(index(t.at(key), i), fmt.Sprintf("is %s, not a table", kind(e)), fmt.Sprintf("write [[%s]]", t.at(key)))
				continue
			}
			out = append(out, newTable(t.reader, index(t.at(key), i), m))
		}
	default:
		t.problem(t.at(key), fmt.Sprintf("is %s, not a list of tables", kind(v)), fmt.Sprintf("write [[%s]] with double brackets", t.at(key)))
	}
	return out
}

// kind names a TOML value's type for people.
func kind(v any) string {
	switch v.(type) {
	case string:
		return "text"
	case int64:
		return "a whole number"
	case float64:
		return "a fractional number"
	case bool:
		return "true or false"
	case time.Time:
		return "a date"
	case map[string]any:
		return "a table"
	case []any:
		return "a list"
	case []map[string]any:
		return "a list of tables"
	}
	return "something else"
}
