package proxy

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/bits"
	"unicode/utf8"
)

// maxDepth bounds the nesting of JSON. No real request comes near it, and
// readers behind this one recurse.
const maxDepth = 1000

var (
	errSyntax = errors.New("not valid JSON")
	errDeep   = errors.New("nested too deeply")
)

// members walks the top level of one JSON object and validates all of it, in
// one pass and without an allocation. Validity is encoding/json's (strings may
// hold any bytes from 0x20 up), with nesting bounded by maxDepth.
type members struct {
	data []byte
	pos  int // after what was read
	err  error

	open    int    // position of the object's brace
	count   int    // members so far
	comma   int    // position of the comma before the member, -1 for the first
	key     []byte // without its quotes, escapes as they are
	escaped bool   // the key holds escapes
	keyAt   int    // position of the key's opening quote
	at, end int    // the value is data[at:end]
}

// newMembers starts at the object that data holds. Anything else there is an
// error that next will find.
func newMembers(data []byte) members {
	m := members{data: data}
	m.open = skipSpace(data, 0)
	if m.open >= len(data) || data[m.open] != '{' {
		m.err = errSyntax
		return m
	}
	m.pos = m.open + 1
	return m
}

// next moves to the next member. It returns false at the end of the object and
// at an error; afterwards err tells which.
func (m *members) next() bool {
	if m.err != nil {
		return false
	}
	i := skipSpace(m.data, m.pos)
	if i >= len(m.data) {
		return m.fail(errSyntax)
	}
	m.comma = -1
	switch c := m.data[i]; {
	case c == '}':
		m.pos = i + 1
		if skipSpace(m.data, m.pos) != len(m.data) {
			return m.fail(errSyntax)
		}
		return false
	case m.count > 0:
		if c != ',' {
			return m.fail(errSyntax)
		}
		m.comma = i
		i = skipSpace(m.data, i+1)
	}
	key, value, err := skipKey(m.data, i)
	if err != nil {
		return m.fail(err)
	}
	m.keyAt = i
	m.key = m.data[i+1 : key-1]
	m.escaped = hasEscape(m.key)
	m.at = skipSpace(m.data, value)
	if m.end, err = skipValue(m.data, m.at); err != nil {
		return m.fail(err)
	}
	m.pos = m.end
	m.count++
	return true
}

func (m *members) fail(err error) bool {
	m.err, m.pos = err, len(m.data)
	return false
}

// value returns the bytes of the member's value.
func (m *members) value() []byte { return m.data[m.at:m.end] }

func hasEscape(b []byte) bool {
	for _, c := range b {
		if c == '\\' {
			return true
		}
	}
	return false
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t') {
		i++
	}
	return i
}

// skipKey returns the ends of a key's string and of its colon.
func skipKey(data []byte, i int) (key, colon int, err error) {
	if i >= len(data) || data[i] != '"' {
		return 0, 0, errSyntax
	}
	if key, err = skipString(data, i+1); err != nil {
		return 0, 0, err
	}
	colon = skipSpace(data, key)
	if colon >= len(data) || data[colon] != ':' {
		return 0, 0, errSyntax
	}
	return key, colon + 1, nil
}

// nesting remembers for each level whether it is an object.
type nesting struct {
	object [maxDepth/64 + 1]uint64
	depth  int
}

func (n *nesting) push(object bool) error {
	if n.depth == maxDepth {
		return errDeep
	}
	bit := uint64(1) << (n.depth % 64)
	n.object[n.depth/64] &^= bit
	if object {
		n.object[n.depth/64] |= bit
	}
	n.depth++
	return nil
}

func (n *nesting) inObject() bool {
	d := n.depth - 1
	return n.object[d/64]&(1<<(d%64)) != 0
}

// skipValue returns the end of the value at i. It keeps its own stack: hostile
// nesting must not grow the goroutine's.
func skipValue(data []byte, i int) (int, error) {
	var n nesting
	for {
		i = skipSpace(data, i)
		if i >= len(data) {
			return 0, errSyntax
		}
		c := data[i]
		if c == '{' || c == '[' {
			inner := skipSpace(data, i+1)
			if inner < len(data) && data[inner] == c+2 { // '}' is '{'+2, ']' is '['+2
				i = inner + 1
			} else {
				if err := n.push(c == '{'); err != nil {
					return 0, err
				}
				i = inner
				if c == '{' {
					var err error
					if _, i, err = skipKey(data, i); err != nil {
						return 0, err
					}
				}
				continue
			}
		} else {
			var err error
			if i, err = skipScalar(data, i); err != nil {
				return 0, err
			}
		}
		var done bool
		var err error
		if i, done, err = n.after(data, i); done || err != nil {
			return i, err
		}
	}
}

// after goes on behind a value: closes what ends there and finds the next
// value's place. done is true when the outermost value has ended at i.
func (n *nesting) after(data []byte, i int) (next int, done bool, err error) {
	for n.depth > 0 {
		i = skipSpace(data, i)
		if i >= len(data) {
			return 0, false, errSyntax
		}
		object := n.inObject()
		switch c := data[i]; {
		case c == ',' && object:
			_, i, err = skipKey(data, skipSpace(data, i+1))
			return i, false, err
		case c == ',':
			return i + 1, false, nil
		case c == '}' && object, c == ']' && !object:
			n.depth--
			i++
		default:
			return 0, false, errSyntax
		}
	}
	return i, true, nil
}

func skipScalar(data []byte, i int) (int, error) {
	switch data[i] {
	case '"':
		return skipString(data, i+1)
	case 't':
		return skipWord(data, i, "true")
	case 'f':
		return skipWord(data, i, "false")
	case 'n':
		return skipWord(data, i, "null")
	}
	return skipNumber(data, i)
}

func skipWord(data []byte, i int, word string) (int, error) {
	end := i + len(word)
	if end > len(data) || string(data[i:end]) != word {
		return 0, errSyntax
	}
	return end, nil
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipString returns the end of the string whose content starts at i. It looks
// at eight bytes at a time for what can end or break a string.
func skipString(data []byte, i int) (int, error) {
	for {
		for i+8 <= len(data) {
			x := binary.LittleEndian.Uint64(data[i:])
			quote, slash := x^(ones*'"'), x^(ones*'\\')
			found := ((x - ones*0x20) &^ x) | ((quote - ones) &^ quote) | ((slash - ones) &^ slash)
			if found &= highs; found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
			i += 8
		}
		if i >= len(data) {
			return 0, errSyntax
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1, nil
		case c < 0x20:
			return 0, errSyntax
		case c != '\\':
			i++
			continue
		}
		n := escapeLen(data[i:])
		if n == 0 {
			return 0, errSyntax
		}
		i += n
	}
}

// escapeLen returns the length of the escape at the start of b, 0 for none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				return 0
			}
		}
		return 6
	}
	return 0
}

func skipNumber(data []byte, i int) (int, error) {
	if i < len(data) && data[i] == '-' {
		i++
	}
	switch {
	case i < len(data) && data[i] == '0':
		i++
	default:
		end := skipDigits(data, i)
		if end == i {
			return 0, errSyntax
		}
		i = end
	}
	if i < len(data) && data[i] == '.' {
		end := skipDigits(data, i+1)
		if end == i+1 {
			return 0, errSyntax
		}
		i = end
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		end := skipDigits(data, i)
		if end == i {
			return 0, errSyntax
		}
		i = end
	}
	return i, nil
}

func skipDigits(data []byte, i int) int {
	for i < len(data) && data[i] >= '0' && data[i] <= '9' {
		i++
	}
	return i
}

// text returns the value of a JSON string with its quotes. ok is false for
// anything else, and for one that is not UTF-8.
func text(raw []byte) (s string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' || !utf8.Valid(raw) {
		return "", false
	}
	if !hasEscape(raw) {
		return string(raw[1 : len(raw)-1]), true
	}
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

// count returns a JSON number as a whole number ≥ 0, saturated. ok is false
// for anything that is none.
func count(raw []byte) (n int64, ok bool) {
	if len(raw) == 0 {
		return 0, false
	}
	for i, c := range raw {
		if c < '0' || c > '9' || i == 18 {
			return countFloat(raw)
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// countFloat is count for what is not plain digits, such as 6e1 or 60.0.
func countFloat(raw []byte) (int64, bool) {
	var f float64
	if raw[0] < '0' || raw[0] > '9' || json.Unmarshal(raw, &f) != nil || f < 0 || f != math.Trunc(f) {
		return 0, false
	}
	return int64(min(f, 1<<53)), true
}

// appendText appends s as a JSON string.
func appendText(dst []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
