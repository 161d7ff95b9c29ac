package config

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// lines maps the path of every key of a TOML document, and of every element of
// its arrays, to the line it stands on, counted from 1:
//
//	gateway.listen   models[1].deployments[0].rpm   priority_reservation."my prod".type
//
// The decoder keeps no positions of what it has accepted, so this package
// finds them itself.
type lines map[string]int

// of returns the line of path, or of the nearest thing around it that has
// one, or 0.
func (l lines) of(path string) int {
	for ; path != ""; path = parent(path) {
		if n, ok := l[path]; ok {
			return n
		}
	}
	return 0
}

// parent cuts the last key or index off path.
func parent(path string) string {
	quoted := false
	cut := 0
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '.' || c == '['):
			cut = i
		}
	}
	return path[:cut]
}

// maxPath bounds the paths that the locator makes, in bytes: what lies deeper is
// reported as the line of what is around it. Without a bound a small file of
// nothing but brackets would take minutes.
const maxPath = 4096

// join appends a key to a path, quoted where TOML would need it.
func join(path, key string) string {
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return !bare(r) }) {
		key = quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func bare(r rune) bool {
	return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// locate finds the keys of a document that the decoder has accepted. On
// anything else it ends early; it never fails.
func locate(src string) lines {
	s := &locator{src: src, line: 1, found: lines{}, last: map[string]int{}}
	base := ""
	for s.blank(true); s.pos < len(s.src); s.blank(true) {
		before := s.pos
		if s.src[s.pos] == '[' {
			base = s.header()
		} else {
			s.keyValue(base)
		}
		if s.pos == before {
			break
		}
	}
	return s.found
}

// locator is a cursor over a document.
type locator struct {
	src   string
	pos   int
	line  int
	found lines
	last  map[string]int // path of an array of tables → index of its newest element
}

// header reads "[a.b]" or "[[a.b]]" and returns the path of the table it opens.
func (s *locator) header() string {
	s.pos++
	array := s.at("[")
	if array {
		s.pos++
	}
	parts := s.key()
	for s.at("]") {
		s.pos++
	}
	path := ""
	for i, part := range parts {
		if len(path) >= maxPath {
			break
		}
		path = join(path, part)
		s.note(path)
		n, isArray := s.last[path]
		if array && i == len(parts)-1 {
			if isArray {
				n++
			}
			s.last[path], isArray = n, true
		}
		if isArray {
			path = index(path, n)
			s.note(path)
		}
	}
	return path
}

// keyValue reads "a.b = value" in the table at base.
func (s *locator) keyValue(base string) {
	path := base
	for _, part := range s.key() {
		if len(path) < maxPath {
			path = join(path, part)
		}
		s.note(path)
	}
	s.blank(false)
	if !s.at("=") {
		return
	}
	s.pos++
	s.value(path)
}

// value skips one value and notes what lies in it.
func (s *locator) value(path string) {
	s.blank(false)
	switch {
	case s.at(`"""`), s.at(`'''`):
		s.multiline(s.src[s.pos : s.pos+3])
	case s.at(`"`), s.at(`'`):
		s.quoted()
	case s.at("["):
		s.pos++
		for i, stuck := 0, false; !stuck && s.more(']'); i++ {
			before := s.pos
			element := path
			if len(path) < maxPath {
				element = index(path, i)
			}
			s.note(element)
			s.value(element)
			stuck = s.pos == before
		}
	case s.at("{"):
		s.pos++
		for stuck := false; !stuck && s.more('}'); {
			before := s.pos
			s.keyValue(path)
			stuck = s.pos == before
		}
	default:
		for s.pos < len(s.src) && !strings.ContainsRune(",]}#\r\n", rune(s.src[s.pos])) {
			s.pos++
		}
	}
}

// more steps over what separates the elements of an array or inline table. It
// reports false, past the end, when there are no more, or no way on.
func (s *locator) more(end byte) bool {
	s.blank(true)
	if s.at(",") {
		s.pos++
		s.blank(true)
	}
	if s.pos >= len(s.src) {
		return false
	}
	if s.src[s.pos] == end {
		s.pos++
		return false
	}
	return !strings.ContainsRune(",]}=", rune(s.src[s.pos]))
}

// key reads a dotted key and leaves the cursor behind it.
func (s *locator) key() (parts []string) {
	for {
		s.blank(false)
		switch {
		case s.at(`"`), s.at(`'`):
			parts = append(parts, s.quoted())
		default:
			start := s.pos
			for s.pos < len(s.src) && !strings.ContainsRune(" \t\r\n.=]}#,\"'", rune(s.src[s.pos])) {
				s.pos++
			}
			if s.pos == start {
				return parts
			}
			parts = append(parts, s.src[start:s.pos])
		}
		s.blank(false)
		if !s.at(".") {
			return parts
		}
		s.pos++
	}
}

// quoted reads a one-line string and returns what it means.
func (s *locator) quoted() string {
	start, quote := s.pos, s.src[s.pos]
	for s.pos++; s.pos < len(s.src) && s.src[s.pos] != quote && s.src[s.pos] != '\n'; s.pos++ {
		if quote == '"' && s.src[s.pos] == '\\' {
			s.pos++
		}
	}
	s.pos = min(s.pos+1, len(s.src))
	text := strings.TrimSuffix(s.src[start+1:s.pos], string(quote))
	if quote == '"' {
		return unescape(text)
	}
	return text
}

// unescape resolves the escapes of a basic string.
func unescape(s string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i+1 == len(s) {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i+1]]
		if plain := strings.IndexByte(`btnfre"\`, s[i+1]); digits == 0 && plain >= 0 {
			b.WriteByte("\b\t\n\f\r\x1b\"\\"[plain])
		}
		s = s[i+2:]
		if digits > 0 && digits <= len(s) {
			if n, err := strconv.ParseUint(s[:digits], 16, 32); err == nil {
				b.WriteRune(rune(n))
			}
			s = s[digits:]
		}
	}
}

// multiline skips a string between triple quotes, which may end in up to two
// quotes of its own.
func (s *locator) multiline(quotes string) {
	for s.pos += 3; s.pos < len(s.src) && !s.at(quotes); s.pos++ {
		if s.src[s.pos] == '\n' {
			s.line++
		}
		if quotes[0] == '"' && s.src[s.pos] == '\\' && s.pos+1 < len(s.src) && s.src[s.pos+1] != '\n' {
			s.pos++
		}
	}
	s.pos = min(s.pos+3, len(s.src))
	for s.at(quotes[:1]) {
		s.pos++
	}
}

// blank skips spaces, and with newlines also line ends and comments.
func (s *locator) blank(newlines bool) {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == ' ' || c == '\t':
		case newlines && c == '\r':
		case newlines && c == '\n':
			s.line++
		case newlines && c == '#':
			for s.pos < len(s.src) && s.src[s.pos] != '\n' {
				s.pos++
			}
			continue
		default:
			return
		}
		s.pos++
	}
}

func (s *locator) at(text string) bool { return strings.HasPrefix(s.src[s.pos:], text) }

// note remembers where path stands first.
func (s *locator) note(path string) {
	if _, ok := s.found[path]; !ok && utf8.ValidString(path) {
		s.found[path] = s.line
	}
}
