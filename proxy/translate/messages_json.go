package translate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// msgMaxDepth bounds the nesting of JSON that is looked at. No real request
// comes near it.
const msgMaxDepth = 1000

// msgValid reports whether data is one JSON value and not nested too deeply.
// Everything below walks only what has passed it, and so never meets an end or
// a byte that it does not expect.
func msgValid(data []byte) bool {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = msgStringEnd(data, i) - 1
		case '{', '[':
			if depth++; depth > msgMaxDepth {
				return false
			}
		case '}', ']':
			depth--
		}
	}
	return json.Valid(data)
}

func msgSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t') {
		i++
	}
	return i
}

// msgTrim returns data without the white space around its value.
func msgTrim(data []byte) []byte {
	from, to := msgSpace(data, 0), len(data)
	for to > from && msgSpace(data[to-1:to], 0) == 1 {
		to--
	}
	return data[from:to]
}

// msgStringEnd returns the end of the string that starts at i.
func msgStringEnd(data []byte, i int) int {
	i++
	for quote := -1; ; {
		if quote < i {
			n := bytes.IndexByte(data[min(i, len(data)):], '"')
			if n < 0 {
				return len(data)
			}
			quote = i + n
		}
		n := bytes.IndexByte(data[i:quote], '\\')
		if n < 0 {
			return quote + 1
		}
		i += n + 2
	}
}

// msgEnd returns the end of the value that starts at i.
func msgEnd(data []byte, i int) int {
	depth := 0
	for i < len(data) {
		switch data[i] {
		case '"':
			i = msgStringEnd(data, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',', ':', ' ', '\n', '\r', '\t':
		default:
			for i+1 < len(data) && !msgEndsWord(data[i+1]) {
				i++
			}
		}
		if i++; depth == 0 {
			break
		}
	}
	return min(i, len(data))
}

func msgEndsWord(c byte) bool {
	return c == ',' || c == '}' || c == ']' || c == ':' || c <= ' '
}

// msgMembers yields the members of the object raw: their names with escapes
// resolved, and their values as they are written. Anything but an object has
// none.
func msgMembers(raw []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		if len(raw) == 0 || raw[0] != '{' {
			return
		}
		for i := msgSpace(raw, 1); i < len(raw) && raw[i] == '"'; i = msgSpace(raw, i) {
			end := msgEnd(raw, i)
			name := raw[i+1 : end-1]
			if bytes.IndexByte(name, '\\') >= 0 {
				name = msgText(raw[i:end])
			}
			at := msgSpace(raw, msgSpace(raw, end)+1)
			i = msgEnd(raw, at)
			if !yield(name, raw[at:i]) {
				return
			}
			if i = msgSpace(raw, i); i < len(raw) && raw[i] == ',' {
				i++
			}
		}
	}
}

// msgElements yields the elements of the array raw as they are written.
// Anything but an array has none.
func msgElements(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(raw) == 0 || raw[0] != '[' {
			return
		}
		for i := msgSpace(raw, 1); i < len(raw) && raw[i] != ']'; i = msgSpace(raw, i) {
			at := i
			i = msgEnd(raw, at)
			if !yield(raw[at:i]) {
				return
			}
			if i = msgSpace(raw, i); i < len(raw) && raw[i] == ',' {
				i++
			}
		}
	}
}

// msgMember returns the value of the last member of that name, nil if there is
// none or it is null. For answers: there the last one is as good as any.
func msgMember(raw []byte, name string) (value []byte) {
	for n, v := range msgMembers(raw) {
		if string(n) == name {
			value = msgNotNull(v)
		}
	}
	return value
}

// msgPick is msgMember for several names in one pass.
func msgPick(raw []byte, fields ...msgField) {
	for name, value := range msgMembers(raw) {
		for i := range fields {
			if fields[i].name == string(name) {
				*fields[i].into = msgNotNull(value)
			}
		}
	}
}

func msgNotNull(raw []byte) []byte {
	if len(raw) == 0 || raw[0] == 'n' {
		return nil
	}
	return raw
}

func msgIsString(raw []byte) bool { return len(raw) >= 2 && raw[0] == '"' }

// msgFilled reports whether raw is a string that is not empty.
func msgFilled(raw []byte) bool { return msgIsString(raw) && len(raw) > 2 }

// msgText returns what the JSON string raw says. A surrogate without its other
// half has no UTF-8: it stays the escape that it is, so that text which is
// itself JSON says the same as before.
func msgText(raw []byte) []byte {
	if !msgIsString(raw) {
		return nil
	}
	in := raw[1 : len(raw)-1]
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); i++ {
		if in[i] != '\\' || i+1 == len(in) {
			out = append(out, in[i])
			continue
		}
		i++
		switch in[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, n := msgRune(in[i-1:])
			if n == 0 {
				out = append(out, in[i-1:min(i+5, len(in))]...)
				i += 4
				break
			}
			out = utf8.AppendRune(out, r)
			i += n - 2
		default:
			out = append(out, in[i])
		}
	}
	return out
}

// msgRune reads the \u escape, or the pair of them, that b starts with and
// returns its length, 0 for half a pair.
func msgRune(b []byte) (r rune, n int) {
	unit := func(at int) (rune, bool) {
		if at+6 > len(b) || b[at] != '\\' || b[at+1] != 'u' {
			return 0, false
		}
		v, err := strconv.ParseUint(string(b[at+2:at+6]), 16, 16)
		return rune(v), err == nil
	}
	first, ok := unit(0)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(first) {
		return first, 6
	}
	second, ok := unit(6)
	if r := utf16.DecodeRune(first, second); ok && r != utf8.RuneError {
		return r, 12
	}
	return 0, 0
}

// msgAppendText appends text as a JSON string.
func msgAppendText[T string | []byte](dst []byte, text T) []byte {
	return append(msgAppendInner(append(dst, '"'), text), '"')
}

// msgAppendInner appends what stands between the quotes of text's JSON string.
func msgAppendInner[T string | []byte](dst []byte, text T) []byte {
	const hexDigits = "0123456789abcdef"
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// msgAppendJoined appends one JSON string made of the JSON strings raws, each
// as it is written, with between (written as in JSON) in the gaps.
func msgAppendJoined(dst []byte, between string, raws [][]byte) []byte {
	dst = append(dst, '"')
	for i, raw := range raws {
		if i > 0 {
			dst = append(dst, between...)
		}
		dst = append(dst, raw[1:len(raw)-1]...)
	}
	return append(dst, '"')
}

// msgAppendCompact appends raw without the white space between its tokens.
func msgAppendCompact(dst, raw []byte) []byte {
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case ' ', '\n', '\r', '\t':
		case '"':
			end := msgEnd(raw, i)
			dst = append(dst, raw[i:end]...)
			i = end - 1
		default:
			dst = append(dst, raw[i])
		}
	}
	return dst
}

// msgCount returns a JSON number as a whole number from 0 to 2^40, 0 for
// anything else.
func msgCount(raw []byte) int64 {
	const most = 1 << 40
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(f > 0) {
		return 0
	}
	return int64(min(f, most))
}

// msgField is one member of a request's object that the translation knows.
type msgField struct {
	name string
	into *[]byte // nil: the member is left out of the translation
	seen bool
}

func msgTake(name string, into *[]byte) msgField { return msgField{name: name, into: into} }

func msgDrop(name string) msgField { return msgField{name: name} }

// msgRead reads an object of a request. Each of its members is taken, dropped,
// or an error that names it: nothing gets lost by not being known, and what is
// there twice or in another spelling is not guessed at. at is the object's
// place in the request, "" for the whole of it. null counts as absent.
func msgRead(at string, raw []byte, fields ...msgField) error {
	if len(raw) == 0 || raw[0] != '{' {
		return msgErrorf(at, "must be an object")
	}
members:
	for name, value := range msgMembers(raw) {
		for i := range fields {
			f := &fields[i]
			if f.name != string(name) {
				continue
			}
			if f.seen {
				return msgErrorf(msgPath(at, f.name), "is there more than once")
			}
			f.seen = true
			if f.into != nil {
				*f.into = msgNotNull(value)
			}
			continue members
		}
		return msgErrorf(msgPath(at, string(name)), "is a field that cannot be translated for an OpenAI-type upstream")
	}
	return nil
}

// msgPath returns the place of a member or element below at.
func msgPath[T string | int](at string, below T) string {
	if at == "" {
		return fmt.Sprint(below)
	}
	return at + "." + fmt.Sprint(below)
}

// msgErrorf returns an *Error for the place at; what is wrong reads on from it.
func msgErrorf(at, format string, args ...any) error {
	const most = 200 // a place may hold a name of the client's, of any length
	if len(at) > most {
		at = at[:most] + "…"
	}
	what := fmt.Sprintf(format, args...)
	if at == "" {
		return &Error{Message: "The body of the request " + what + "."}
	}
	return &Error{Param: at, Message: at + " " + what + "."}
}
