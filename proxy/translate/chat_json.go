package translate

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// The readers of this file look at JSON that json.Valid has accepted, which
// also bounds its nesting. They neither recurse nor copy: values are the bytes
// as they came, and are put together again as they are.

// walker moves through the members of an object or the elements of an array.
type walker struct {
	rest []byte
	key  []byte // of a member: what is between the quotes, escapes undone
	val  []byte
	obj  bool
}

// walk starts at raw, which must be an object or an array to have anything in it.
func walk(raw []byte) walker {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '{' && raw[0] != '[' {
		return walker{}
	}
	return walker{rest: raw[1 : len(raw)-1], obj: raw[0] == '{'}
}

// next moves on, and returns false behind the last.
func (w *walker) next() bool {
	w.rest = skipTo(w.rest, ',')
	if len(w.rest) == 0 {
		return false
	}
	if w.obj {
		n := valueEnd(w.rest)
		w.key = unquote(w.rest[:n])
		w.rest = skipTo(w.rest[n:], ':')
	}
	n := valueEnd(w.rest)
	w.val, w.rest = w.rest[:n], w.rest[n:]
	return n > 0
}

// skipTo returns b without the white space and marks that it begins with.
func skipTo(b []byte, mark byte) []byte {
	i := 0
	for i < len(b) && (b[i] == mark || b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return b[i:]
}

// valueEnd returns the length of the value that b begins with.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':', ' ', '\t', '\r', '\n':
			continue
		default: // a number, true, false or null
			for i+1 < len(b) && bytes.IndexByte(literalEnd, b[i+1]) < 0 {
				i++
			}
		}
		if depth <= 0 {
			return min(i+1, len(b))
		}
	}
	return len(b)
}

var literalEnd = []byte(",:]} \t\r\n")

// stringEnd returns the position of the quote that ends the string at i. Texts
// and pictures are long: it looks at what may end them, not at each byte.
func stringEnd(b []byte, i int) int {
	quote := i // the next one, escaped or not
	for i++; i < len(b); {
		if quote < i {
			n := bytes.IndexByte(b[i:], '"')
			if n < 0 {
				break
			}
			quote = i + n
		}
		n := bytes.IndexByte(b[i:quote], '\\')
		if n < 0 {
			return quote
		}
		i += n + 2
	}
	return len(b)
}

// bind says where the value of a member goes.
type bind struct {
	name string
	to   *[]byte
}

// read fills the binds from the object raw; null counts as absent. Names are
// compared exactly, others are passed over, and one that is there twice is an
// error: two readers could take it for two different things.
func read(raw []byte, binds ...bind) error {
	if !isObject(raw) {
		return fail("", "This must be an object.")
	}
	var seen uint64
	for w := walk(raw); w.next(); {
		for i := range binds {
			if string(w.key) != binds[i].name {
				continue
			}
			if seen&(1<<i) != 0 {
				return fail(binds[i].name, "This field is given twice.")
			}
			seen |= 1 << i
			if !isNull(w.val) {
				*binds[i].to = w.val
			}
			break
		}
	}
	return nil
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }
func isArray(raw []byte) bool  { return len(raw) > 0 && raw[0] == '[' }
func isString(raw []byte) bool { return len(raw) > 1 && raw[0] == '"' }
func isNull(raw []byte) bool   { return string(raw) == "null" }

// inner returns what is between the quotes of a string, escapes as they are;
// nil if raw is no string.
func inner(raw []byte) []byte {
	if !isString(raw) {
		return nil
	}
	return raw[1 : len(raw)-1]
}

// isBlank tells whether a string holds nothing but white space, which the
// Messages API takes in no text.
func isBlank(raw []byte) bool {
	b := inner(raw)
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+1 < len(b) {
			if i++; b[i] != 'n' && b[i] != 't' && b[i] != 'r' {
				return false
			}
		} else if b[i] != ' ' {
			return false
		}
	}
	return true
}

// number returns the value of a JSON number; ok is false for anything else.
func number(raw []byte) (f float64, ok bool) {
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil
}

// unquote returns the text of a string literal. Half of a surrogate pair, which
// no UTF-8 can hold, stays the escape that it was.
func unquote(raw []byte) []byte {
	b := inner(raw)
	i := bytes.IndexByte(b, '\\')
	if i < 0 {
		return b
	}
	out := append(make([]byte, 0, len(b)), b[:i]...)
	for i < len(b) {
		c := b[i]
		if c != '\\' || i+1 >= len(b) {
			out = append(out, c)
			i++
			continue
		}
		if b[i+1] != 'u' {
			out = append(out, plain(b[i+1]))
			i += 2
			continue
		}
		r, n := escapedRune(b[i:])
		if r < 0 {
			out = append(out, b[i:i+n]...)
		} else {
			out = utf8.AppendRune(out, r)
		}
		i += n
	}
	return out
}

// plain returns the character that a backslash and c stand for.
func plain(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// escapedRune reads the \u escape, or the pair of them, that b begins with and
// returns how long it is. r is -1 for half of a pair.
func escapedRune(b []byte) (r rune, n int) {
	first, ok := hex4(b)
	if !ok {
		return -1, min(len(b), 6)
	}
	if !utf16.IsSurrogate(first) {
		return first, 6
	}
	if second, ok := hex4(b[6:]); ok {
		if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
			return r, 12
		}
	}
	return -1, 6
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}

// quote appends text as a string literal. Only what must be escaped is.
func quote(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// compact appends raw without the white space between its tokens, and is
// otherwise byte for byte what raw is.
func compact(dst, raw []byte) []byte {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return append(dst, raw...) // it was valid when it came in
	}
	return append(dst, b.Bytes()...)
}

// comma appends a comma unless dst is empty or a bracket has just been opened.
func comma(dst []byte) []byte {
	if len(dst) == 0 || dst[len(dst)-1] == '[' || dst[len(dst)-1] == '{' {
		return dst
	}
	return append(dst, ',')
}
