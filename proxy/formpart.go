package proxy

import (
	"bytes"
	"strings"
)

// formPart is the header of one part of a form.
type formPart struct {
	name  string
	file  bool // it has a file name
	plain bool // its content is text as it stands
}

// readPart reads the header of a part, without the blank line that ends it. The
// error is an *Error.
func readPart(header, delim []byte) (formPart, error) {
	p := formPart{plain: true}
	if bytes.Contains(header, delim) {
		return p, badForm("its boundary occurs inside of a line")
	}
	named, typed := false, false
	for line := range bytes.SplitSeq(header, []byte("\r\n")) {
		name, value, err := headerLine(line)
		if err != nil {
			return p, err
		}
		switch strings.ToLower(name) {
		case "content-disposition":
			if named {
				return p, badForm("a part has two Content-Dispositions")
			}
			named = true
			if err := p.readDisposition(value); err != nil {
				return p, err
			}
		case "content-type":
			if typed {
				return p, badForm("a part has two Content-Types")
			}
			typed = true
			t := strings.ToLower(strings.ReplaceAll(value, " ", ""))
			if strings.HasPrefix(t, "multipart/") {
				return p, badForm("a part is a form of its own")
			}
			switch strings.ReplaceAll(t, `"`, "") {
			case "text/plain", "text/plain;charset=utf-8", "text/plain;charset=us-ascii":
			default:
				p.plain = false
			}
		case "content-transfer-encoding":
			switch strings.ToLower(value) {
			case "7bit", "8bit", "binary":
			default:
				return p, badForm("a part has a Content-Transfer-Encoding")
			}
		}
	}
	if !named {
		return p, badForm("a part has no name")
	}
	return p, nil
}

// headerLine splits one line of a part's header.
func headerLine(line []byte) (name, value string, err error) {
	for _, c := range line {
		if c < ' ' && c != '\t' || c == 0x7f {
			return "", "", badForm("the header of a part holds a control character")
		}
	}
	name, value, ok := strings.Cut(string(line), ":")
	if !ok || !isToken(name) {
		return "", "", badForm("the header of a part has a line that cannot be read")
	}
	return name, strings.Trim(value, " \t"), nil
}

func isToken(s string) bool {
	for _, c := range []byte(s) {
		if !isAlnum(c) && !strings.ContainsRune("!#$&+-.^_`|~*", rune(c)) {
			return false
		}
	}
	return s != ""
}

// readDisposition reads the value of Content-Disposition.
func (p *formPart) readDisposition(v string) error {
	kind, rest, _ := strings.Cut(v, ";")
	if !strings.EqualFold(strings.TrimSpace(kind), "form-data") {
		return badForm("a part is not form-data")
	}
	seen := make(map[string]bool, 2)
	for rest != "" {
		name, value, after, ok := cutParam(rest)
		rest = after
		lower := strings.ToLower(name)
		switch {
		case !ok:
			return badForm("a Content-Disposition cannot be read; a file name must have no quotation mark")
		case seen[lower]:
			return badForm("a Content-Disposition names something twice")
		case name == "name" && strings.Contains(value, `\`):
			return badForm("the name of a part holds a backslash")
		case name == "name":
			p.name = value
		case lower == "filename", lower == "filename*":
			p.file = true
			if l := strings.ToLower(value); strings.Contains(l, ";") && strings.Contains(l, "name") {
				return badForm("a file name looks like a parameter")
			}
		case strings.HasPrefix(lower, "name"), strings.HasPrefix(lower, "filename"):
			return badForm("a Content-Disposition names a part in an unusual way")
		}
		seen[lower] = true
	}
	if p.name == "" {
		return badForm("a part has no name")
	}
	return nil
}

// cutParam cuts one parameter off: name=token or name="text". A text with an
// escaped quotation mark is read differently by different readers.
func cutParam(s string) (name, value, rest string, ok bool) {
	name, s, ok = strings.Cut(strings.TrimLeft(s, " \t"), "=")
	if !ok || !isToken(name) {
		return "", "", "", false
	}
	if quoted, is := strings.CutPrefix(s, `"`); is {
		value, s, ok = strings.Cut(quoted, `"`)
		if !ok || strings.HasSuffix(value, `\`) {
			return "", "", "", false
		}
		s = strings.TrimLeft(s, " \t")
		if s == "" {
			return name, value, "", true
		}
		rest, ok = strings.CutPrefix(s, ";")
		return name, value, rest, ok && strings.TrimSpace(rest) != ""
	}
	value, rest, more := strings.Cut(s, ";")
	value = strings.TrimSpace(value)
	bare := !strings.ContainsAny(value, "\"\\ \t") && value != ""
	return name, value, rest, bare && (!more || strings.TrimSpace(rest) != "")
}
